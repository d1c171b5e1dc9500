/* Names of kernels as their authors wrote them, for messages. */
#ifndef KB_ENTRY_NAME_H
#define KB_ENTRY_NAME_H

#include <stddef.h>

/* The name in `entry`: of "_ZN10kernbridge18scale_0123456789abB2v1...", which Numba makes of a
 * kernel that we named, "scale"; any other entry as it is. Writes to `text`, and returns it. */
const char *kb_entry_name(const char *entry, char text[], size_t size);

#endif
