/* Proves that the fields of a kernel's description are those that the bytes say, up to the greatest
 * that they may be, that the first which does not hold is the one that is told, and that nothing is
 * read behind it. Every block has exactly its size, for AddressSanitizer. */
#include "core/kb_fields.h"
#include "kb_test.h"
#include "torture.h"

#include <stdlib.h>

enum { ROOM = 1 << 20 };

/* What is read, and from where. */
typedef struct scene {
    kb_fields fields;
    uint8_t *block;
    size_t size;
} scene;

static uint8_t written[ROOM];
static size_t n_written;

static void put(uint32_t number)
{
    for (int i = 0; i < 4; i++)
        written[n_written++] = (uint8_t)(number >> (8 * i));
}

static void put_bytes(const void *bytes, size_t size)
{
    memcpy(written + n_written, bytes, size);
    n_written += size;
}

static void put_text(const char *text)
{
    put((uint32_t)strlen(text));
    put_bytes(text, strlen(text));
}

/* Begins to read what has been written without its last bytes. */
static void begin(scene *s, size_t without)
{
    s->size = n_written - without;
    s->block = malloc(s->size ? s->size : 1);
    if (!s->block)
        abort();
    memcpy(s->block, written, s->size);
    s->fields = (kb_fields){.from = kb_reader_of(s->block, s->size),
                            .what = "this",
                            .whole = "is that",
                            .arena = kb_arena_new()};
    if (!s->fields.arena)
        abort();
    n_written = 0;
}

static void end(scene *s)
{
    kb_arena_free(s->fields.arena);
    free(s->block);
}

/* All was read and holds; or `wrong` does not. */
static void check(const scene *s, const char *wrong)
{
    kb_error err;
    char message[160];
    if (!wrong) {
        CHECK_INT(kb_fields_check(&s->fields, &err), KB_OK);
        CHECK_INT(s->fields.from.left, 0);
        return;
    }
    snprintf(message, sizeof message, "this is damaged, or is that: the check of %s failed", wrong);
    CHECK_INT(kb_fields_check(&s->fields, &err), KB_INVALID_ARGUMENT);
    CHECK_INT(err.status, KB_INVALID_ARGUMENT);
    CHECK_TEXT(err.message, message);
}

static void check_no_memory(const scene *s)
{
    kb_error err;
    CHECK_INT(kb_fields_check(&s->fields, &err), KB_RESOURCE_EXHAUSTED);
    CHECK_INT(err.status, KB_RESOURCE_EXHAUSTED);
    CHECK_TEXT(err.message, "no memory to read this");
}

/* The first thing that is wrong is told, and what holds changes nothing. */
static void test_expect(void)
{
    scene s;
    begin(&s, 0);
    kb_fields_expect(&s.fields, true, "the first");
    CHECK(!s.fields.from.failed);
    check(&s, NULL);
    kb_fields_expect(&s.fields, false, "the second");
    CHECK(s.fields.from.failed);
    check(&s, "the second");
    kb_fields_expect(&s.fields, false, "the third");
    kb_fields_expect(&s.fields, true, "the fourth");
    check(&s, "the second");
    end(&s);

    begin(&s, 0);
    CHECK_INT(kb_read_u32(&s.fields.from), 0);
    kb_fields_expect(&s.fields, false, "what comes after");
    check(&s, "its length");
    end(&s);
}

static void test_text(void)
{
    static const char *const texts[] = {"", "a", "kernel", "a longer name, with \xc3\xa9"};
    scene s;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put_text(texts[i]);
        begin(&s, 0);
        const char *text = kb_fields_text(&s.fields);
        memset(s.block, 0xff, s.size); /* it is a copy */
        CHECK_TEXT(text, texts[i]);
        check(&s, NULL);
        CHECK_TEXT(kb_fields_text(&s.fields), ""); /* there is no other */
        check(&s, "its length");
        end(&s);
    }
    for (size_t without = 1; without <= 7; without++) {
        put_text("abc");
        begin(&s, without);
        CHECK_TEXT(kb_fields_text(&s.fields), "");
        check(&s, "its length");
        end(&s);
    }
    put(3);
    put_bytes("a\0b", 3);
    begin(&s, 0);
    CHECK_TEXT(kb_fields_text(&s.fields), "");
    check(&s, "its length");
    end(&s);
    put_text("abc");
    begin(&s, 0);
    torture_fail_nth(1);
    CHECK_TEXT(kb_fields_text(&s.fields), "");
    check_no_memory(&s);
    torture_fail_nth(0);
    end(&s);
}

/* The dtypes, ranks and names of some buffers are distinct. */
static void put_buffers(const uint32_t numbers[3])
{
    uint32_t n = 0;
    for (int k = 0; k < 3; k++) {
        put(numbers[k]);
        n += numbers[k];
    }
    for (uint32_t i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "b%u", i);
        put(7 * i + 1);
        put(i % (KB_RANK_MAX + 1));
        put_text(name);
    }
}

