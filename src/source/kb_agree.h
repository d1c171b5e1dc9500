/* Brings an annotation and a declaration together. Types are none of its business: the compiler
 * compares them. Not to be entered by two threads. */
#ifndef KB_AGREE_H
#define KB_AGREE_H

#include "source/kb_annotation.h"
#include "source/kb_declaration.h"
#include "source/kb_parameter.h"

typedef struct kb_described_parameter {
    kb_role role;
    kb_text name;      /* of an attribute; else the parameter's own, or empty */
    kb_attr_type type; /* of an attribute, if the annotation has it */
    kb_text array;     /* of an array, if the annotation has it: its declared type */
    kb_text ctype;     /* as spelled; empty if the function was not found */
    bool bytes;        /* the function sees bytes, not what they are */
} kb_described_parameter;

/* The result of a scan for one function. */
typedef struct kb_described {
    kb_text name;
    kb_text qualified; /* "::a::name"; the name alone if the function was not found */
    uint32_t line;     /* of the function; if it was not found, of its annotation; or 0 */
    bool whole_call;   /* takes a const kb_call *; without parameters here, any arrays */
    kb_described_parameter *parameters;
    uint32_t n_parameters;
} kb_described;

typedef struct kb_agreement {
    const kb_places *places;
    const kb_tokens *tokens;
    kb_arena *arena;
    const kb_annotation *annotation;
    const kb_declaration *declaration; /* NULL: not found */
    bool kernel;
    bool bytes;               /* C, or machine code: it sees the bytes of its arrays and no types */
    kb_parameters parameters; /* of the declaration */
    kb_described *described;  /* the result */
} kb_agreement;

/* Fills in the result. KB_INVALID_ARGUMENT if the two disagree, or are not complete. */
kb_status kb_agree(kb_agreement *g, kb_error *err);

#endif
