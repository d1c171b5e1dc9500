/* Proves what a manifest says, field by field, which numbers, names and shapes it may have, and
 * that its reading survives whatever allocation fails. Texts lie in blocks of exactly their size.
 */
#include "bundle.h"
#include "core/kb_dtype.h"
#include "core/kb_kernel.h"
#include "ext/embed/kb_manifest.h"
#include "kb_test.h"
#include "torture.h"

#include <stdbool.h>
#include <stdlib.h>

#define DIGEST "00ff1032547698badcfe0123456789abcdef00112233445566778899aabbccdd"
#define DATA   "data 9223372036854775807 " DIGEST " a-Z_0.9"

static char text[4 * BUNDLE_TEXT];
static kb_error err;

/* Lines between the first and the last, of which the digest is right. */
static size_t put(const char *lines)
{
    size_t size =
        (size_t)snprintf(text, sizeof text,
                         "kernbridge-bundle 1\n%send "
                         "0000000000000000000000000000000000000000000000000000000000000000"
                         "\n",
                         lines);
    bundle_sign(text, size);
    return size;
}

static kb_status read_text(size_t size, kb_arena *arena, kb_manifest *manifest)
{
    char *exact = malloc(size ? size : 1);
    if (!exact)
        abort();
    memcpy(exact, text, size);
    err = (kb_error){.status = KB_OK};
    kb_status s = kb_manifest_read(exact, size, arena, manifest, &err);
    CHECK_INT(err.status, s);
    free(exact);
    return s;
}

static size_t tell_file(char *to, size_t room, const kb_manifest_file *file)
{
    size_t n = (size_t)snprintf(to, room, "%s %zu ", file->name, file->size);
    for (int i = 0; i < KB_SHA256_SIZE; i++)
        n += (size_t)snprintf(to + n, room - n, "%02x", file->digest[i]);
    return n;
}

static size_t tell_arrays(char *to, size_t room, const kb_manifest *m, bool are_outputs,
                          const kb_host_program *p)
{
    size_t n = 0;
    for (size_t i = 0; i < (are_outputs ? p->n_outputs : p->n_inputs); i++) {
        const kb_host_array *a = are_outputs ? p->outputs[i] : p->inputs[i];
        n += (size_t)snprintf(to + n, room - n, ", %s %s '%s' %d %zu donated %d [",
                              are_outputs ? "out" : "in", a->dtype, a->name, a->type, a->size,
                              a->donated);
        for (size_t d = 0; d < a->n_dims; d++)
            n += (size_t)snprintf(to + n, room - n, " %lld", (long long)a->dims[d]);
        n += (size_t)snprintf(to + n, room - n, "]");
        for (const kb_manifest_array *w = m->with_data; w; w = w->next)
            if (&w->about == a)
                n += (size_t)snprintf(to + n, room - n, " at %zu", w->offset);
    }
    return n;
}

/* All that was read, or the message. */
static const char *told(size_t size)
{
    static char all[4096];
    kb_manifest m;
    kb_arena *arena = kb_arena_new();
    if (!arena)
        abort();
    size_t n = 0;
    if (read_text(size, arena, &m) != KB_OK) {
        kb_arena_free(arena);
        return err.message;
    }
    all[0] = '\0';
    if (m.data.name)
        n += tell_file(all, sizeof all, &m.data);
    for (const kb_manifest_program *p = m.programs; p; p = p->next) {
        n += (size_t)snprintf(all + n, sizeof all - n, "; %s: ", p->about.platform);
        n += tell_file(all + n, sizeof all - n, &p->file);
        n += tell_arrays(all + n, sizeof all - n, &m, false, &p->about);
        n += tell_arrays(all + n, sizeof all - n, &m, true, &p->about);
    }
    kb_arena_free(arena);
    return all;
}

static const char *told_lines(const char *lines)
{
    return told(put(lines));
}

