/* Owns the grammar of annotations. */
#include "source/kb_annotation.h"

#include <stdarg.h>
#include <stdio.h>

enum { MARKER_SIZE = sizeof "@BE" - 1, MESSAGE_SIZE = 1200 }; /* more than the longest has */

const char *kb_role_name(kb_role role)
{
    static const char *const names[] = {"arg", "ret", "attr", "stream", "any"};
    return names[role];
}

/* Those of C++, a blank behind each. */
static const char keywords[] =
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char "
    "char8_t char16_t char32_t class compl concept const consteval constexpr "
    "constinit const_cast continue co_await co_return co_yield decltype default "
    "delete do double dynamic_cast else enum explicit export extern false float for "
    "friend goto if inline int long mutable namespace new noexcept not not_eq nullptr "
    "operator or or_eq private protected public register reinterpret_cast requires "
    "return short signed sizeof static static_assert static_cast struct switch "
    "template this thread_local throw true try typedef typeid typename union unsigned "
    "using virtual void volatile wchar_t while xor xor_eq ";

bool kb_annotation_is_name(kb_text name)
{
    if (name.size == 0 || kb_is_digit(name.at[0]))
        return false;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.at[i];
        if (c == '$' || (unsigned char)c >= 0x80 || !(kb_is_letter(c) || kb_is_digit(c)))
            return false;
    }
    for (const char *k = keywords; *k; k += strcspn(k, " ") + 1)
        if (kb_text_same(name, (kb_text){k, strcspn(k, " ")}))
            return false;
    return true;
}

kb_status kb_annotation_error(const kb_annotation *a, const kb_places *places, uint32_t index,
                              kb_error *err, const char *format, ...)
{
    char message[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (a->origin == KB_ANNOTATED)
        return kb_place_error(places, index == KB_AT_NAME ? a->at : a->specs[index].at, err, "%s",
                              message);
    bool kernel = a->origin == KB_GIVEN_KERNEL;
    kb_error_set(err, KB_INVALID_ARGUMENT, "%s'%.*s'%s", kernel ? "kernel " : "functions[",
                 KB_TEXT_ARG(a->given), kernel ? "" : "]");
    if (index != KB_AT_NAME)
        kb_error_append(err, " token %u", index + 1u);
    kb_error_append(err, ": %s", message);
    return err->status;
}

static bool after(kb_text text, const char *prefix, kb_text *rest)
{
    size_t n = strlen(prefix);
    if (text.size < n || memcmp(text.at, prefix, n) != 0)
        return false;
    *rest = (kb_text){text.at + n, text.size - n};
    return true;
}

static kb_status read_attribute(const kb_annotation *a, const kb_places *places, uint32_t index,
                                kb_text rest, kb_error *err)
{
    kb_spec *spec = &a->specs[index];
    const char *colon = memchr(rest.at, ':', rest.size);
    spec->role = KB_ROLE_ATTR;
    spec->name = (kb_text){rest.at, colon ? (size_t)(colon - rest.at) : rest.size};
    if (!kb_annotation_is_name(spec->name))
        return kb_annotation_error(a, places, index, err,
                                   "Invalid arg_spec token '%.*s': '%.*s' is not a valid name for "
                                   "an attribute: it must be a C "
                                   "identifier and no keyword of C++",
                                   KB_TEXT_ARG(spec->text), KB_TEXT_ARG(spec->name));
    if (!colon)
        return KB_OK;
    kb_text type = {colon + 1, rest.size - spec->name.size - 1};
    spec->type = kb_attr_type_of(type);
    return spec->type ? KB_OK
                      : kb_annotation_error(a, places, index, err,
                                            "Invalid arg_spec token '%.*s': '%.*s' is no type of "
                                            "an attribute; expected one of %s",
                                            KB_TEXT_ARG(spec->text), KB_TEXT_ARG(type),
                                            kb_attr_type_names());
}

static kb_status read_spec(const kb_annotation *a, const kb_places *places, uint32_t index,
                           kb_error *err)
{
    static const struct {
        const char *text;
        kb_role role;
    } words[] = {
        {"arg", KB_ROLE_ARG},  {"args", KB_ROLE_ARG},      {"ret", KB_ROLE_RET},
        {"rets", KB_ROLE_RET}, {"stream", KB_ROLE_STREAM}, {"ctx.stream", KB_ROLE_STREAM},
        {"any", KB_ROLE_ANY},
    };
    kb_spec *spec = &a->specs[index];
    kb_text rest;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        bool array = words[i].role == KB_ROLE_ARG || words[i].role == KB_ROLE_RET;
        if (!after(spec->text, words[i].text, &rest) ||
            (rest.size > 0 && !(array && rest.size > 1 && *rest.at == ':')))
            continue;
        spec->role = words[i].role;
        if (rest.size > 0)
            spec->array = (kb_text){rest.at + 1, rest.size - 1};
        return KB_OK;
    }
    if (after(spec->text, "attr.", &rest) || after(spec->text, "attrs.", &rest))
        return read_attribute(a, places, index, rest, err);
    return kb_annotation_error(
        a, places, index, err,
        "Invalid arg_spec token '%.*s'; expected arg, ret, stream, attr.NAME or "
        "attr.NAME:TYPE, TYPE one of %s; or arg and ret with the type of an array, as in "
        "arg:f32[n]",
        KB_TEXT_ARG(spec->text), kb_attr_type_names());
}

