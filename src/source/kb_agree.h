/* Brings an annotation and a signature together. Not to be entered by two threads. */
#ifndef KB_AGREE_H
#define KB_AGREE_H

#include "source/kb_described.h"
#include "source/kb_parameter.h"
#include "source/kb_signature.h"

typedef struct kb_agreement {
    const kb_places *places;
    const kb_tokens *outline;
    kb_arena *arena;
    const kb_annotation *annotation;
    const kb_signature *signature; /* NULL: not found */
    kb_parameters parameters;      /* of the signature */
    kb_described *described;       /* the result */
} kb_agreement;

/* Fills in what does not depend on roles, and reads the parameters. */
kb_status kb_agree_begin(kb_agreement *g, kb_error *err);

/* The rest, for a function that is called with tensors, or with a whole call. */
kb_status kb_agree_function(kb_agreement *g, kb_error *err);

/* The rest, for a kernel, which is called with arrays and numbers. */
kb_status kb_agree_kernel(kb_agreement *g, kb_error *err);

/* Of what the two share. `index` is a token or KB_AT_NAME; `p` may be NULL. */
KB_COLD kb_status kb_disagree(const kb_agreement *g, uint32_t index, const kb_parameter *p,
                              kb_error *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* "parameter 3 'n'". */
typedef struct kb_parameter_label {
    char text[160];
} kb_parameter_label;

kb_parameter_label kb_label(const kb_parameter *p);

/* Adds a parameter to the result, which has room for all. */
void kb_describe(kb_agreement *g, kb_role role, kb_text name, kb_attr_type type,
                 const kb_parameter *p);

/* An inferred attribute must have a name. */
kb_status kb_agree_name(const kb_agreement *g, const kb_parameter *p, kb_error *err);

/* Tokens and parameters must be as many. */
kb_status kb_agree_count(const kb_agreement *g, kb_error *err);

/* It must return void, if that is known, or where it may an int. */
kb_status kb_agree_returns(const kb_agreement *g, bool may_int, kb_error *err);

/* There must be a result. */
kb_status kb_agree_ret(const kb_agreement *g, kb_error *err);

#endif
