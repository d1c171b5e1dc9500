/* Proves the measures of arrays in the checked mode: where they begin and end, which of them share
 * cells, and how messages name their elements. */
#include "ext/emulator/kb_check.h"
#include "kb_test.h"

enum { BASE = 1000 };

/* An array at BASE with these words behind its address. */
static kb_range measured(const kb_check_array *about, const int64_t *words)
{
    int64_t all[8] = {7, BASE};
    void *parameters[8];
    memcpy(all + 2, words, 6 * sizeof *words);
    for (int i = 0; i < 8; i++)
        parameters[i] = &all[i];
    kb_range r = {.about = about};
    kb_range_measure(&r, parameters);
    return r;
}

static void test_measures(void)
{
    const struct {
        uint32_t n_dims, flags;
        int64_t words[6], low, high, slice, last;
    } cases[] = {
        {0, 0, {0}, 0, 4, 0, 0},
        {1, 0, {5}, 0, 20, 0, 5},
        {3, 0, {5, 2, 3}, 0, 120, 0, 3},
        {2, 0, {5, 0}, 0, 0, 0, 0},
        {1, KB_CHECK_BATCHED, {100, 5}, 0, 20, 100, 5},
        {2, KB_CHECK_STRIDED, {3, 2, 24, 4}, 0, 2 * 24 + 4 + 4, 0, 2},
        {2, KB_CHECK_STRIDED, {3, 2, -24, 4}, -48, 8, 0, 2},
        {2, KB_CHECK_STRIDED, {3, 2, -24, -4}, -52, 4, 0, 2},
        {2, KB_CHECK_STRIDED, {3, 2, 24, -4}, -4, 52, 0, 2},
        {2, KB_CHECK_STRIDED, {3, 2, 0, 0}, 0, 4, 0, 2},
        {1, KB_CHECK_STRIDED, {2, 1}, 0, 5, 0, 2},
        {1, KB_CHECK_STRIDED, {2, -1}, -1, 4, 0, 2},
        {2, KB_CHECK_STRIDED, {3, 0, -24, 4}, 0, 0, 0, 0},
        {2, KB_CHECK_STRIDED, {1, 1, -24, 99}, 0, 4, 0, 1},
        {2, KB_CHECK_STRIDED | KB_CHECK_BATCHED, {-64, 3, 2, -24, 4}, -48, 8, -64, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kb_check_array about = {"'a'", 4, cases[i].n_dims, 1, cases[i].flags, 0, 0, NULL, 4};
        kb_range r = measured(&about, cases[i].words);
        CHECK_INT(r.base, BASE);
        CHECK_INT(r.low, cases[i].low);
        CHECK_INT(r.high, cases[i].high);
        CHECK_INT(r.slice, cases[i].slice);
        if (about.n_dims)
            CHECK_INT(r.extents[about.n_dims - 1], cases[i].last);
    }
}

static const kb_check_array written = {"'w'", 4, 1, 0, 0, 0, 0, NULL, 4};
static const kb_check_array wide = {"'w8'", 8, 1, 0, 0, 0, 0, NULL, 8};
static const kb_check_array odd = {"'w12'", 12, 1, 0, 0, 0, 0, NULL, 12};
static const kb_check_array constant = {"'c'", 4, 1, 0, KB_CHECK_CONSTANT, 0, 0, NULL, 4};

static kb_range range_of(const kb_check_array *about, uint64_t base, int64_t low, int64_t high)
{
    return (kb_range){.about = about, .base = base, .low = low, .high = high};
}

static void test_units(void)
{
    kb_range r = range_of(&odd, 0, 0, 24);
    CHECK_INT(kb_range_unit(&r, 0), 4);
    r.about = &wide;
    CHECK_INT(kb_range_unit(&r, 0), 8);
    CHECK_INT(kb_range_unit(&r, 12), 4);
    CHECK_INT(kb_range_unit(&r, 2), 2);
    CHECK_INT(kb_range_unit(&r, 16), 8);
}

/* Arrays that touch are apart; those that overlap, through others too, have the same cells. */
static void test_cells(void)
{
    kb_range r[] = {range_of(&written, 1000, 0, 40), range_of(&wide, 1040, 0, 16),
                    range_of(&constant, 2000, 0, 400), range_of(&written, 3000, 0, 8)};
    for (uint32_t i = 0; i < 4; i++)
        r[i].group = 3; /* which is overwritten */
    CHECK_INT(kb_ranges_count(r, 4), 10 + 2 + 0 + 2);
    CHECK_INT(r[0].cell, 0);
    CHECK_INT(r[0].unit, 4);
    CHECK_INT(r[1].cell, 10);
    CHECK_INT(r[1].unit, 8);
    CHECK_INT(r[2].unit, 0);
    CHECK_INT(r[3].cell, 12);
    for (uint32_t i = 0; i < 4; i++)
        CHECK_INT(r[i].group, i);

    r[2].is_watched = true;
    r[2].unit = 0;
    CHECK_INT(kb_ranges_count(r, 4), 10 + 2 + 100 + 2);
    CHECK_INT(r[2].cell, 12);
    CHECK_INT(r[2].unit, 4);

    /* The same where the later one lies in front. */
    kb_range before[] = {range_of(&written, 1040, 0, 16), range_of(&written, 1000, 0, 40),
                         range_of(&written, 992, 0, 9)};
    for (uint32_t i = 0; i < 3; i++)
        before[i].slice = 4096; /* in the first slice of a batch */
    CHECK_INT(kb_ranges_count(before, 3), 4 + 12);
    CHECK_INT(before[0].group, 0);
    CHECK_INT(before[1].group, 1);
    CHECK_INT(before[2].group, 1);
    CHECK_INT(before[0].cell, 0);
    CHECK_INT(before[1].cell, 4 + 2);
    CHECK_INT(before[2].cell, 4);

    /* The last one connects the first two; nobody writes to the second. */
    kb_range joined[] = {range_of(&written, 1000, 0, 40), range_of(&constant, 1100, -8, 40),
                         range_of(&written, 5000, 0, 4), range_of(&wide, 1038, -2, 62)};
    CHECK_INT(kb_ranges_count(joined, 4), 35 + 1);
    CHECK_INT(joined[0].group, 0);
    CHECK_INT(joined[1].group, 0);
    CHECK_INT(joined[2].group, 2);
    CHECK_INT(joined[3].group, 0);
    CHECK_INT(joined[0].cell, 0);
    CHECK_INT(joined[1].cell, 23);
    CHECK_INT(joined[3].cell, 9);
    CHECK_INT(joined[2].cell, 35);
    CHECK_INT(joined[1].unit, 4);

    /* Places that are not multiples of an item from each other. */
    kb_range shifted[] = {range_of(&wide, 1000, 0, 16), range_of(&wide, 1006, 0, 15)};
    CHECK_INT(kb_ranges_count(shifted, 2), 11);
    CHECK_INT(shifted[1].unit, 2);
    CHECK_INT(shifted[1].cell, 3);

    /* It is their distance that counts. */
    kb_range odd_places[] = {range_of(&written, 1001, 0, 40), range_of(&written, 1005, 0, 4)};
    CHECK_INT(kb_ranges_count(odd_places, 2), 10);
    CHECK_INT(odd_places[0].unit, 4);
    CHECK_INT(odd_places[1].cell, 1);

    /* Bytes, where it is not known how much is written together. */
    static const kb_check_array unknown = {"'u'", 4, 1, 0, 0, 0, 0, NULL, 0};
    kb_range of_bytes[] = {range_of(&unknown, 1000, 0, 40), range_of(&written, 3000, 0, 8)};
    CHECK_INT(kb_ranges_count(of_bytes, 2), 40 + 2);
    CHECK_INT(of_bytes[0].unit, 1);
    CHECK_INT(of_bytes[1].cell, 40);

    kb_range empty[] = {range_of(&written, 1000, 0, 0), range_of(&written, 1000, 0, 4)};
    CHECK_INT(kb_ranges_count(empty, 2), 1);
    CHECK_INT(kb_ranges_count(empty, 0), 0);
}

static void test_texts(void)
{
    static const int64_t shape[3] = {2, 3, 4};
    kb_check_array about = {"'a'", 4, 3, 0, 0, 0, 96, shape, 4};
    kb_range r = {.about = &about};
    char text[64], little[6];
    kb_range_fixed(&r, BASE, 96);
    CHECK_INT(r.base, BASE);
    CHECK_INT(r.high, 96);
    kb_range_shape(&r, text, sizeof text);
    CHECK_TEXT(text, "(2, 3, 4)");
    kb_range_shape(&r, little, sizeof little);
    CHECK_TEXT(little, "(2, 3");
    const struct {
        int64_t offset;
        const char *text;
    } cases[] = {{0, "[0, 0, 0]"},   {4, "[0, 0, 1]"},    {12, "[0, 0, 3]"},  {16, "[0, 1, 0]"},
                 {95, "[1, 2, 3]"},  {96, "[2, 0, 0]"},   {6, "[0, 0, 1]"},   {-4, "[-1, 2, 3]"},
                 {-1, "[-1, 2, 3]"}, {-16, "[-1, 2, 0]"}, {-48, "[-1, 0, 0]"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kb_range_element(&r, cases[i].offset, text, sizeof text);
        CHECK_TEXT(text, cases[i].text);
    }
    kb_check_array dynamic = {"'d'", 4, 1, 0, KB_CHECK_DYNAMIC, 0, 0, NULL, 4};
    kb_range of_launch = {.about = &dynamic};
    kb_range_fixed(&of_launch, BASE, 27);
    CHECK_INT(of_launch.high, 27);
    kb_range_shape(&of_launch, text, sizeof text);
    CHECK_TEXT(text, "(6,)");
    kb_range_element(&r, 95, little, sizeof little);
    CHECK_TEXT(little, "[1, 2");
    char narrow[] = "xxxxxxxxxxxxxxx"; /* behind the room, nothing changes */
    kb_range_shape(&r, narrow, 3);
    CHECK(memcmp(narrow, "(2\0xxxxxxxxxxxx", sizeof narrow) == 0);
    kb_range_element(&r, 95, narrow + 3, 4);
    CHECK(memcmp(narrow, "(2\0[1,\0xxxxxxxx", sizeof narrow) == 0);
    about.n_dims = 1;
    kb_range_shape(&r, text, sizeof text);
    CHECK_TEXT(text, "(2,)");
    kb_range_element(&r, -4, text, sizeof text);
    CHECK_TEXT(text, "[-1]");
    about.n_dims = 0;
    kb_range_shape(&r, text, sizeof text);
    CHECK_TEXT(text, "");
    about.n_dims = 2;
    about.flags = KB_CHECK_STRIDED;
    kb_range_element(&r, 20, text, sizeof text);
    CHECK_TEXT(text, "[5]");
    about.flags = 0;
    r.extents[1] = 0;
    kb_range_element(&r, 20, text, sizeof text);
    CHECK_TEXT(text, "[5, 5]");
}

int main(void)
{
    test_measures();
    test_units();
    test_cells();
    test_texts();
    return kb_test_end("test_range");
}
