/* Owns the order of things: tokens, annotations, outline, signatures, agreement. */
#include "source/kb_scan.h"

#include "source/kb_agree.h"
#include "source/kb_outline.h"

#define EXAMPLE "for example\n    // @BE add arg arg ret stream"

typedef struct scanner {
    kb_scan *scan;
    kb_places places;
    kb_lexed lexed;
    kb_macros macros;
    kb_tokens outline;
    kb_names names;
    kb_annotation *annotations;
    kb_wanted *wanted;
    uint32_t n;
    bool kernel;
} scanner;

static kb_status no_memory(kb_error *err)
{
    return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory to scan a source");
}

static kb_status begin(scanner *x, kb_text source, kb_text file, kb_scan *scan, kb_error *err)
{
    *x = (scanner){.scan = scan};
    *scan = (kb_scan){.arena = kb_arena_new()};
    if (!scan->arena)
        return no_memory(err);
    if (source.size > KB_TEXT_LIMIT)
        return kb_error_set(err, KB_INVALID_ARGUMENT, "%.*s: a source has at most %d bytes",
                            KB_TEXT_ARG(file), KB_TEXT_LIMIT);
    x->macros.arena = scan->arena;
    kb_status s = kb_places_begin(&x->places, source, file, err);
    if (s != KB_OK)
        return s;
    const char *nul = source.size ? memchr(source.at, 0, source.size) : NULL;
    if (nul)
        return kb_place_error(&x->places, (uint32_t)(nul - source.at), err,
                              "a NUL byte is no part of a source");
    return kb_lex(source, &x->lexed, err);
}

static void end(scanner *x, kb_status s)
{
    kb_lexed_free(&x->lexed);
    kb_tokens_free(&x->outline);
    kb_names_free(&x->names);
    if (x->scan->arena)
        kb_macros_free(&x->macros);
    kb_places_free(&x->places);
    if (s != KB_OK)
        kb_scan_free(x->scan);
}

static bool make_room(scanner *x, size_t n)
{
    kb_arena *arena = x->scan->arena;
    x->annotations = kb_arena_take(arena, n + 1, sizeof *x->annotations);
    x->wanted = kb_arena_take(arena, n + 1, sizeof *x->wanted);
    x->scan->functions = kb_arena_take(arena, n + 1, sizeof *x->scan->functions);
    return x->annotations && x->wanted && x->scan->functions;
}

static kb_status twice(const scanner *x, const kb_annotation *a, const kb_annotation *before,
                       kb_error *err)
{
    if (a->given_as.size)
        return kb_annotation_error(a, &x->places, KB_AT_NAME, err, "%.*s is there twice",
                                   KB_TEXT_ARG(a->name));
    return kb_place_error(&x->places, a->at, err, "%.*s is annotated twice, in lines %u and %u",
                          KB_TEXT_ARG(a->name), (unsigned)kb_place_line(&x->places, before->at),
                          (unsigned)kb_place_line(&x->places, a->at));
}

/* Takes the annotation behind the last. */
static kb_status accept(scanner *x, kb_error *err)
{
    const kb_annotation *a = &x->annotations[x->n];
    uint32_t before = kb_names_get(&x->names, a->name);
    if (before != KB_NAMES_NONE)
        return twice(x, a, &x->annotations[before], err);
    if (!kb_names_add(&x->names, a->name, x->n))
        return no_memory(err);
    kb_wanted *w = &x->wanted[x->n++];
    w->name = a->name;
    w->at = a->at;
    w->kernel = x->kernel;
    return KB_OK;
}

static kb_status read_annotations(scanner *x, kb_error *err)
{
    const kb_tokens *found = &x->lexed.annotations;
    kb_status s = KB_OK;
    if (found->n == 0)
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "%.*s: no function is annotated; write before each that is to be "
                            "called what it takes, " EXAMPLE,
                            KB_TEXT_ARG(x->places.file));
    if (found->n > KB_SCAN_FUNCTIONS)
        return kb_place_error(&x->places, found->at[KB_SCAN_FUNCTIONS].at, err,
                              "a source annotates at most %d functions", KB_SCAN_FUNCTIONS);
    if (!make_room(x, found->n))
        return no_memory(err);
    for (size_t i = 0; i < found->n && s == KB_OK; i++) {
        s = kb_annotation_read(&found->at[i], &x->places, x->scan->arena, &x->annotations[x->n],
                               err);
        if (s == KB_OK)
            s = accept(x, err);
    }
    return s;
}

/* How a caller gave it, for messages: the name is cut. No address when there is no memory. */
static kb_text given_as(kb_arena *arena, const char *before, kb_text name, const char *behind)
{
    const kb_text parts[] = {kb_text_of(before), kb_text_cut(name, KB_TEXT_SHOWN),
                             kb_text_of(behind)};
    char *text = kb_arena_take(arena, parts[0].size + parts[1].size + parts[2].size, 1);
    kb_text result = {text, 0};
    for (int i = 0; text && i < 3; i++) {
        if (parts[i].size)
            memcpy(text + result.size, parts[i].at, parts[i].size);
        result.size += parts[i].size;
    }
    return result;
}

static kb_status give(scanner *x, const kb_given *given, kb_text as, kb_error *err)
{
    kb_annotation *a = &x->annotations[x->n];
    if (!as.at)
        return no_memory(err);
    *a = (kb_annotation){.name = given->name, .given_as = as, .infer = given->infer};
    if (!kb_annotation_is_name(a->name))
        return kb_annotation_error(a, &x->places, KB_AT_NAME, err,
                                   "'%.*s' is no name of a function: it must be a C identifier "
                                   "and no keyword of C++",
                                   KB_TEXT_ARG(a->name));
    kb_status s = kb_annotation_give(a, given->tokens, given->n_tokens, x->scan->arena, err);
    return s == KB_OK ? accept(x, err) : s;
}

