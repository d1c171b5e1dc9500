/* Proves that every code of DEFLATE is decoded as RFC 1951 defines it: literals, lengths,
 * distances, runs of code lengths, codes of each length. What is decoded here was encoded by this
 * file. */
#include "core/kb_inflate.h"
#include "kb_test.h"

#include <stdint.h>
#include <stdlib.h>

enum { ROOM = 1 << 17, FIXED = 1, DYNAMIC = 2, END = 256, LITERALS = 286, DISTANCES = 30 };
enum { N_LENGTHS = 19, ALL_LITERALS = 288 };

/* What is encoded, and what it stands for. */
static struct {
    uint8_t data[ROOM], text[ROOM];
    size_t bits, size;
    uint8_t of_literals[ALL_LITERALS], of_distances[32]; /* code lengths */
} e;

static void put(uint32_t value, unsigned n)
{
    for (unsigned i = 0; i < n; i++, e.bits++)
        e.data[e.bits / 8] = (uint8_t)(e.data[e.bits / 8] | (value >> i & 1) << e.bits % 8);
}

/* A symbol's code is the number of codes before it, the shorter first, then the smaller symbol. */
static void put_symbol(const uint8_t *lengths, unsigned n, unsigned symbol)
{
    uint32_t code = 0;
    for (unsigned i = 0; i < n; i++)
        if (lengths[i] &&
            (lengths[i] < lengths[symbol] || (lengths[i] == lengths[symbol] && i < symbol)))
            code += UINT32_C(1) << (lengths[symbol] - lengths[i]);
    for (unsigned i = lengths[symbol]; i-- > 0;)
        put(code >> i & 1, 1);
}

static void put_literal(unsigned symbol)
{
    put_symbol(e.of_literals, ALL_LITERALS, symbol);
    if (symbol < END)
        e.text[e.size++] = (uint8_t)symbol;
}

static void put_repeat(unsigned length, unsigned distance)
{
    unsigned symbol = END + 1, base = 3, extra = 0;
    for (; symbol < 285 && length != 258; symbol++) {
        extra = symbol < 265 ? 0 : (symbol - 261) / 4;
        if (length < base + (1u << extra))
            break;
        base += 1u << extra;
    }
    put_literal(length == 258 ? 285 : symbol);
    if (length != 258)
        put(length - base, extra);
    for (symbol = 0, base = 1; symbol < DISTANCES; symbol++) {
        extra = symbol < 4 ? 0 : symbol / 2 - 1;
        if (distance < base + (1u << extra))
            break;
        base += 1u << extra;
    }
    put_symbol(e.of_distances, 32, symbol);
    put(distance - base, extra);
    for (; length > 0; length--, e.size++)
        e.text[e.size] = e.text[e.size - distance];
}

static void begin(void)
{
    memset(&e, 0, sizeof e);
}

static void begin_fixed(bool last)
{
    put(last, 1);
    put(FIXED, 2);
    for (unsigned i = 0; i < ALL_LITERALS; i++)
        e.of_literals[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    memset(e.of_distances, 5, sizeof e.of_distances);
}

/* Decodes what there is, in blocks of exactly its size. */
static bool decodes(size_t size)
{
    size_t n = (e.bits + 7) / 8;
    uint8_t *from = malloc(n), *to = malloc(size ? size : 1);
    if (!from || !to)
        abort();
    memcpy(from, e.data, n);
    bool same = kb_inflate(from, n, to, size) && memcmp(to, e.text, size) == 0;
    free(from);
    free(to);
    return same;
}

static void test_fixed_codes(void)
{
    begin();
    begin_fixed(true);
    for (int round = 0; round < 130; round++)
        for (unsigned i = 0; i < 256; i++)
            put_literal(i ^ (unsigned)round);
    for (unsigned length = 3; length <= 258; length++)
        put_repeat(length, 3 * length);
    for (unsigned k = 0, distance = 1; k < 16; k++, distance *= 2) {
        put_repeat(3, distance);
        if (distance > 2)
            put_repeat(3, distance - 1);
        if (distance > 3 && distance < 32768) {
            put_repeat(3, distance + 1);
            put_repeat(3, distance + distance / 2);
            put_repeat(3, distance + distance / 2 + 1);
        }
    }
    put_literal(END);
    CHECK(decodes(e.size));
    CHECK(!decodes(e.size - 1));
}

/* 286 and 287 are no lengths, 30 and 31 no distances. */
static void test_reserved_codes(void)
{
    for (unsigned symbol = 286; symbol < 288; symbol++) {
        begin();
        begin_fixed(true);
        for (int i = 0; i < 4; i++)
            put_literal('x');
        put_literal(symbol);
        put_symbol(e.of_distances, 32, 0);
        put_literal(END);
        for (size_t size = 4; size < 270; size++)
            CHECK(!decodes(size));
    }
    for (unsigned symbol = 30; symbol < 32; symbol++) {
        begin();
        begin_fixed(true);
        for (int i = 0; i < 4; i++)
            put_literal('x');
        put_literal(END + 1);
        put_symbol(e.of_distances, 32, symbol);
        put_literal(END);
        memset(e.text, 'x', 8);
        CHECK(!decodes(4));
        CHECK(!decodes(7));
    }
}

/* Before the beginning, by one; behind the end, by one. */
static void test_repeats_at_the_ends(void)
{
    for (unsigned distance = 3; distance < 5; distance++) {
        begin();
        begin_fixed(true);
        for (int i = 0; i < 3; i++)
            put_literal('x');
        e.size += distance; /* so that there is something to copy */
        put_repeat(3, distance);
        put_literal(END);
        memset(e.text, 'x', 8);
        CHECK(decodes(6) == (distance == 3));
        CHECK(!decodes(3)); /* as if there were no repetition */
        CHECK(!decodes(5));
        CHECK(!decodes(7));
    }
}

/* Blocks of each kind behind one that ends within a byte. */
static void test_blocks(void)
{
    begin();
    begin_fixed(false);
    put_literal('a');
    put_literal(END);
    put(0, 3); /* stored, of 2 bytes */
    e.bits = (e.bits + 7) / 8 * 8;
    put(2, 16);
    put(0xfffd, 16);
    put('b', 8);
    put('c', 8);
    begin_fixed(false);
    put_literal(END);
    put(0, 3); /* stored, of none */
    e.bits = (e.bits + 7) / 8 * 8;
    put(0, 16);
    put(0xffff, 16);
    begin_fixed(true);
    put_literal('d');
    put_literal(END);
    memcpy(e.text, "abcd", 4);
    CHECK(decodes(4));
    CHECK(!decodes(3));
    CHECK(!decodes(2));
}

/* Stored blocks of no byte, of one, and of sizes that take two bytes. */
static void test_stored_sizes(void)
{
    static const unsigned sizes[] = {0, 1, 255, 256, 300, 4660, 65535};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        begin();
        put(1, 3);
        e.bits = 8;
        put(sizes[i], 16);
        put(~sizes[i] & 0xffff, 16);
        for (; e.size < sizes[i]; e.size++)
            put(e.text[e.size] = (uint8_t)(e.size * 7), 8);
        CHECK(decodes(e.size));
        CHECK(!e.size || !decodes(e.size - 1));
    }
}