static bool is_again(const kb_annotation *a, uint32_t index)
{
    const kb_spec *spec = &a->specs[index];
    for (uint32_t i = 0; i < index; i++)
        if (a->specs[i].role == spec->role && kb_text_same(a->specs[i].name, spec->name))
            return spec->role == KB_ROLE_STREAM || spec->role == KB_ROLE_ATTR;
    return false;
}

/* Each token, then what they are together. */
static kb_status read_specs(const kb_annotation *a, const kb_places *places, kb_error *err)
{
    for (uint32_t i = 0; i < a->n_specs; i++) {
        const kb_spec *spec = &a->specs[i];
        kb_status s = read_spec(a, places, i, err);
        if (s != KB_OK)
            return s;
        if (!is_again(a, i))
            continue;
        if (spec->role == KB_ROLE_STREAM)
            return kb_annotation_error(a, places, i, err,
                                       "%.*s is there twice; a call has one stream: remove one",
                                       KB_TEXT_ARG(spec->text));
        return kb_annotation_error(a, places, i, err,
                                   "attribute %.*s is there twice; give each a name of its own",
                                   KB_TEXT_ARG(spec->name));
    }
    return KB_OK;
}

/* True for a blank, and for a backslash that ends its line. */
static bool separates(kb_text text, size_t i)
{
    if (text.at[i] != '\\')
        return kb_is_blank(text.at[i]) || text.at[i] == '\n';
    return i + 1 == text.size || kb_is_blank(text.at[i + 1]) || text.at[i + 1] == '\n';
}

/* The next piece without blanks from `*at` on, except between brackets; empty at the end. */
static kb_text next_piece(kb_text text, size_t *at)
{
    while (*at < text.size && separates(text, *at))
        ++*at;
    size_t begin = *at;
    for (bool inside = false; *at < text.size && (inside || !separates(text, *at)); ++*at)
        inside = text.at[*at] == '[' || (inside && text.at[*at] != ']');
    return (kb_text){text.at + begin, *at - begin};
}

kb_text kb_annotation_name(const kb_token *comment)
{
    size_t at = MARKER_SIZE;
    return next_piece(kb_token_text(comment), &at);
}

/* Reads the tokens of a text, which lies at an offset of the source, from `first` on. */
static kb_status read_tokens(kb_annotation *a, kb_text text, size_t first, uint32_t offset,
                             const kb_places *places, kb_arena *arena, kb_error *err)
{
    uint32_t n = 0;
    for (size_t at = first; next_piece(text, &at).size > 0;)
        n++;
    if (n > KB_ANNOTATION_TOKENS)
        return kb_annotation_error(a, places, KB_AT_NAME, err, "%.*s has more than %d parameters",
                                   KB_TEXT_ARG(a->name), KB_ANNOTATION_TOKENS);
    a->n_specs = n;
    a->specs = kb_arena_take(arena, n, sizeof *a->specs);
    if (!a->specs)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for an annotation");
    for (uint32_t i = 0; i < n; i++) {
        kb_text piece = next_piece(text, &first);
        a->specs[i].text = piece;
        a->specs[i].at = offset + (uint32_t)(piece.at - text.at);
    }
    return read_specs(a, places, err);
}

static kb_status check_name(const kb_annotation *a, const kb_places *places, kb_error *err)
{
    if (kb_annotation_is_name(a->name))
        return KB_OK;
    return kb_annotation_error(
        a, places, KB_AT_NAME, err,
        "'%.*s' is no name of a function: it must be a C identifier and no "
        "keyword of C++; for a member of a class, or an instance of a template, "
        "annotate a function that calls it",
        KB_TEXT_ARG(a->name));
}

kb_status kb_annotation_read(const kb_token *comment, const kb_places *places, kb_arena *arena,
                             kb_annotation *a, kb_error *err)
{
    kb_text text = kb_token_text(comment);
    size_t at = MARKER_SIZE;
    *a = (kb_annotation){.name = next_piece(text, &at), .at = comment->at};
    if (a->name.size == 0)
        return kb_place_error(places, comment->at, err,
                              "@BE names no function; write for example\n"
                              "    // @BE add arg:f32[n] arg:f32[n] ret:f32[n]");
    a->at += (uint32_t)(a->name.at - text.at);
    kb_status s = check_name(a, places, err);
    if (s == KB_OK)
        s = read_tokens(a, text, at, comment->at, places, arena, err);
    a->infer = a->n_specs == 0;
    return s;
}

kb_status kb_annotation_give(kb_annotation *a, kb_text tokens, kb_arena *arena, kb_error *err)
{
    kb_status s = check_name(a, NULL, err);
    return s == KB_OK ? read_tokens(a, tokens, 0, 0, NULL, arena, err) : s;
}
