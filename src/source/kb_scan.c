/* Owns the order of things: tokens, annotations, declarations, agreement. */
#include "source/kb_scan.h"

#include "source/kb_lexer.h"

typedef struct scanner {
    kb_scan *scan;
    kb_places places;
    kb_lexed lexed;
    kb_annotation *annotations;
    kb_wanted *wanted;
    uint32_t n;
    bool kernel;
    bool bytes;
} scanner;

static kb_status no_memory(kb_error *err)
{
    return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory to scan a source");
}

static kb_status begin(scanner *x, kb_text source, kb_text file, bool bytes, kb_scan *scan,
                       kb_error *err)
{
    *x = (scanner){.scan = scan, .bytes = bytes};
    *scan = (kb_scan){.arena = kb_arena_new()};
    if (!scan->arena)
        return no_memory(err);
    if (source.size > KB_TEXT_LIMIT)
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "%.*s: a source has at most %d bytes; divide it into several modules",
                            KB_TEXT_ARG(file), KB_TEXT_LIMIT);
    kb_status s = kb_places_begin(&x->places, source, file, err);
    if (s != KB_OK)
        return s;
    const char *nul = source.size ? memchr(source.at, 0, source.size) : NULL;
    if (nul)
        return kb_place_error(&x->places, (uint32_t)(nul - source.at), err,
                              "a NUL byte is no part of a source; remove it");
    return kb_lex(source, &x->lexed, err);
}

static void end(scanner *x, kb_status s)
{
    kb_lexed_free(&x->lexed);
    kb_places_free(&x->places);
    if (s != KB_OK)
        kb_scan_free(x->scan);
}

static bool make_room(scanner *x, size_t n)
{
    kb_arena *arena = x->scan->arena;
    x->annotations = kb_arena_take(arena, n, sizeof *x->annotations);
    x->wanted = kb_arena_take(arena, n, sizeof *x->wanted);
    x->scan->functions = kb_arena_take(arena, n, sizeof *x->scan->functions);
    return x->annotations && x->wanted && x->scan->functions;
}

static kb_status twice(const scanner *x, uint32_t i, uint32_t j, kb_error *err)
{
    const kb_annotation *a = &x->annotations[i > j ? i : j],
                        *before = &x->annotations[i > j ? j : i];
    if (a->origin != KB_ANNOTATED)
        return kb_annotation_error(a, &x->places, KB_AT_NAME, err,
                                   "%.*s is there twice; list it once", KB_TEXT_ARG(a->name));
    return kb_place_error(&x->places, a->at, err,
                          "%.*s is annotated twice, in lines %u and %u; remove one",
                          KB_TEXT_ARG(a->name), (unsigned)kb_place_line(&x->places, before->at),
                          (unsigned)kb_place_line(&x->places, a->at));
}

/* Takes the annotation behind the last. */
static void accept(scanner *x)
{
    const kb_annotation *a = &x->annotations[x->n];
    x->wanted[x->n] = (kb_wanted){.name = a->name, .at = a->at, .kernel = x->kernel, .i = x->n};
    x->n++;
}

static kb_status read_annotations(scanner *x, kb_error *err)
{
    const kb_tokens *found = &x->lexed.annotations;
    kb_status s = KB_OK;
    if (found->n == 0)
        return kb_error_set(
            err, KB_INVALID_ARGUMENT,
            "%.*s: no function is annotated; write before each that is to be "
            "called what it takes, for example\n    // @BE add arg:f32[n] arg:f32[n] ret:f32[n]",
            KB_TEXT_ARG(x->places.file));
    if (found->n > KB_SCAN_FUNCTIONS)
        return kb_place_error(
            &x->places, found->at[KB_SCAN_FUNCTIONS].at, err,
            "a source annotates at most %d functions; divide it into several modules",
            KB_SCAN_FUNCTIONS);
    if (!make_room(x, found->n))
        return no_memory(err);
    for (size_t i = 0; i < found->n && s == KB_OK; i++) {
        s = kb_annotation_read(&found->at[i], &x->places, x->scan->arena, &x->annotations[x->n],
                               err);
        if (s == KB_OK)
            accept(x);
    }
    return s;
}

static kb_status give(scanner *x, const kb_given *given, kb_text name, kb_error *err)
{
    kb_annotation *a = &x->annotations[x->n];
    *a = (kb_annotation){.name = name, .given = given->name, .infer = given->infer};
    a->origin = x->kernel ? KB_GIVEN_KERNEL : KB_GIVEN_FUNCTION;
    accept(x);
    return kb_annotation_give(a, given->tokens, x->scan->arena, err);
}