/* Lengths of the codes of code lengths, all different from their neighbours' in the order in which
 * they are sent. */
static const uint8_t of_lengths[N_LENGTHS] = {5, 6, 5, 6, 5, 6, 5, 6, 4, 6,
                                              4, 6, 5, 6, 5, 6, 3, 3, 3};

/* The numbers are what the fields hold: 257, 1 and 4 less. */
static void begin_dynamic(unsigned n_literals, unsigned n_distances)
{
    static const uint8_t order[N_LENGTHS] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                             11, 4,  12, 3, 13, 2, 14, 1, 15};
    put(1, 1);
    put(DYNAMIC, 2);
    put(n_literals, 5);
    put(n_distances, 5);
    put(N_LENGTHS - 4, 4);
    for (int i = 0; i < N_LENGTHS; i++)
        put(of_lengths[order[i]], 3);
}

static void put_length(unsigned symbol)
{
    put_symbol(of_lengths, N_LENGTHS, symbol);
}

/* A code for each length from 1 to 15; all literals are sent one by one. */
static void test_lengths_of_codes(void)
{
    begin();
    begin_dynamic(29, 29);
    for (unsigned i = 0; i < 15; i++)
        e.of_literals['a' + i] = (uint8_t)(i + 1);
    e.of_literals[END] = 15;
    for (unsigned i = 0; i < LITERALS; i++)
        put_length(e.of_literals[i]);
    for (unsigned i = 0; i < DISTANCES; i++)
        put_length(e.of_distances[i] = 5);
    for (unsigned i = 0; i < 15; i++) {
        put_literal('a' + i);
        put_literal('o' - i);
    }
    put_literal(END);
    CHECK(decodes(30));
}

/* Runs of each kind, with their least, their greatest and another count. */
static void test_runs(void)
{
    static const uint8_t counts[3][3] = {{3, 5, 6}, {3, 8, 10}, {11, 100, 138}};
    static const uint8_t bases[3] = {3, 3, 11}, extras[3] = {2, 3, 7};
    for (unsigned which = 0; which < 3; which++)
        for (unsigned k = 0; k < 3; k++) {
            unsigned at = 0, count = counts[which][k];
            begin();
            begin_dynamic(0, 0);
            put_length(e.of_literals[at++] = 9);
            put_length(16 + which);
            put(count - bases[which], extras[which]);
            for (unsigned i = 0; i < count; i++)
                e.of_literals[at++] = which ? 0 : 9;
            for (; at < END; at++)
                put_length(e.of_literals[at] = at % 3 ? 9 : 10);
            put_length(e.of_literals[END] = 2);
            put_length(e.of_distances[0] = 1);
            for (unsigned i = 0; i < END; i++)
                if (e.of_literals[i])
                    put_literal(i);
            put_literal(END);
            CHECK(decodes(e.size));
        }
}

