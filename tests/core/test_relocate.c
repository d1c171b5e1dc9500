/* Proves what each relocation of x86-64 writes, at the ends of what its field holds too, and the
 * jump to an address that lies in a slot. */
#include "kb_test.h"
#include "object/kb_relocate.h"

#include <elf.h>
#include <stdint.h>

#if defined(__x86_64__)

enum { FIELD = 8, GUARD = 0x5a };

static uint8_t memory[4 * FIELD];
static uint8_t *const at = memory + FIELD;

/* The result for a field of which `left` bytes lie in the section; no other byte is touched. */
static kb_relocated relocate(uint32_t type, uint64_t symbol, int64_t addend, size_t left,
                             size_t size, uint8_t *jump, uint64_t *slot)
{
    const kb_relocation r = {
        .type = type, .symbol = symbol, .addend = addend, .jump = jump, .slot = slot};
    memset(memory, GUARD, sizeof memory);
    kb_relocated done = kb_relocate(at, left, &r);
    for (size_t i = 0; i < sizeof memory; i++)
        if (done != KB_RELOCATED || i < FIELD || i >= FIELD + size)
            CHECK_INT(memory[i], GUARD);
    return done;
}

static int64_t word(void)
{
    int64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static int64_t half(void)
{
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void test_words(void)
{
    const uint64_t here = (uint64_t)(uintptr_t)at;
    CHECK_INT(relocate(R_X86_64_NONE, 1, 2, 0, 0, NULL, NULL), KB_RELOCATED);
    CHECK_INT(relocate(R_X86_64_64, UINT64_C(0x123456789abcdef0), 16, 8, 8, NULL, NULL),
              KB_RELOCATED);
    CHECK_INT(word(), INT64_C(0x123456789abcdf00));
    CHECK_INT(relocate(R_X86_64_64, 100, -200, 9, 8, NULL, NULL), KB_RELOCATED);
    CHECK_INT(word(), -100);
    CHECK_INT(relocate(R_X86_64_64, 100, 0, 7, 8, NULL, NULL), KB_RELOCATED_OUT_OF_SPACE);
    CHECK_INT(relocate(R_X86_64_PC64, here + (UINT64_C(1) << 40), 5, 8, 8, NULL, NULL),
              KB_RELOCATED);
    CHECK_INT(word(), (INT64_C(1) << 40) + 5);
    CHECK_INT(relocate(R_X86_64_PC64, here, 0, 7, 8, NULL, NULL), KB_RELOCATED_OUT_OF_SPACE);
    CHECK_INT(relocate(UINT32_MAX, here, 0, 8, 8, NULL, NULL), KB_RELOCATED_UNKNOWN);
    CHECK_INT(relocate(R_X86_64_TPOFF32, here, 0, 8, 8, NULL, NULL), KB_RELOCATED_UNKNOWN);
}

static void test_distances(void)
{
    const uint64_t here = (uint64_t)(uintptr_t)at;
    static const uint32_t types[] = {R_X86_64_PC32, R_X86_64_PLT32, R_X86_64_GOTPCREL,
                                     R_X86_64_GOTPCRELX, R_X86_64_REX_GOTPCRELX};
    static const int64_t far[] = {
        INT32_MAX, INT32_MIN, (int64_t)INT32_MAX + 1, (int64_t)INT32_MIN - 1, 0, -4};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (size_t k = 0; k < sizeof far / sizeof *far; k++) {
            bool fits = far[k] >= INT32_MIN && far[k] <= INT32_MAX;
            uint64_t to = here + (uint64_t)far[k] + 4;
            uint64_t *slot = (uint64_t *)(uintptr_t)to; // NOLINT: an address alone
            bool of_slot = i > 1;
            CHECK_INT(relocate(types[i], of_slot ? 1 : to, -4, 4, 4, NULL, of_slot ? slot : NULL),
                      fits ? KB_RELOCATED : KB_RELOCATED_TOO_FAR);
            if (fits)
                CHECK_INT(half(), far[k]);
            CHECK_INT(relocate(types[i], to, -4, 3, 4, NULL, slot), KB_RELOCATED_OUT_OF_SPACE);
        }
    /* A call goes by the jump where there is one; nothing else does. */
    CHECK_INT(relocate(R_X86_64_PLT32, here + 100, 0, 4, 4, at + 16, NULL), KB_RELOCATED);
    CHECK_INT(half(), 16);
    CHECK_INT(relocate(R_X86_64_PC32, here + 100, 0, 4, 4, at + 16, NULL), KB_RELOCATED);
    CHECK_INT(half(), 100);
}

static void test_jump(void)
{
    static uint8_t code[64];
    static uint64_t slots[8];
    const uint64_t *slot = &slots[3];
    uint8_t *jump = code + KB_JUMP_SIZE;
    memset(code, GUARD, sizeof code);
    kb_relocate_jump(jump, slot);
    static const uint8_t expected[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25};
    CHECK_INT(memcmp(jump, expected, sizeof expected), 0);
    int32_t offset;
    memcpy(&offset, jump + sizeof expected, sizeof offset);
    CHECK_INT((uintptr_t)jump + sizeof expected + sizeof offset + (uintptr_t)(intptr_t)offset,
              (long long)(uintptr_t)slot);
    CHECK_INT(jump[-1], GUARD);
    CHECK_INT(jump[sizeof expected + sizeof offset], GUARD);
    CHECK(kb_relocate_machine == EM_X86_64);
}

int main(void)
{
    test_words();
    test_distances();
    test_jump();
    return kb_test_end("test_relocate");
}

#else /* test_object.c runs what there is */

int main(void)
{
    return KB_TEST_SKIP;
}

#endif