static void test_fields(void)
{
    CHECK_TEXT(told_lines("made-by\nprogram 7 " DIGEST " cpu p\n"), "; cpu: p 7 " DIGEST);
    CHECK_TEXT(told_lines("made-by a  b \xff\n" DATA "\n"
                          "program 7 " DIGEST " cpu p.bin\n"
                          "input int16 0 - 0 x\ninput int16 1 128 2 3 5 y z \n"
                          "output complex128 3 2 0 4 \n"
                          "program 0 " DIGEST
                          " cuda q\ninput float64 0 0 1 9 w\noutput bool 0 r\n"),
               "a-Z_0.9 9223372036854775807 " DIGEST "; cpu: p.bin 7 " DIGEST
               ", in int16 'x' 3 2 donated 0 [], in int16 'y z ' 3 30 donated 1 [ 3 5] at 128"
               ", out complex128 '' 15 0 donated 0 [ 2 0 4]; cuda: q 0 " DIGEST
               ", in float64 'w' 12 72 donated 0 [ 9] at 0, out bool 'r' 1 1 donated 0 []");
}

/* Every type of the list, by its name. */
static void test_types(void)
{
    static const struct {
        const char *name;
        int type, size;
    } types[] = {
#define TYPE(NAME, code, bits, name, OURS, dlpack, pjrt) {name, pjrt, (bits) / 8},
        KB_DTYPE_WHOLE_LIST(TYPE)
#undef TYPE
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char lines[256], expected[256];
        (void)snprintf(lines, sizeof lines, "program 7 " DIGEST " cpu p\noutput %s 1 3 r\n",
                       types[i].name);
        (void)snprintf(expected, sizeof expected,
                       "; cpu: p 7 " DIGEST ", out %s 'r' %d %d donated 0 [ 3]", types[i].name,
                       types[i].type, 3 * types[i].size);
        CHECK_TEXT(told_lines(lines), expected);
    }
}

/* A line behind that of a program, which is the third: it is damaged, or what it says. */
static void line_is(const char *line, const char *expected)
{
    char lines[2048], whole[2048];
    (void)snprintf(lines, sizeof lines, DATA "\nprogram 7 " DIGEST " cpu p\n%s\n", line);
    (void)snprintf(whole, sizeof whole,
                   "a-Z_0.9 9223372036854775807 " DIGEST "; cpu: p 7 " DIGEST ", %s",
                   expected ? expected : "");
    if (!CHECK_TEXT(told_lines(lines), expected ? whole : "line 4 is damaged"))
        fprintf(stderr, "%s\n", line);
}

static void test_numbers(void)
{
    line_is("output bool 1 9223372036854775807 r",
            "out bool 'r' 1 9223372036854775807 donated 0 [ 9223372036854775807]");
    line_is("output bool 1 9223372036854775808 r", NULL);
    line_is("output bool 1 9223372036854775810 r", NULL);
    line_is("output bool 1 92233720368547758070 r", NULL);
    line_is("output bool 1 18446744073709551617 r", NULL);
    line_is("output int16 1 4611686018427387903 r",
            "out int16 'r' 3 9223372036854775806 donated 0 [ 4611686018427387903]");
    line_is("output int16 1 4611686018427387904 r", NULL);
    line_is("output bool 2 9223372036854775807 1 r",
            "out bool 'r' 1 9223372036854775807 donated 0 [ 9223372036854775807 1]");
    line_is("output bool 2 9223372036854775807 2 r", NULL);
    line_is("output bool 3 0 9223372036854775807 9223372036854775807 r",
            "out bool 'r' 1 0 donated 0 [ 0 9223372036854775807 9223372036854775807]");
    line_is("output bool 01 007 r", "out bool 'r' 1 7 donated 0 [ 7]");
    static const char *const wrong[] = {"/", ":", "-", "a", "1-", "1/", "1:", "+1", "0x1", "\xff"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char line[64];
        (void)snprintf(line, sizeof line, "output bool 1 %s r", wrong[i]);
        line_is(line, NULL);
    }
}

