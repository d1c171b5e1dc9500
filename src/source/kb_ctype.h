/* What a C or C++ type is to us, by its spelling alone. Any thread may enter. */
#ifndef KB_CTYPE_H
#define KB_CTYPE_H

#include "source/kb_attr_type.h"
#include "source/kb_token.h"

typedef enum kb_ctype_kind {
    KB_CTYPE_VALUE,     /* by value: a scalar of known type, or anything else */
    KB_CTYPE_TENSOR,    /* Tensor by value or reference, kb_tensor by pointer */
    KB_CTYPE_STREAM,    /* cudaStream_t and its other names */
    KB_CTYPE_CALL,      /* const kb_call * */
    KB_CTYPE_POINTER,   /* to anything else */
    KB_CTYPE_REFERENCE, /* to anything else */
    KB_CTYPE_OTHER      /* arrays, functions, packs, pointers to pointers */
} kb_ctype_kind;

typedef struct kb_ctype {
    kb_ctype_kind kind;
    bool pointer;         /* a single one, whatever the kind */
    bool constant;        /* of a pointer or a reference: what it refers to */
    kb_attr_type scalar;  /* if every compiler gives it the same width */
    kb_attr_type element; /* of an array of it: half types, long and size_t too, on 64-bit Linux */
    bool is_int64_t;      /* under this very name */
} kb_ctype;

/* Walks through a type. All zero: its begin. */
typedef struct kb_angles {
    size_t open;
    size_t parens; /* within them */
} kb_angles;

/* True for a token between < and >, these two among them. */
bool kb_angles_inside(kb_angles *angles, const kb_token *t);

/* The type that `n` tokens spell; they hold no parameter's name, default or [[attribute]]. */
kb_ctype kb_ctype_of(const kb_token *tokens, size_t n);

/* True for a word that can be nothing but a part of a type: int, unsigned, const, struct... */
bool kb_ctype_is_keyword(kb_text word);

/* True for a word that adds nothing to what a type is: const, struct, __restrict__... */
bool kb_ctype_is_qualifier(kb_text word);

#endif
