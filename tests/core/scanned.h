/* What the tests of the scanner share: a scan of a text that lies in a block of exactly its size,
 * and its result as one line of text. One thread. */
#ifndef SCANNED_H
#define SCANNED_H

#include "kb_test.h"
#include "source/kb_scan.h"

#include <stdlib.h>

typedef struct scanned {
    char *source;
    kb_scan scan;
    kb_status status;
    kb_error err;
    char text[4096]; /* see scanned_tell */
} scanned;

/* "name role:name:type,... " of each function, with the declared types of arrays, a message if
 * there are none. */
static inline const char *scanned_tell(scanned *s)
{
    size_t n = 0;
    s->text[0] = '\0';
    if (s->status != KB_OK)
        return kb_error_text(&s->err);
    for (uint32_t i = 0; i < s->scan.n; i++) {
        const kb_described *f = &s->scan.functions[i];
        n += (size_t)snprintf(s->text + n, sizeof s->text - n, "%s%.*s", i ? "; " : "",
                              KB_TEXT_ARG(f->qualified));
        for (uint32_t j = 0; j < f->n_parameters && n < sizeof s->text - 512; j++) {
            const kb_described_parameter *p = &f->parameters[j];
            n += (size_t)snprintf(s->text + n, sizeof s->text - n, " %s%s%.*s%s%s%.*s",
                                  kb_role_name(p->role), p->name.size ? ":" : "",
                                  KB_TEXT_ARG(p->name), p->type || p->array.size ? ":" : "",
                                  kb_attr_type_name(p->type), KB_TEXT_ARG(p->array));
        }
    }
    return s->text;
}

static inline kb_text scanned_copy(scanned *s, const char *source)
{
    size_t n = strlen(source);
    s->source = malloc(n ? n : 1);
    if (!s->source)
        abort();
    memcpy(s->source, source, n);
    return (kb_text){s->source, n};
}

static inline void scanned_free(scanned *s)
{
    if (s->status == KB_OK)
        kb_scan_free(&s->scan);
    free(s->source);
}

static inline void scanned_begin(scanned *s, const char *source)
{
    s->status = kb_scan_functions(scanned_copy(s, source), kb_text_of("a.cu"), NULL, 0, false,
                                  &s->scan, &s->err);
}

static inline void scanned_kernel(scanned *s, const char *source, const char *name)
{
    kb_given given = {.name = kb_text_of(name), .infer = true};
    s->status = kb_scan_kernel(scanned_copy(s, source), kb_text_of("a.cu"), &given, false, &s->scan,
                               &s->err);
}

/* The whole line must be that. */
#define CHECK_SCAN(source, expected)                                                               \
    do {                                                                                           \
        scanned scanned_;                                                                          \
        scanned_begin(&scanned_, (source));                                                        \
        CHECK_TEXT(scanned_tell(&scanned_), (expected));                                           \
        scanned_free(&scanned_);                                                                   \
    } while (0)

#define CHECK_KERNEL(source, name, expected)                                                       \
    do {                                                                                           \
        scanned scanned_;                                                                          \
        scanned_kernel(&scanned_, (source), (name));                                               \
        CHECK_TEXT(scanned_tell(&scanned_), (expected));                                           \
        scanned_free(&scanned_);                                                                   \
    } while (0)

/* It must be refused, with a message that has this part. */
#define CHECK_REFUSED(source, part)                                                                \
    do {                                                                                           \
        scanned scanned_;                                                                          \
        scanned_begin(&scanned_, (source));                                                        \
        CHECK_INT(scanned_.status, KB_INVALID_ARGUMENT);                                           \
        CHECK_HAS(scanned_tell(&scanned_), (part));                                                \
        scanned_free(&scanned_);                                                                   \
    } while (0)

#endif