static void test_inputs(void)
{
    line_is("input bool 0 0 0 x", "in bool 'x' 1 1 donated 0 [] at 0");
    line_is("input bool 1 0 0 x", "in bool 'x' 1 1 donated 1 [] at 0");
    line_is("input bool 2 0 0 x", NULL);
    line_is("input bool 0 64 0 x", "in bool 'x' 1 1 donated 0 [] at 64");
    line_is("input bool 0 63 0 x", NULL);
    line_is("input bool 0 65 0 x", NULL);
    line_is("input bool 0 -1 0 x", NULL);
    line_is("input bool 0 -- 0 x", NULL);
    line_is("input bool 0", NULL);
    line_is("input bool 0 ", NULL);
    line_is("input bool 0 -", NULL);
    line_is("input bool 0 - ", NULL);
    line_is("input bool 0 - 0", "in bool '' 1 1 donated 0 []");
    line_is("output", NULL);
    line_is("output bool", NULL);
    line_is("outputs bool 0 r", NULL);
    line_is("end", NULL);
    line_is(" output bool 0 r", NULL);
}

/* Arrays up to the end of the data, and one byte behind. */
static void test_room(void)
{
    static const struct {
        int size, offset, extent;
        bool good;
    } cases[] = {{0, 0, 0, true},     {0, 0, 1, false},    {1, 0, 1, true},
                 {1, 0, 2, false},    {64, 64, 0, true},   {64, 64, 1, false},
                 {63, 64, 0, false},  {65, 64, 1, true},   {65, 64, 2, false},
                 {128, 0, 128, true}, {128, 64, 64, true}, {128, 64, 65, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char lines[512];
        (void)snprintf(lines, sizeof lines,
                       "data %d " DIGEST " d\nprogram 7 " DIGEST " cpu p\n"
                       "input uint8 0 %d 1 %d x\n",
                       cases[i].size, cases[i].offset, cases[i].extent);
        const char *got = told_lines(lines);
        CHECK_INT(strcmp(got, "line 4 is damaged") != 0, cases[i].good);
    }
    CHECK_TEXT(told_lines("program 7 " DIGEST " cpu p\ninput bool 0 64 1 0 x\n"),
               "line 3 is damaged"); /* without data there is no place but the first */
}

/* As many dimensions as there may be, and one more. */
static void test_ranks(void)
{
    for (int rank = KB_RANK_MAX - 1; rank <= KB_RANK_MAX + 1; rank++) {
        char line[512], expected[512];
        size_t n = (size_t)snprintf(line, sizeof line, "output bool %d", rank),
               k = (size_t)snprintf(expected, sizeof expected, "out bool 'r' 1 1 donated 0 [");
        for (int i = 0; i < rank; i++) {
            n += (size_t)snprintf(line + n, sizeof line - n, " 1");
            k += (size_t)snprintf(expected + k, sizeof expected - k, " 1");
        }
        (void)snprintf(line + n, sizeof line - n, " r");
        (void)snprintf(expected + k, sizeof expected - k, "]");
        line_is(line, rank <= KB_RANK_MAX ? expected : NULL);
    }
}

/* Names of files lead out of no folder. */
static void test_names(void)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    for (int c = 1; c < 256; c++) {
        char lines[256];
        if (c == '\n' || c == ' ')
            continue;
        for (int at = 0; at < 2; at++) { /* in front, and behind another */
            (void)snprintf(lines, sizeof lines, "program 7 " DIGEST " cpu %s%c\n", at ? "x" : "",
                           c);
            bool fits = strchr(good, c) && (at || c != '.');
            CHECK_INT(strcmp(told_lines(lines), "line 2 is damaged") != 0, fits);
        }
    }
}