static void check_buffers(const kb_kernel *k, const uint32_t numbers[3])
{
    CHECK_INT(k->n_inputs, numbers[0]);
    CHECK_INT(k->n_outputs, numbers[1]);
    CHECK_INT(k->n_hidden, numbers[2]);
    for (uint32_t i = 0; i < kb_kernel_n_buffers(k); i++) {
        char name[16];
        snprintf(name, sizeof name, "b%u", i);
        CHECK_INT(k->buffers[i].dtype, 7 * i + 1);
        CHECK_INT(k->buffers[i].rank, i % (KB_RANK_MAX + 1));
        CHECK_TEXT(k->buffers[i].name, name);
    }
}

static void test_buffers(void)
{
    enum { MOST = 1 << 14 };
    static const uint32_t numbers[][3] = {{0, 0, 0},    {1, 0, 0},    {0, 1, 0},
                                          {0, 0, 1},    {2, 3, 4},    {MOST, 0, 0},
                                          {0, MOST, 0}, {0, 0, MOST}, {MOST, 1, MOST}};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        scene s;
        kb_kernel kernel = {.n_inputs = 99, .n_outputs = 99, .n_hidden = 99};
        put_buffers(numbers[k]);
        begin(&s, 0);
        kb_fields_buffers(&s.fields, &kernel);
        check(&s, NULL);
        check_buffers(&kernel, numbers[k]);
        end(&s);
    }
    for (int k = 0; k < 3; k++) {
        scene s;
        kb_kernel kernel = {0};
        uint32_t many[3] = {1, 1, 1};
        many[k] = MOST + 1;
        put_buffers(many);
        begin(&s, 0);
        size_t left = s.fields.from.left;
        kb_fields_buffers(&s.fields, &kernel);
        check(&s, "a number of buffers");
        CHECK_INT(left - s.fields.from.left, 4 * (k + 1)); /* it is told at once */
        end(&s);
    }
}

/* Buffers without a name take the least, and one byte less cannot be all of them. */
static void test_least_buffers(void)
{
    for (size_t without = 0; without < 4; without++) {
        scene s;
        kb_kernel kernel = {0};
        put(1), put(2), put(1);
        for (int i = 0; i < 4; i++)
            put(5), put(0), put_text("");
        begin(&s, without);
        kb_fields_buffers(&s.fields, &kernel);
        check(&s, without ? "a number of buffers" : NULL);
        CHECK((kernel.buffers == NULL) == (without > 0));
        end(&s);
    }
}

static void test_ranks(void)
{
    static const struct {
        int32_t rank;
        bool holds;
    } cases[] = {{INT32_MIN, false}, {-1, false},         {0, true},
                 {1, true},          {KB_RANK_MAX, true}, {KB_RANK_MAX + 1, false},
                 {INT32_MAX, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int at = 0; at < 3; at++) {
            scene s;
            kb_kernel kernel = {0};
            put(1), put(1), put(1);
            for (int k = 0; k < 3; k++) {
                put(5);
                put(k == at ? (uint32_t)cases[i].rank : 2);
                put_text("x");
            }
            begin(&s, 0);
            kb_fields_buffers(&s.fields, &kernel);
            check(&s, cases[i].holds ? NULL : "a rank");
            if (cases[i].holds)
                CHECK_INT(kernel.buffers[at].rank, cases[i].rank);
            end(&s);
        }
}

/* No buffer is read once something is wrong, and a want of memory is told as such. */
static void test_no_buffers(void)
{
    const uint32_t numbers[] = {1, 1, 1};
    scene s;
    kb_kernel kernel = {0};
    put_buffers(numbers);
    begin(&s, 0);
    kb_fields_expect(&s.fields, false, "what came before");
    kb_fields_buffers(&s.fields, &kernel);
    CHECK_INT(kb_kernel_n_buffers(&kernel), 0);
    CHECK_PTR(kernel.buffers, NULL);
    check(&s, "what came before");
    end(&s);

    put_buffers(numbers);
    begin(&s, 0);
    torture_fail_nth(1);
    kb_fields_buffers(&s.fields, &kernel);
    torture_fail_nth(0);
    CHECK_PTR(kernel.buffers, NULL);
    check_no_memory(&s);
    end(&s);
}

static void test_bytes(void)
{
    scene s;
    for (uint32_t size = 0; size < 4; size++) {
        put(size);
        put_bytes("xyz", size);
        begin(&s, 0);
        kb_xla_bytes read = kb_fields_bytes(&s.fields);
        check(&s, NULL);
        CHECK_INT(read.size, size);
        CHECK_PTR(read.data, s.block + 4);
        end(&s);
    }
    const uint32_t too_many[] = {4, UINT32_MAX};
    for (int i = 0; i < 2; i++) {
        put(too_many[i]);
        put_bytes("xyz", 3);
        begin(&s, 0);
        kb_xla_bytes read = kb_fields_bytes(&s.fields);
        CHECK_PTR(read.data, NULL);
        CHECK_INT(read.size, 0);
        check(&s, "its length");
        end(&s);
    }
}

int main(void)
{
    test_expect();
    test_text();
    test_buffers();
    test_least_buffers();
    test_ranks();
    test_no_buffers();
    test_bytes();
    return kb_test_end("test_fields");
}
