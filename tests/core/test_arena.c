/* Proves that an arena gives zeroed, aligned memory that does not overlap, refuses what overflows,
 * and is whole after a refusal. What it frees is AddressSanitizer's to watch. */
#include "core/kb_arena.h"
#include "kb_test.h"
#include "torture.h"

#include <stdalign.h>
#include <stdint.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

static bool is_zero(const char *memory, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (memory[i])
            return false;
    return true;
}

/* Pieces of many sizes. */
static void test_pieces(void)
{
    enum { N = 200 };
    static const size_t sizes[] = {1, 3, 16, 17, 100, 2047, 2048, 2049, 10000, 0};
    kb_arena *arena = kb_arena_new();
    char *pieces[N];
    size_t size[N], total = 0;
    CHECK_INT(kb_arena_bytes(arena), 0);
    for (int i = 0; i < N; i++) {
        size[i] = sizes[i % 10];
        total += size[i];
        pieces[i] = kb_arena_take(arena, i % 2 ? size[i] : 1, i % 2 ? 1 : size[i]);
        if (!CHECK(pieces[i] != NULL))
            return;
        CHECK_INT((uintptr_t)pieces[i] % alignof(max_align_t), 0);
        CHECK(is_zero(pieces[i], size[i]));
        memset(pieces[i], i + 1, size[i]);
    }
    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < size[i]; k++)
            if (!CHECK(pieces[i][k] == (char)(i + 1)))
                return;
    CHECK(kb_arena_bytes(arena) >= total && kb_arena_bytes(arena) <= total + N * 64);
    kb_arena_free(arena);
}

/* AddressSanitizer sees what lies outside of a piece. */
static void test_red_zones(void)
{
#if defined(__SANITIZE_ADDRESS__)
    kb_arena *arena = kb_arena_new();
    char *first = kb_arena_take(arena, 5, 3), *second = kb_arena_take(arena, 16, 1);
    char *none = kb_arena_take(arena, 0, 8);
    CHECK(!__asan_address_is_poisoned(first) && !__asan_address_is_poisoned(first + 14));
    CHECK(__asan_address_is_poisoned(first + 15) && __asan_address_is_poisoned(second - 17));
    CHECK(!__asan_address_is_poisoned(second + 15) && __asan_address_is_poisoned(second + 16));
    CHECK(__asan_address_is_poisoned(none));
    kb_arena_free(arena);
#endif
}

static void test_refused(void)
{
    kb_arena *arena = kb_arena_new();
    char *before = kb_arena_take(arena, 8, 1);
    size_t bytes = kb_arena_bytes(arena);
    CHECK_PTR(kb_arena_take(arena, SIZE_MAX, 2), NULL);
    CHECK_PTR(kb_arena_take(arena, SIZE_MAX / 2, 3), NULL);
    CHECK_PTR(kb_arena_take(arena, SIZE_MAX, 1), NULL);
    CHECK_PTR(kb_arena_take(arena, SIZE_MAX - 15, 1), NULL);
    CHECK_PTR(kb_arena_take(arena, SIZE_MAX - 16, 1), NULL);
    CHECK_INT(kb_arena_bytes(arena), (long long)bytes);
    memset(before, 1, 8);
    char *behind = kb_arena_take(arena, 8, 1);
    CHECK(behind && is_zero(behind, 8));
    kb_arena_free(arena);
}

static void test_no_memory(void)
{
    torture_fail_nth(1);
    CHECK_PTR(kb_arena_new(), NULL);
    kb_arena *arena = kb_arena_new();
    torture_fail_nth(1);
    CHECK_PTR(kb_arena_take(arena, 1, 1), NULL);
    CHECK(kb_arena_take(arena, 1, 1) != NULL);
    torture_fail_nth(1);
    CHECK_PTR(kb_arena_take(arena, 4096, 1), NULL);
    CHECK(kb_arena_take(arena, 4096, 1) != NULL);
    kb_arena_free(arena);
}

int main(void)
{
    test_pieces();
    test_red_zones();
    test_refused();
    test_no_memory();
    return kb_test_end("test_arena");
}