static void test_digests(void)
{
    for (int at = 0; at < 64; at++)
        for (const char *c = "/:g`GAF@"; *c; c++) {
            char lines[] = "program 7 " DIGEST " cpu p\n";
            lines[sizeof "program 7 " - 1 + at] = *c;
            CHECK_TEXT(told_lines(lines), "line 2 is damaged");
        }
    CHECK_TEXT(told_lines("program 7 " DIGEST "0 cpu p\n"), "line 2 is damaged");
    CHECK_TEXT(told_lines("program 7 0" DIGEST " cpu p\n"), "line 2 is damaged");
    CHECK_TEXT(told_lines("program 7 0 cpu p\n"), "line 2 is damaged");
}

/* The first line and the last, and bytes that no line has. */
static void test_frame(void)
{
    static const char no_end[] = "its end is missing, or the check of its digest failed";
    static const char program[] = "made-by x\nprogram 7 " DIGEST " cpu p\n";
    static const char *const first[] = {"",
                                        "\n",
                                        "kernbridge-bundle\n",
                                        "kernbridge-bundle x\n",
                                        "kernbridge-bundl 1\n",
                                        "kernbridge-bundles 1\n"};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        strcpy(text, first[i]);
        CHECK_TEXT(told(strlen(text)), "it is not the manifest of a bundle");
    }
    strcpy(text, "kernbridge-bundle 0\n");
    CHECK_HAS(told(strlen(text)), "the bundle has format 0, and this libkernbridge reads format 1");
    size_t size = put(program);
    CHECK_TEXT(told(size), "; cpu: p 7 " DIGEST);
    strcpy(text + size, "\n");
    CHECK_TEXT(told(size + 1), no_end);
    for (size_t i = 0; i < size; i++) { /* each byte */
        text[i] ^= 1;
        CHECK_HAS(told(size), i < 20 ? "bundle" : no_end);
        text[i] ^= 1;
        CHECK_HAS(told(i), i < 19 ? "bundle" : no_end);
    }
    for (int c = 0; c < 256; c++) { /* of a line that may be any text */
        size = put(program);
        *strchr(text, 'x') = (char)c;
        bundle_sign(text, size);
        const char *expected = c == 0      ? no_end
                               : c == '\n' ? "line 3 is damaged"
                                           : "; cpu: p 7 " DIGEST;
        CHECK_TEXT(told(size), expected);
    }
    CHECK_TEXT(told_lines("program 7 " DIGEST " cpu p\n" DATA "\n"), "line 3 is damaged");
    CHECK_TEXT(told_lines(DATA "\n" DATA "\nprogram 7 " DIGEST " cpu p\n"), "line 3 is damaged");
    put("made-by x\n");
    CHECK_TEXT(told(strlen(text)), "there is no program");
    CHECK_TEXT(told(put("")), "there is no program");
}

/* Wherever memory ends: in the first block for the shape of an array, too. */
static void test_no_memory(void)
{
    char lines[4096] = "program 7 " DIGEST " cpu p\n";
    for (int i = 0; i < 12; i++) {
        strcat(lines, "output bool 60");
        for (int d = 0; d < 60; d++)
            strcat(lines, " 1");
        strcat(lines, " r\n");
    }
    size_t size = put(lines);
    int n = 0;
    for (kb_status s = KB_RESOURCE_EXHAUSTED; s != KB_OK && n < 100; n++) {
        kb_manifest m;
        kb_arena *arena = kb_arena_new();
        torture_fail_nth(n + 1);
        s = read_text(size, arena, &m);
        torture_fail_nth(0);
        if (s != KB_OK) {
            CHECK_INT(s, KB_RESOURCE_EXHAUSTED);
            CHECK_TEXT(err.message, "there is no memory to read it");
        }
        kb_arena_free(arena);
    }
    CHECK(n > 4 && n < 100);
}

int main(void)
{
    test_fields();
    test_types();
    test_numbers();
    test_inputs();
    test_room();
    test_ranks();
    test_names();
    test_digests();
    test_frame();
    test_no_memory();
    return kb_test_end("test_manifest");
}
