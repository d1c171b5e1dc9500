/* The bytes of an image and the library that the driver made of them.
 *
 * Code is shared by content: functions whose images have the same bytes hold one copy, which is
 * loaded once. Those functions own it together, and it is released with the last of them. The bytes
 * stay after the code was loaded: a program that brings an image of the same digest is compared
 * with them, and another function of the same content finds them. Any thread may enter. */
#ifndef KB_CODE_H
#define KB_CODE_H

#include "core/kb_error.h"
#include "cuda/kb_driver.h"

#include <stddef.h>

typedef struct kb_code kb_code;

/* Holds the code of this content, made of a copy of `bytes` if it is new. NULL when there is no
 * memory. */
kb_code *kb_code_hold(const void *bytes, size_t size);

/* Ends a hold. The last one unloads the library and frees the code. */
void kb_code_drop(kb_code *code);

/* The copy, aligned as cubins must be, with a NUL behind it. */
const void *kb_code_bytes(const kb_code *code);

/* Loads the code once, whoever asks first; others wait for that one alone. No lock that another
 * function of this header takes is held meanwhile. After a failure the next call tries again.
 * `what` names the operation. */
kb_status kb_code_load(kb_code *code, const kb_driver *cu, const char *what, kb_cu_library *library,
                       kb_error *err);

/* How many there are, and their bytes. */
void kb_code_count(size_t *codes, size_t *bytes);

#endif
