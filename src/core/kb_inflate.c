/* Owns the decoding of DEFLATE data. */
#include "core/kb_inflate.h"

#include <stdint.h>
#include <string.h>

enum {
    BITS_MAX = 15, /* of a code */
    LITERALS = 288,
    DISTANCES = 30,
    ORDERED = 19, /* codes for lengths of codes */
    END = 256,    /* of a block, among the literals; lengths of repetitions follow */
    LENGTHS = 29,
};

/* A prefix code: how many codes of each length there are, and the symbols in the order of codes. */
typedef struct code {
    uint16_t counts[BITS_MAX + 1];
    uint16_t symbols[LITERALS];
} code;

typedef struct stream {
    const uint8_t *at, *end;
    uint32_t bits; /* that were read and not used, the lowest first */
    unsigned n_bits;
    uint8_t *begin, *to, *to_end;
    bool failed;
} stream;

/* A number that nobody uses: whoever goes on with it stops soon, and the data is refused. */
static unsigned fail(stream *s)
{
    s->failed = true;
    return 0;
}

static uint32_t take_bits(stream *s, unsigned n)
{
    while (s->n_bits < n) {
        if (s->at == s->end)
            return fail(s);
        s->bits |= (uint32_t)*s->at++ << s->n_bits;
        s->n_bits += 8;
    }
    uint32_t taken = s->bits & ((UINT32_C(1) << n) - 1);
    s->bits >>= n;
    s->n_bits -= n;
    return taken;
}

/* Makes the code whose symbols have these lengths, 0 for those that do not occur. False if there
 * are more codes of a length than bits can tell apart; an incomplete code is accepted, and a symbol
 * that it lacks is found when it is read. */
static bool make_code(code *c, const uint8_t *lengths, unsigned n)
{
    uint16_t next[BITS_MAX + 1];
    memset(c->counts, 0, sizeof c->counts);
    for (unsigned i = 0; i < n; i++)
        c->counts[lengths[i]]++; /* that of length 0 is not read */
    int free_codes = 1;
    next[1] = 0;
    for (unsigned length = 1; length <= BITS_MAX; length++) {
        free_codes = 2 * free_codes - c->counts[length];
        if (free_codes < 0)
            return false;
        if (length < BITS_MAX)
            next[length + 1] = (uint16_t)(next[length] + c->counts[length]);
    }
    for (unsigned i = 0; i < n; i++)
        if (lengths[i])
            c->symbols[next[lengths[i]]++] = (uint16_t)i;
    return true;
}

/* Codes of one length are consecutive numbers, and follow on those that are one bit shorter. */
static unsigned read_symbol(stream *s, const code *c)
{
    uint32_t word = 0, first = 0, index = 0;
    for (unsigned length = 1; length <= BITS_MAX; length++) {
        word |= take_bits(s, 1);
        uint32_t count = c->counts[length];
        if (word - first < count)
            return c->symbols[index + word - first];
        index += count;
        first = (first + count) << 1;
        word <<= 1;
    }
    s->failed = true;
    return END;
}

static void put_literal(stream *s, unsigned literal)
{
    if (s->to == s->to_end)
        s->failed = true;
    else
        *s->to++ = (uint8_t)literal;
}

/* Repeats bytes that were written, which may be those that are being written. */
static void repeat(stream *s, size_t distance, size_t length)
{
    if (distance > (size_t)(s->to - s->begin) || length > (size_t)(s->to_end - s->to)) {
        s->failed = true;
        return;
    }
    for (; length > 0; length--, s->to++)
        *s->to = *(s->to - distance);
}

static size_t read_length(stream *s, unsigned symbol)
{
    static const uint16_t bases[LENGTHS] = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                            15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                            67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const uint8_t extra[LENGTHS] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                           2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    unsigned which = symbol - END - 1;
    if (which >= LENGTHS)
        return fail(s);
    return bases[which] + take_bits(s, extra[which]);
}

static size_t read_distance(stream *s, const code *distances)
{
    unsigned symbol = read_symbol(s, distances);
    if (symbol >= DISTANCES)
        return fail(s);
    if (symbol < 4)
        return symbol + 1;
    unsigned extra = symbol / 2 - 1; /* each pair of symbols has twice the span of the one before */
    return ((size_t)(2 + symbol % 2) << extra) + 1 + take_bits(s, extra);
}

static void read_compressed(stream *s, const code *literals, const code *distances)
{
    while (!s->failed) {
        unsigned symbol = read_symbol(s, literals);
        if (s->failed || symbol == END)
            return;
        if (symbol < END) {
            put_literal(s, symbol);
            continue;
        }
        size_t length = read_length(s, symbol), distance = read_distance(s, distances);
        if (!s->failed)
            repeat(s, distance, length);
    }
}

