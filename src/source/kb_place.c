/* Owns lines, columns and carets. */
#include "source/kb_place.h"

#include "core/kb_memory.h"

#include <stdarg.h>
#include <stdio.h>

enum { LINE_SHOWN = 160, FILE_SHOWN = 240, MESSAGE_SHOWN = 1100 };

kb_status kb_places_begin(kb_places *places, kb_text source, kb_text file, kb_error *err)
{
    size_t n = 1;
    *places = (kb_places){.source = source, .file = kb_text_cut(file, FILE_SHOWN)};
    for (size_t i = 0; i < source.size; i++)
        n += source.at[i] == '\n';
    places->lines = kb_calloc(n, sizeof *places->lines);
    if (!places->lines)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for a source's lines");
    places->n_lines = n;
    n = 1;
    for (size_t i = 0; i < source.size; i++)
        if (source.at[i] == '\n')
            places->lines[n++] = (uint32_t)i + 1;
    return KB_OK;
}

void kb_places_free(kb_places *places)
{
    kb_free(places->lines);
    *places = (kb_places){0};
}

uint32_t kb_place_line(const kb_places *places, uint32_t at)
{
    size_t low = 0, high = places->n_lines;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (places->lines[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low + 1;
}

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xC0) != 0x80;
}

/* The part of the line that is shown: all, or what is around the caret. */
static kb_text window(kb_text line, size_t caret)
{
    size_t from = 0, to = line.size;
    if (line.size > LINE_SHOWN) {
        from = caret > LINE_SHOWN / 2 ? caret - LINE_SHOWN / 2 : 0;
        if (line.size - from < LINE_SHOWN)
            from = line.size - LINE_SHOWN;
        to = from + LINE_SHOWN;
    }
    while (from > 0 && from < line.size && !begins_character(line.at[from]))
        from--;
    while (to < line.size && to > from && !begins_character(line.at[to]))
        to--;
    return (kb_text){line.at + from, to - from};
}

typedef struct place {
    uint32_t line;
    size_t column;
    kb_text shown;
    const char *before; /* "..." where the line was cut */
    const char *behind;
    char caret[LINE_SHOWN + 16];
} place;

static void find_place(const kb_places *places, uint32_t at, place *p)
{
    at = at > places->source.size ? (uint32_t)places->source.size : at;
    p->line = kb_place_line(places, at);
    size_t begin = places->lines[p->line - 1], caret = at - begin;
    kb_text line = {places->source.at + begin, 0};
    while (begin + line.size < places->source.size && line.at[line.size] != '\n')
        line.size++;
    if (line.size > 0 && line.at[line.size - 1] == '\r')
        line.size--;
    caret = caret > line.size ? line.size : caret;
    p->column = 1;
    for (size_t i = 0; i < caret; i++)
        p->column += begins_character(line.at[i]);
    p->shown = window(line, caret);
    p->before = p->shown.at > line.at ? "..." : "";
    p->behind = p->shown.at + p->shown.size < line.at + line.size ? "..." : "";
    size_t n = *p->before ? 3 : 0;
    memset(p->caret, ' ', n);
    for (const char *c = p->shown.at; c < line.at + caret && n < sizeof p->caret - 2; c++)
        if (begins_character(*c))
            p->caret[n++] = *c == '\t' ? '\t' : ' ';
    p->caret[n++] = '^';
    p->caret[n] = '\0';
}

static kb_status show(const kb_places *places, uint32_t at, kb_error *err, const char *message)
{
    place p;
    find_place(places, at, &p);
    kb_error_append(err, "%.*s:%u:%zu: %s\n%s%.*s%s\n%s", (int)places->file.size, places->file.at,
                    (unsigned)p.line, p.column, message, p.before, (int)p.shown.size, p.shown.at,
                    p.behind, p.caret);
    return err->status;
}

kb_status kb_place_error(const kb_places *places, uint32_t at, kb_error *err, const char *format,
                         ...)
{
    char message[MESSAGE_SHOWN + 8];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    message[kb_text_cut(kb_text_of(message), MESSAGE_SHOWN).size] = '\0';
    kb_error_set(err, KB_INVALID_ARGUMENT, "%s", "");
    return show(places, at, err, message);
}

void kb_place_append(const kb_places *places, uint32_t at, kb_error *err, const char *what)
{
    kb_error_append(err, "\n");
    show(places, at, err, what);
}
