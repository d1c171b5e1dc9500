/* Look-up of a call's attributes by name and type. Linear: a call of ours has three. Inline, so
 * that the comparison with a literal is one instruction. Any thread may enter. */
#ifndef KB_ATTRS_H
#define KB_ATTRS_H

#include "abi/kb_xla.h"

#include <stdbool.h>
#include <string.h>

static inline bool kb_attrs_named(const kb_xla_bytes *span, const char *name, size_t name_size)
{
    return span->size == name_size && memcmp(span->data, name, name_size) == 0;
}

/* The value (a kb_xla_scalar, kb_xla_array, ... by `type`), or NULL when there is no attribute of
 * that name, or it has another type. */
static inline const void *kb_attrs_find(const kb_xla_attrs *attrs, const char *name,
                                        size_t name_size, int32_t type)
{
    for (int64_t i = 0; i < attrs->size; i++) {
        if (kb_attrs_named(attrs->names[i], name, name_size))
            return attrs->types[i] == type ? attrs->values[i] : NULL;
    }
    return NULL;
}

/* For a name that is a string literal. */
#define KB_ATTRS_FIND(attrs, name, type) kb_attrs_find(attrs, name, sizeof(name) - 1, type)

#endif
