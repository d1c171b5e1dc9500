/* What a scan tells of one function. */
#ifndef KB_DESCRIBED_H
#define KB_DESCRIBED_H

#include "source/kb_annotation.h"
#include "source/kb_declaration.h"

#define KB_STYLE_LIST(X)                                                                           \
    X(DEFINITION, "definition")                                                                    \
    X(PROTOTYPE, "prototype")                                                                      \
    X(MACRO, "macro")                                                                              \
    X(UNKNOWN, "unknown")

typedef enum kb_style {
#define KB_STYLE_ENTRY(NAME, name) KB_STYLE_##NAME,
    KB_STYLE_LIST(KB_STYLE_ENTRY)
#undef KB_STYLE_ENTRY
} kb_style;

typedef struct kb_described_parameter {
    kb_role role;
    kb_text name;      /* of an attribute; else the parameter's own, or empty */
    kb_attr_type type; /* of an attribute; of a kernel's array, its elements */
    kb_text ctype;     /* as spelled; empty if the function was not found */
} kb_described_parameter;

typedef struct kb_described {
    kb_text name;
    kb_text qualified; /* "::a::name"; the name alone if the function was not found */
    uint32_t line;     /* of the function; if it was not found, of its annotation; or 0 */
    kb_style style;
    kb_returns returns;
    bool whole_call; /* takes a const kb_call *; without parameters here, any tensors */
    kb_described_parameter *parameters;
    uint32_t n_parameters;
} kb_described;

#endif
