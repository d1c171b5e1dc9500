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

/* A line of the source without its end. */
static kb_text line_of(const kb_places *places, uint32_t line)
{
    size_t begin = places->lines[line - 1], end = begin;
    while (end < places->source.size && places->source.at[end] != '\n')
        end++;
    end -= end > begin && places->source.at[end - 1] == '\r';
    return (kb_text){places->source.at + begin, end - begin};
}

static kb_status show(const kb_places *places, uint32_t at, kb_error *err, const char *message)
{
    char blanks[LINE_SHOWN];
    uint32_t number = kb_place_line(places, at);
    kb_text line = line_of(places, number);
    size_t caret = at - places->lines[number - 1], column = 1, from = 0;
    caret = caret < line.size ? caret : line.size;
    if (line.size > LINE_SHOWN && caret > LINE_SHOWN / 2)
        from = caret - LINE_SHOWN / 2;
    while (from > 0 && !begins_character(line.at[from]))
        from--;
    int n = 0;
    for (size_t i = 0; i < caret; i++) {
        column += begins_character(line.at[i]);
        if (i >= from && begins_character(line.at[i]))
            blanks[n++] = line.at[i] == '\t' ? '\t' : ' ';
    }
    kb_text shown = kb_text_cut((kb_text){line.at + from, line.size - from}, LINE_SHOWN);
    kb_error_append(err, "%.*s:%u:%zu: %s\n%s%.*s%s\n%s%.*s^", (int)places->file.size,
                    places->file.at, (unsigned)number, column, message, from ? "..." : "",
                    (int)shown.size, shown.at, from + shown.size < line.size ? "..." : "",
                    from ? "   " : "", n, blanks);
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
