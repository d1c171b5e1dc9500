/* Owns the numbers of places in checked CUDA C++, and asks addr2line which line code belongs to. */
#include "ext/emulator/kb_check.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A place is an address of code, or of a file's name with a line from bit LINE_SHIFT on. Its number
 * is where it lies in the table. */
enum { N_SITES = 1 << 15, LINE_SHIFT = 48, PROBES = 64 };

static _Atomic(uint64_t) sites[N_SITES];

static uint32_t number_of(uint64_t place)
{
    uint64_t hash = place * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t at = (uint32_t)(hash + i) % (N_SITES - 1) + 1;
        uint64_t there = atomic_load_explicit(&sites[at], memory_order_relaxed);
        if ((there == 0 && atomic_compare_exchange_strong(&sites[at], &there, place)) ||
            there == place)
            return at;
    }
    return 0;
}

uint32_t kb_site_of_line(const char *file, uint32_t line)
{
    return number_of((uintptr_t)file | (uint64_t)(line & UINT16_MAX) << LINE_SHIFT);
}

uint32_t kb_site_of_code(const void *code)
{
    return number_of((uintptr_t)code);
}

/* The first line, from the innermost function outwards, that is not in our headers. The program
 * gets the library as a file that is open here: only this process may have the library under its
 * name. */
static bool find_line(uint64_t code, char file[], int size, uint32_t *line)
{
    enum { COMMAND_SIZE = 128, DECIMAL = 10 };
    char command[COMMAND_SIZE];
    Dl_info about;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): as it was given
    bool known = dladdr((const void *)(uintptr_t)code, &about), found = false;
    FILE *library = known ? fopen(about.dli_fname, "re") : NULL;
    if (!library)
        return false;
    (void)snprintf(command, sizeof command,
                   "exec 2>/dev/null; addr2line -i -e /proc/%ld/fd/%d 0x%llx", (long)getpid(),
                   fileno(library), (unsigned long long)(code - 1 - (uintptr_t)about.dli_fbase));
    FILE *lines = popen(command, "re");
    while (lines && !found && fgets(file, size, lines)) {
        char *colon = strrchr(file, ':');
        found = colon && file[0] != '?' && !strstr(file, "/include/ext/emulator/");
        if (!found)
            continue;
        *colon = '\0';
        *line = (uint32_t)strtoul(colon + 1, NULL, DECIMAL);
    }
    if (lines)
        (void)pclose(lines);
    (void)fclose(library);
    return found;
}

static void append_text(const char *file, uint32_t line, char text[KB_SITE_TEXT])
{
    enum { SHOWN_MAX = 100 };
    char *read = NULL;
    size_t room = 0, there = strlen(text);
    FILE *source = fopen(file, "re");
    bool found = source && line > 0;
    while (found && line--)
        found = getline(&read, &room, source) > 0;
    int length = found ? (int)strcspn(read, "\n") : 0, begin = found ? (int)strspn(read, " \t") : 0;
    if (begin < length && begin < SHOWN_MAX)
        (void)snprintf(text + there, KB_SITE_TEXT - there, "\t%.*s",
                       (length < SHOWN_MAX ? length : SHOWN_MAX) - begin, read + begin);
    free(read);
    if (source)
        (void)fclose(source);
}

const char *kb_site_text(uint32_t site, char text[KB_SITE_TEXT])
{
    enum { PATH_SIZE = 8192 };
    char path[PATH_SIZE];
    const char *file = path;
    uint64_t place = site < N_SITES ? atomic_load(&sites[site]) : 0;
    uint32_t line = (uint32_t)(place >> LINE_SHIFT);
    text[0] = '\0';
    if (line) // NOLINTNEXTLINE(performance-no-int-to-ptr): as it was given
        file = (const char *)(uintptr_t)(place & ((UINT64_C(1) << LINE_SHIFT) - 1));
    else if (!place || !find_line(place, path, sizeof path, &line))
        return text;
    const char *name = strrchr(file, '/');
    (void)snprintf(text, KB_SITE_TEXT, "%.255s:%u", name ? name + 1 : file, line);
    append_text(file, line, text);
    return text;
}