static kb_status take_given(scanner *x, const kb_given *given, uint32_t n, kb_error *err)
{
    kb_status s = KB_OK;
    if (n == 0 || n > KB_SCAN_FUNCTIONS)
        return kb_error_set(err, KB_INVALID_ARGUMENT, "functions: expected 1 to %d of them, got %u",
                            KB_SCAN_FUNCTIONS, (unsigned)n);
    if (!make_room(x, n))
        return no_memory(err);
    for (uint32_t i = 0; i < n && s == KB_OK; i++)
        s = give(x, &given[i], given[i].name, err);
    return s;
}

/* Finds each declaration and compares. */
static kb_status finish(scanner *x, kb_error *err)
{
    kb_wanted *wanted = x->wanted;
    kb_wanted_sort(wanted, x->n);
    for (uint32_t i = 1; i < x->n; i++)
        if (kb_text_same(wanted[i - 1].name, wanted[i].name))
            return twice(x, wanted[i - 1].i, wanted[i].i, err);
    kb_status s = kb_declarations_find(&x->lexed.tokens, wanted, x->n, x->scan->arena, err);
    for (uint32_t i = 0; i < x->n && s == KB_OK; i++) {
        kb_agreement g = {
            .places = &x->places,
            .tokens = &x->lexed.tokens,
            .arena = x->scan->arena,
            .annotation = &x->annotations[wanted[i].i],
            .declaration = wanted[i].declaration.found ? &wanted[i].declaration : NULL,
            .kernel = x->kernel,
            .bytes = x->bytes,
            .described = &x->scan->functions[wanted[i].i],
        };
        s = kb_agree(&g, err);
    }
    x->scan->n = x->n;
    return s;
}

kb_status kb_scan_functions(kb_text source, kb_text file, const kb_given *given, uint32_t n_given,
                            bool bytes, kb_scan *scan, kb_error *err)
{
    scanner x;
    kb_status s = begin(&x, source, file, bytes, scan, err);
    if (s == KB_OK)
        s = given ? take_given(&x, given, n_given, err) : read_annotations(&x, err);
    if (s == KB_OK)
        s = finish(&x, err);
    end(&x, s);
    return s;
}

/* Leaves the annotations of that name. */
static void keep_annotations(kb_tokens *annotations, kb_text name)
{
    size_t n = 0;
    for (size_t i = 0; i < annotations->n; i++)
        if (kb_text_same(kb_annotation_name(&annotations->at[i]), name))
            annotations->at[n++] = annotations->at[i];
    annotations->n = n;
}

/* Of a name expression what stands before the arguments of its template, and its last identifier.
 */
static kb_status read_name(kb_text expression, kb_text *path, kb_text *name, kb_error *err)
{
    const char *open = expression.size ? memchr(expression.at, '<', expression.size) : NULL;
    size_t size = open ? (size_t)(open - expression.at) : expression.size, first = 0;
    *path = (kb_text){expression.at, size};
    for (size_t i = 0; i < size; i++)
        first = path->at[i] == ':' ? i + 1 : first;
    *name = (kb_text){path->at + first, size - first};
    if (kb_annotation_is_name(*name))
        return KB_OK;
    return kb_error_set(err, KB_INVALID_ARGUMENT,
                        "'%.*s' is no name of a kernel; write for example scale or "
                        "ns::scale<float, 4>",
                        KB_TEXT_ARG(expression));
}

static kb_status scan_kernel(scanner *x, const kb_given *kernel, kb_error *err)
{
    kb_text path, name;
    kb_status s = read_name(kernel->name, &path, &name, err);
    if (s != KB_OK)
        return s;
    x->kernel = true;
    keep_annotations(&x->lexed.annotations, name);
    if (kernel->infer && x->lexed.annotations.n > 0)
        s = read_annotations(x, err);
    else
        s = make_room(x, 1) ? give(x, kernel, name, err) : no_memory(err);
    if (s == KB_OK)
        x->wanted[0].path = path;
    return s == KB_OK ? finish(x, err) : s;
}

kb_status kb_scan_kernel(kb_text source, kb_text file, const kb_given *kernel, bool bytes,
                         kb_scan *scan, kb_error *err)
{
    scanner x;
    kb_status s = begin(&x, source, file, bytes, scan, err);
    if (s == KB_OK)
        s = scan_kernel(&x, kernel, err);
    end(&x, s);
    return s;
}

void kb_scan_free(kb_scan *scan)
{
    if (scan->arena)
        kb_arena_free(scan->arena);
    *scan = (kb_scan){0};
}