static kb_status take_given(scanner *x, const kb_given *given, uint32_t n, kb_error *err)
{
    kb_status s = KB_OK;
    if (n == 0)
        return kb_error_set(err, KB_INVALID_ARGUMENT, "functions: there is none in it");
    if (n > KB_SCAN_FUNCTIONS)
        return kb_error_set(err, KB_INVALID_ARGUMENT, "functions: there are more than %d in it",
                            KB_SCAN_FUNCTIONS);
    if (!make_room(x, n))
        return no_memory(err);
    for (uint32_t i = 0; i < n && s == KB_OK; i++)
        s = give(x, &given[i], given_as(x->scan->arena, "functions['", given[i].name, "']"), err);
    return s;
}

/* Finds each signature and compares. */
static kb_status finish(scanner *x, kb_error *err)
{
    kb_arena *arena = x->scan->arena;
    kb_status s = kb_outline(&x->lexed, &x->macros, &x->outline, err);
    if (s == KB_OK)
        s = kb_signatures_find(&x->outline, &x->names, x->wanted, arena, err);
    for (uint32_t i = 0; i < x->n && s == KB_OK; i++) {
        kb_agreement g = {
            .places = &x->places,
            .outline = &x->outline,
            .arena = arena,
            .annotation = &x->annotations[i],
            .signature = kb_wanted_best(&x->wanted[i]),
            .described = &x->scan->functions[i],
        };
        s = kb_agree_begin(&g, err);
        if (s == KB_OK)
            s = x->kernel ? kb_agree_kernel(&g, err) : kb_agree_function(&g, err);
    }
    x->scan->n = x->n;
    return s;
}

kb_status kb_scan_functions(kb_text source, kb_text file, const kb_given *given, uint32_t n_given,
                            kb_scan *scan, kb_error *err)
{
    scanner x;
    kb_status s = begin(&x, source, file, scan, err);
    if (s == KB_OK)
        s = given ? take_given(&x, given, n_given, err) : read_annotations(&x, err);
    if (s == KB_OK)
        s = finish(&x, err);
    end(&x, s);
    return s;
}

/* The annotation of that name, if there is one. */
static kb_status find_annotation(scanner *x, kb_text name, bool *found, kb_error *err)
{
    const kb_tokens *all = &x->lexed.annotations;
    *found = false;
    for (size_t i = 0; i < all->n; i++) {
        kb_annotation again;
        if (!kb_text_same(kb_annotation_name(&all->at[i]), name))
            continue;
        kb_annotation *a = *found ? &again : &x->annotations[0];
        kb_status s = kb_annotation_read(&all->at[i], &x->places, x->scan->arena, a, err);
        if (s == KB_OK && *found)
            s = twice(x, a, &x->annotations[0], err);
        if (s != KB_OK)
            return s;
        *found = true;
    }
    return *found ? accept(x, err) : KB_OK;
}

/* Cuts a name expression: its last identifier before any <, and what qualifies that. */
static kb_status read_name(kb_text name, kb_lexed *cut, kb_wanted *wanted, kb_error *err)
{
    kb_status s = kb_lex(name, cut, err);
    size_t n = 0;
    kb_tokens *t = &cut->tokens;
    if (s != KB_OK)
        return s;
    while (n < t->n && !kb_token_is_mark(&t->at[n], "<"))
        n++;
    bool ok = n > 0;
    size_t first = n > 0 && kb_token_is_mark(t->at, "::"), words = 0;
    for (size_t i = first; i < n && ok; i++) {
        bool even = (i - first) % 2 == 0;
        ok = even ? t->at[i].kind == KB_TOKEN_WORD : kb_token_is_mark(&t->at[i], "::");
        if (even)
            t->at[words++] = t->at[i];
    }
    ok = ok && (n - first) % 2 == 1 && kb_annotation_is_name(kb_token_text(&t->at[words - 1]));
    if (!ok)
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "'%.*s' is no name of a kernel; write for example scale or "
                            "ns::scale<float, 4>",
                            KB_TEXT_ARG(name));
    wanted->name = kb_token_text(&t->at[words - 1]);
    wanted->qualifiers = t->at;
    wanted->n_qualifiers = words - 1;
    return KB_OK;
}

static kb_status scan_kernel(scanner *x, const kb_given *kernel, const kb_wanted *name,
                             kb_error *err)
{
    bool annotated = false;
    x->kernel = true;
    if (!make_room(x, 1))
        return no_memory(err);
    kb_status s = kernel->infer ? find_annotation(x, name->name, &annotated, err) : KB_OK;
    if (s == KB_OK && !annotated) {
        kb_given given = *kernel;
        given.name = name->name;
        s = give(x, &given, given_as(x->scan->arena, "kernel '", kernel->name, "'"), err);
    }
    x->wanted[0].qualifiers = name->qualifiers;
    x->wanted[0].n_qualifiers = name->n_qualifiers;
    return s == KB_OK ? finish(x, err) : s;
}

kb_status kb_scan_kernel(kb_text source, kb_text file, const kb_given *kernel, kb_scan *scan,
                         kb_error *err)
{
    scanner x;
    kb_lexed cut = {0};
    kb_wanted name = {0};
    kb_status s = begin(&x, source, file, scan, err);
    if (s == KB_OK)
        s = read_name(kernel->name, &cut, &name, err);
    if (s == KB_OK)
        s = scan_kernel(&x, kernel, &name, err);
    kb_lexed_free(&cut);
    end(&x, s);
    return s;
}

void kb_scan_free(kb_scan *scan)
{
    if (scan->arena)
        kb_arena_free(scan->arena);
    *scan = (kb_scan){0};
}
