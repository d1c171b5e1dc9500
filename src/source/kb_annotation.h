/* Annotations: what they name, and the grammar of their tokens. Not to be entered by two threads.
 */
#ifndef KB_ANNOTATION_H
#define KB_ANNOTATION_H

#include "core/kb_arena.h"
#include "source/kb_attr_type.h"
#include "source/kb_place.h"
#include "source/kb_token.h"

typedef enum kb_role {
    KB_ROLE_ARG,
    KB_ROLE_RET,
    KB_ROLE_ATTR,
    KB_ROLE_STREAM,
    KB_ROLE_ANY /* all arrays of a call */
} kb_role;

/* "arg", "ret", "attr", "stream", "any". */
const char *kb_role_name(kb_role role);

/* One token, which describes one parameter. */
typedef struct kb_spec {
    kb_text text;
    uint32_t at; /* its offset in the source */
    kb_role role;
    kb_text name;      /* of an attribute */
    kb_attr_type type; /* KB_ATTR_NONE: the type in the signature */
    kb_text array;     /* the declared type of an array, which is not read here; or empty */
} kb_spec;

typedef enum kb_origin {
    KB_ANNOTATED, /* a comment */
    KB_GIVEN_FUNCTION,
    KB_GIVEN_KERNEL
} kb_origin;

enum { KB_ANNOTATION_TOKENS = 1024 }; /* at most */

typedef struct kb_annotation {
    kb_text name;
    uint32_t at; /* the name's offset in the source; 0 if it was given */
    kb_origin origin;
    kb_text given; /* what the caller calls it */
    bool infer;    /* no tokens: everything is read off the signature */
    kb_spec *specs;
    uint32_t n_specs;
} kb_annotation;

/* Reads the text of a comment, from "@BE" on. */
kb_status kb_annotation_read(const kb_token *comment, const kb_places *places, kb_arena *arena,
                             kb_annotation *a, kb_error *err);

/* The name alone, for who looks for one; empty if there is none. */
kb_text kb_annotation_name(const kb_token *comment);

/* Reads the tokens of a caller: `name`, `origin`, `given` and `infer` are set. */
kb_status kb_annotation_give(kb_annotation *a, kb_text tokens, kb_arena *arena, kb_error *err);

/* True for a C identifier of ASCII that is no keyword of C++. */
bool kb_annotation_is_name(kb_text name);

enum { KB_AT_NAME = UINT32_MAX };

/* An error at token `index` or at KB_AT_NAME: its place, or how it was given, and the message. */
KB_COLD kb_status kb_annotation_error(const kb_annotation *a, const kb_places *places,
                                      uint32_t index, kb_error *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
