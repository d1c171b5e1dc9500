/* The parameters of a function, from the tokens of its declaration: how many they are, what they
 * are called, and what each looks like. What their types are only the compiler knows. Not to be
 * entered by two threads. */
#ifndef KB_PARAMETER_H
#define KB_PARAMETER_H

#include "core/kb_arena.h"
#include "core/kb_error.h"
#include "source/kb_token.h"

/* What a parameter is for, as far as the words of its declaration show. */
typedef enum kb_look {
    KB_LOOKS_VALUE,   /* and anything else */
    KB_LOOKS_POINTER, /* or an array */
    KB_LOOKS_TENSOR,  /* Tensor */
    KB_LOOKS_BYTES,   /* a pointer to kb_tensor */
    KB_LOOKS_STREAM,  /* cudaStream_t and its other names; int64_t stream */
    KB_LOOKS_CALL     /* a pointer to kb_call */
} kb_look;

typedef struct kb_parameter {
    kb_text name;  /* empty if it has none */
    kb_text ctype; /* as spelled, without the name, with single blanks */
    kb_look look;
    bool constant; /* before the first * or & */
    uint32_t at;
    uint32_t i; /* counted from 0 */
} kb_parameter;

typedef struct kb_parameters {
    kb_parameter *at;
    uint32_t n;
} kb_parameters;

/* Reads what stands between the parentheses. Memory is the arena's; texts lie in it and in the
 * source. Fails only for want of memory. */
kb_status kb_parameters_read(const kb_token *tokens, size_t n, kb_arena *arena,
                             kb_parameters *parameters, kb_error *err);

#endif
