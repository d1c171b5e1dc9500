/* Owns the names of kernels in messages. */
#include "cuda/kb_entry_name.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_HASH = 12, BASE = 10 }; /* as kernbridge._src.numba_cuda.compile writes them */

static const char module[] = "_ZN10kernbridge";

/* Whether a name of `n` characters ends in "_" and a hash. */
static bool is_numbered(const char *name, size_t n)
{
    if (n <= N_HASH + 1 || name[n - N_HASH - 1] != '_')
        return false;
    return strspn(name + n - N_HASH, "0123456789abcdef") >= N_HASH;
}

const char *kb_entry_name(const char *entry, char text[], size_t size)
{
    (void)snprintf(text, size, "%s", entry);
    if (strncmp(entry, module, sizeof module - 1) != 0)
        return text;
    char *name = NULL;
    unsigned long n = strtoul(entry + sizeof module - 1, &name, BASE);
    if (n > strlen(name) || !is_numbered(name, n))
        return text;
    (void)snprintf(text, size, "%.*s", (int)(n - N_HASH - 1), name);
    return text;
}