/* A run may go on from literals to distances, and not behind these; the first has no last. */
static void test_ends_of_runs(void)
{
    for (unsigned more = 0; more < 2; more++) {
        begin();
        begin_dynamic(0, 2);
        for (unsigned i = 0; i < END - 1; i++)
            put_length(0);
        put_length(e.of_literals[END - 1] = 2);
        put_length(e.of_literals[END] = 2);
        put_length(16);
        put(more, 2); /* three or four times */
        memset(e.of_distances, 2, 3);
        put_literal(END - 1);
        put_literal(END);
        CHECK(decodes(1) == !more);
        CHECK(!decodes(0));
    }
    begin();
    begin_dynamic(0, 0);
    put_length(16);
    put(3, 2);
    for (unsigned i = 6; i < END; i++)
        put_length(0);
    put_length(e.of_literals[END] = 1);
    put_length(1);
    put_literal(END);
    CHECK(!decodes(0));
}

/* The longest run where one length is left of the most that there are: none is written behind. */
static void test_longest_run_at_the_end(void)
{
    begin();
    begin_dynamic(29, 29);
    for (unsigned i = 0; i < LITERALS + DISTANCES - 1; i++)
        put_length(i == END);
    put_length(18);
    put(127, 7);
    put(0, 1); /* the end's code */
    CHECK(!decodes(0));
}

/* Lengths are sent in a code that has one symbol, 0, of one bit: the other bit stands for none. */
static void test_missing_length(void)
{
    for (unsigned at = 0; at < 3; at++) {
        begin();
        put(1, 1);
        put(DYNAMIC, 2);
        put(0, 10);
        put(N_LENGTHS - 4, 4);
        for (int i = 0; i < N_LENGTHS; i++)
            put(i == 3, 3);
        put(0, at);
        put(UINT32_MAX, 32);
        put(0, 32);
        CHECK(!decodes(0));
    }
}

/* More literals or distances than there are. */
static void test_numbers_of_codes(void)
{
    for (unsigned literals = 28; literals < 32; literals++)
        for (unsigned distances = 28; distances < 32; distances++) {
            begin();
            begin_dynamic(literals, distances);
            for (unsigned i = 0; i < literals + 257; i++)
                put_length(i == END ? 1 : 0);
            for (unsigned i = 0; i <= distances; i++)
                put_length(0);
            put(0, 1); /* the end's code */
            CHECK(decodes(0) == (literals < 30 && distances < 30));
        }
}

/* More codes of a length than bits tell apart: among the lengths, the literals, the distances. */
static void test_too_many_codes(void)
{
    for (unsigned where = 0; where < 3; where++)
        for (unsigned n = 1; n < 4; n++) {
            begin();
            begin_dynamic(0, 3);
            for (unsigned i = 0; i < END; i++)
                put_length(where == 1 && i < n ? 2 : 0);
            put_length(1);
            for (unsigned i = 0; i < 4; i++)
                put_length(where == 2 && i < n ? 1 : 0);
            put(0, 1);
            CHECK(decodes(0) == (where == 0 || n < 3));
        }
    begin();
    put(1, 1);
    put(DYNAMIC, 2);
    put(0, 10);
    put(0, 4);
    for (int i = 0; i < 4; i++)
        put(1, 3); /* 16, 17, 18 and 0 have codes of one bit */
    put(0, 32);
    put(0, 32);
    CHECK(!decodes(0));
}

/* One code of each length below the greatest, and one, two or three of that: two are all there are,
 * of literals beside the end, or of distances. */
static void test_greatest_length(void)
{
    for (unsigned where = 0; where < 2; where++)
        for (unsigned greatest = 2 - where; greatest <= 15; greatest++)
            for (unsigned n = 1; n < 4; n++) {
                uint8_t *to = where ? e.of_distances : e.of_literals;
                begin();
                begin_dynamic(0, DISTANCES - 1);
                for (unsigned length = 2 - where; length < greatest; length++)
                    *to++ = (uint8_t)length;
                memset(to, (int)greatest, n);
                e.of_literals[END] = 1;
                for (unsigned i = 0; i <= END; i++)
                    put_length(e.of_literals[i]);
                for (unsigned i = 0; i < DISTANCES; i++)
                    put_length(e.of_distances[i]);
                put_literal(END);
                CHECK(decodes(0) == (n < 3));
            }
}

/* A symbol whose code does not occur. */
static void test_missing_code(void)
{
    for (unsigned wrong = 0; wrong < 2; wrong++) {
        begin();
        begin_dynamic(0, 0);
        for (unsigned i = 0; i < END; i++)
            put_length(0);
        put_length(2);
        put_length(0);
        put(wrong, 1); /* the end's code is 00 */
        put(0, 31);
        e.bits -= wrong ? 17 : 30; /* so many that no code is longer */
        CHECK(decodes(0) == !wrong);
    }
}

int main(void)
{
    test_fixed_codes();
    test_reserved_codes();
    test_repeats_at_the_ends();
    test_blocks();
    test_stored_sizes();
    test_lengths_of_codes();
    test_runs();
    test_ends_of_runs();
    test_longest_run_at_the_end();
    test_missing_length();
    test_numbers_of_codes();
    test_too_many_codes();
    test_greatest_length();
    test_missing_code();
    return kb_test_end("test_inflate_codes");
}
