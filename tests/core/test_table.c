/* Proves that a table finds each item by its hash, whatever its size, also where hashes are equal
 * and where there is no memory to grow. */
#include "core/kb_table.h"

#include "kb_test.h"
#include "torture.h"

#include <stdlib.h>

enum { N = 1000 };

typedef struct item {
    kb_link link;
    int number;
} item;

static item items[N];

static uint64_t hash_of(int i)
{
    return (uint64_t)(i / 2) << 32; /* two items for each hash */
}

static int find(const kb_table *table, int number)
{
    int n = 0;
    for (kb_link *at = NULL; (at = kb_table_find(table, hash_of(number), at));)
        n += ((item *)at)->number == number;
    return n;
}

/* Takes out any item; the table has no memory left after the last one. NULL when it is empty. */
static kb_link *pop(kb_table *table)
{
    for (size_t i = 0; i < table->capacity; i++) {
        kb_link *first = table->chains[i];
        if (!first)
            continue;
        table->chains[i] = first->next;
        table->n--;
        return first;
    }
    torture_free(table->chains);
    *table = (kb_table){0};
    return NULL;
}

static void check_items(kb_table *table)
{
    for (int i = 0; i < N; i++) {
        CHECK_INT(find(table, i), 0);
        items[i] = (item){{NULL, hash_of(i)}, i};
        CHECK(kb_table_add(table, &items[i].link));
        CHECK_PTR(kb_table_find(table, hash_of(i), NULL), &items[i].link); /* the newest */
    }
    CHECK_INT(table->n, N);
    for (int i = 1; i < N; i += 2)
        CHECK_PTR(kb_table_find(table, hash_of(i), NULL), &items[i].link);
    for (int i = 0; i < N; i++)
        CHECK_INT(find(table, i), 1);
    for (int i = 0; i < N; i += 3) {
        kb_table_remove(table, &items[i].link);
        CHECK_INT(table->n, N - i / 3 - 1);
    }
    for (int i = 0; i < N; i++)
        CHECK_INT(find(table, i), i % 3 != 0);
    int popped = 0;
    for (kb_link *at; (at = pop(table)); popped++) {
        CHECK_INT(find(table, ((item *)at)->number), 0);
        CHECK_INT(table->n, N - (N + 2) / 3 - popped - 1);
    }
    CHECK_INT(popped, N - (N + 2) / 3);
    CHECK_INT(table->n, 0);
    CHECK_INT(table->capacity, 0);
    CHECK_PTR(table->chains, NULL);
    CHECK_PTR(pop(table), NULL);
    CHECK_PTR(kb_table_find(table, 0, NULL), NULL);
}

static void test_items(void)
{
    kb_table table = {0};
    check_items(&table);
    check_items(&table); /* again, as one that is new */
}

static void test_no_memory(void)
{
    kb_table table = {0};
    items[0] = (item){{NULL, 0}, 0};
    torture_fail_nth(1);
    CHECK(!kb_table_add(&table, &items[0].link));
    CHECK_INT(find(&table, 0), 0);
    for (int i = 0; i < N; i++) {
        items[i] = (item){{NULL, hash_of(i)}, i};
        torture_fail_nth(i > 0); /* it cannot grow */
        CHECK(kb_table_add(&table, &items[i].link));
    }
    torture_fail_nth(0);
    for (int i = 0; i < N; i++)
        CHECK_INT(find(&table, i), 1);
    while (pop(&table))
        ;
}

/* What cannot grow goes on, and grows when it next can: by as much as ever. */
static void test_grows_later(void)
{
    kb_table table = {0};
    for (int i = 0; i < 200; i++) {
        items[i] = (item){{NULL, (uint64_t)i}, i};
        torture_fail_nth(i > 0 && i < 150);
        CHECK(kb_table_add(&table, &items[i].link));
        CHECK_INT(table.capacity, i < 150 ? 64 : i == 150 ? 128 : 256);
        CHECK_INT(table.n, i + 1);
    }
    torture_fail_nth(0);
    for (int i = 0; i < 200; i++)
        CHECK_PTR(table.chains[i], &items[i].link);
    for (int i = 0; i < 200; i++)
        CHECK_PTR(pop(&table), &items[i].link);
    CHECK_PTR(pop(&table), NULL);
}

/* The items of one hash, the newest first, also after the table has grown. */
static void test_newest_first(void)
{
    enum { SAME = 7 };
    kb_table table = {0};
    for (int i = 0; i < N; i++) {
        items[i] = (item){{NULL, i % 2 && i < 2 * SAME ? 5 : 1000 + (uint64_t)i}, i};
        CHECK(kb_table_add(&table, &items[i].link));
        const kb_link *at = NULL;
        for (int k = i < 2 * SAME ? i : 2 * SAME - 1; k > 0; k--)
            if (k % 2) {
                at = kb_table_find(&table, 5, at);
                CHECK_PTR(at, &items[k].link);
            }
        if (at)
            CHECK_PTR(kb_table_find(&table, 5, at), NULL);
    }
    while (pop(&table))
        ;
}

/* Each byte and the size count. */
static void test_hash(void)
{
    unsigned char bytes[64] = {0};
    for (size_t size = 0; size < sizeof bytes; size++) {
        uint64_t hash = kb_table_hash(bytes, size);
        CHECK(hash != kb_table_hash(bytes, size + 1));
        for (size_t i = 0; i < size; i++) {
            bytes[i] = 1;
            CHECK(hash != kb_table_hash(bytes, size));
            bytes[i] = 0;
        }
        CHECK(hash == kb_table_hash(bytes, size));
    }
}

/* Its values, as FNV-1a gives them for words of eight bytes, from another implementation. */
static void test_values(void)
{
    static const struct {
        const char *text;
        uint64_t hash;
    } cases[] = {
        {"", UINT64_C(0xcbf29ce484222325)},
        {"a", UINT64_C(0xaf63dd4c8601ee3f)},
        {"kernel", UINT64_C(0xb0b1e7f2dca9208a)},
        {"12345678", UINT64_C(0x49f25e4c6292e0e5)},
        {"123456789", UINT64_C(0x39c5fdcb7faa837d)},
        {"0123456789abcdef0123456", UINT64_C(0x48811e0b8373e19e)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(kb_table_hash(cases[i].text, strlen(cases[i].text)) == cases[i].hash);
}

/* There are as many chains as items, or twice as many; both halves of a hash choose among them. */
static void check_capacity(int shift)
{
    kb_table table = {0};
    for (int i = 0; i < N; i++) {
        items[i] = (item){{NULL, (uint64_t)i << shift}, i};
        CHECK(kb_table_add(&table, &items[i].link));
        CHECK_INT(table.capacity, i < 64    ? 64
                                  : i < 128 ? 128
                                  : i < 256 ? 256
                                  : i < 512 ? 512
                                            : 1024);
        CHECK_PTR(table.chains[i], &items[i].link); /* each has its own */
    }
    while (pop(&table))
        ;
}

static void test_capacity(void)
{
    check_capacity(0);
    check_capacity(32);
}

int main(void)
{
    test_items();
    test_no_memory();
    test_grows_later();
    test_newest_first();
    test_hash();
    test_values();
    test_capacity();
    return kb_test_end("test_table");
}