static void read_stored(stream *s)
{
    enum { HEADER = 4 };
    s->bits = 0; /* what is left of a byte is skipped; whole bytes are never held back */
    s->n_bits = 0;
    if (s->end - s->at < HEADER) {
        s->failed = true;
        return;
    }
    size_t size = (size_t)s->at[0] | (size_t)s->at[1] << 8;
    size_t inverse = (size_t)s->at[2] | (size_t)s->at[3] << 8;
    s->at += HEADER;
    if (size != (inverse ^ 0xffff) || size > (size_t)(s->end - s->at) ||
        size > (size_t)(s->to_end - s->to)) {
        s->failed = true;
        return;
    }
    if (size)
        memcpy(s->to, s->at, size);
    s->at += size;
    s->to += size;
}

static void read_fixed(stream *s)
{
    static const struct {
        uint16_t end;
        uint8_t length;
    } spans[] = {{144, 8}, {256, 9}, {280, 7}, {LITERALS, 8}};
    uint8_t lengths[LITERALS];
    code literals, distances;
    unsigned i = 0;
    for (unsigned span = 0; span < sizeof spans / sizeof *spans; span++)
        for (; i < spans[span].end; i++)
            lengths[i] = spans[span].length;
    (void)make_code(&literals, lengths, LITERALS);
    memset(lengths, 5, DISTANCES);
    (void)make_code(&distances, lengths, DISTANCES);
    read_compressed(s, &literals, &distances);
}

/* Reads the lengths of both codes of a block, which are compressed themselves. */
static void read_lengths(stream *s, const code *of_lengths, uint8_t *lengths, unsigned n)
{
    static const struct {
        uint8_t base, extra;
    } runs[] = {{3, 2}, {3, 3}, {11, 7}}; /* of the last length, of zeros, of more zeros */
    enum { FIRST_RUN = 16 };
    unsigned i = 0;
    while (i < n && !s->failed) {
        unsigned symbol = read_symbol(s, of_lengths);
        if (symbol < FIRST_RUN) {
            lengths[i++] = (uint8_t)symbol;
            continue;
        }
        unsigned which = symbol - FIRST_RUN;
        if (which >= sizeof runs / sizeof *runs || (which == 0 && i == 0)) {
            s->failed = true;
            return;
        }
        uint8_t repeated = which == 0 ? lengths[i - 1] : 0;
        unsigned count = runs[which].base + take_bits(s, runs[which].extra);
        if (count > n - i) {
            s->failed = true;
            return;
        }
        memset(lengths + i, repeated, count);
        i += count;
    }
}

static void read_dynamic(stream *s)
{
    static const uint8_t order[ORDERED] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                           11, 4,  12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[LITERALS + 32] = {0};
    code of_lengths, literals, distances;
    unsigned n_literals = take_bits(s, 5) + END + 1, n_distances = take_bits(s, 5) + 1;
    unsigned n_ordered = take_bits(s, 4) + 4;
    s->failed = s->failed || n_literals > LITERALS - 2 || n_distances > DISTANCES;
    for (unsigned i = 0; i < n_ordered; i++)
        lengths[order[i]] = (uint8_t)take_bits(s, 3);
    s->failed = !make_code(&of_lengths, lengths, ORDERED) || s->failed;
    memset(lengths, 0, sizeof lengths);
    read_lengths(s, &of_lengths, lengths, n_literals + n_distances);
    s->failed = s->failed || !make_code(&literals, lengths, n_literals) ||
                !make_code(&distances, lengths + n_literals, n_distances);
    read_compressed(s, &literals, &distances);
}

bool kb_inflate(const void *from, size_t from_size, void *to, size_t to_size)
{
    static void (*const blocks[])(stream *) = {read_stored, read_fixed, read_dynamic};
    uint8_t nothing;
    uint8_t *begin = to_size ? to : &nothing;
    const uint8_t *bytes = from_size ? from : &nothing;
    stream s = {
        .at = bytes,
        .end = bytes + from_size,
        .begin = begin,
        .to = begin,
        .to_end = begin + to_size,
    };
    uint32_t last = 0;
    while (!last && !s.failed) {
        last = take_bits(&s, 1);
        uint32_t kind = take_bits(&s, 2);
        if (s.failed || kind >= sizeof blocks / sizeof *blocks)
            return false;
        blocks[kind](&s);
    }
    return !s.failed && s.at == s.end && s.to == s.to_end;
}
