/* Fills in addresses by the rules of the psABI documents of x86-64 and aarch64. */
#include "object/kb_relocate.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

static bool fits(int64_t value, int bits)
{
    int64_t limit = INT64_C(1) << (bits - 1);
    return -limit <= value && value < limit;
}

static kb_relocated put(uint8_t *at, size_t left, int64_t value, size_t size)
{
    if (left < size)
        return KB_RELOCATED_OUT_OF_SPACE;
    if (size == sizeof(int32_t) && !fits(value, 32))
        return KB_RELOCATED_TOO_FAR;
    memcpy(at, &value, size); /* both processors are little-endian */
    return KB_RELOCATED;
}

/* Addresses wrap as the processor's do. */
static int64_t distance(uint64_t to, int64_t addend, const void *from)
{
    return (int64_t)(to + (uint64_t)addend - (uint64_t)(uintptr_t)from);
}

static uint64_t callee(const kb_relocation *r)
{
    return r->jump ? (uint64_t)(uintptr_t)r->jump : r->symbol;
}

#if defined(__x86_64__)

const uint16_t kb_relocate_machine = EM_X86_64;

void kb_relocate_jump(uint8_t jump[KB_JUMP_SIZE], const uint64_t *slot)
{
    static const uint8_t instruction[] = {0xf3, 0x0f, 0x1e, 0xfa, /* endbr64 */
                                          0xff, 0x25};            /* jmp *slot(%rip) */
    int32_t offset = (int32_t)((const uint8_t *)slot - (jump + sizeof instruction + sizeof offset));
    memcpy(jump, instruction, sizeof instruction);
    memcpy(jump + sizeof instruction, &offset, sizeof offset);
}

kb_relocated kb_relocate(uint8_t *at, size_t left, const kb_relocation *r)
{
    uint64_t slot = (uint64_t)(uintptr_t)r->slot;
    switch (r->type) {
    case R_X86_64_NONE:
        return KB_RELOCATED;
    case R_X86_64_64:
        return put(at, left, distance(r->symbol, r->addend, NULL), sizeof(int64_t));
    case R_X86_64_PC64:
        return put(at, left, distance(r->symbol, r->addend, at), sizeof(int64_t));
    case R_X86_64_PC32:
        return put(at, left, distance(r->symbol, r->addend, at), sizeof(int32_t));
    case R_X86_64_PLT32:
        return put(at, left, distance(callee(r), r->addend, at), sizeof(int32_t));
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
        return put(at, left, distance(slot, r->addend, at), sizeof(int32_t));
    default:
        return KB_RELOCATED_UNKNOWN;
    }
}

#elif defined(__aarch64__)

const uint16_t kb_relocate_machine = EM_AARCH64;

enum { PAGE = 12 }; /* bits of a page as ADRP counts */

/* Replaces bits of the instruction. */
static void change(uint8_t *at, uint32_t mask, uint32_t bits)
{
    uint32_t instruction;
    memcpy(&instruction, at, sizeof instruction);
    instruction = (instruction & ~mask) | (bits & mask);
    memcpy(at, &instruction, sizeof instruction);
}

/* The immediate of ADR and ADRP: two low bits at 29, nineteen at 5. */
static kb_relocated put_adr(uint8_t *at, int64_t value)
{
    if (!fits(value, 21))
        return KB_RELOCATED_TOO_FAR;
    uint32_t v = (uint32_t)value;
    change(at, 0x60ffffe0, (v & 3) << 29 | (v >> 2 & 0x7ffff) << 5);
    return KB_RELOCATED;
}

static int64_t pages(uint64_t to, const void *from)
{
    return ((int64_t)to >> PAGE) - ((int64_t)(uintptr_t)from >> PAGE);
}

/* The offset within a page, in units of 1 << scale bytes, at bit 10. */
static kb_relocated put_low(uint8_t *at, uint64_t to, int scale)
{
    uint32_t offset = (uint32_t)to & ((1U << PAGE) - 1);
    if (offset & ((1U << scale) - 1))
        return KB_RELOCATED_TOO_FAR;
    change(at, 0x003ffc00, offset >> scale << 10);
    return KB_RELOCATED;
}

static kb_relocated put_branch(uint8_t *at, int64_t value)
{
    if (!fits(value, 28) || value & 3)
        return KB_RELOCATED_TOO_FAR;
    change(at, 0x03ffffff, (uint32_t)(value >> 2));
    return KB_RELOCATED;
}

void kb_relocate_jump(uint8_t jump[KB_JUMP_SIZE], const uint64_t *slot)
{
    static const uint32_t instructions[] = {0x90000010,  /* adrp x16, slot */
                                            0xf9400210,  /* ldr x16, [x16, low bits of slot] */
                                            0xd61f0200,  /* br x16 */
                                            0xd503201f}; /* nop */
    memcpy(jump, instructions, sizeof instructions);
    (void)put_adr(jump, pages((uint64_t)(uintptr_t)slot, jump));
    (void)put_low(jump + 4, (uint64_t)(uintptr_t)slot, 3);
}

kb_relocated kb_relocate(uint8_t *at, size_t left, const kb_relocation *r)
{
    uint64_t to = r->symbol + (uint64_t)r->addend;
    uint64_t slot = (uint64_t)(uintptr_t)r->slot;
    switch (r->type) {
    case R_AARCH64_NONE:
        return KB_RELOCATED;
    case R_AARCH64_ABS64:
        return put(at, left, (int64_t)to, sizeof(int64_t));
    case R_AARCH64_PREL64:
        return put(at, left, distance(to, 0, at), sizeof(int64_t));
    case R_AARCH64_PREL32:
        return put(at, left, distance(to, 0, at), sizeof(int32_t));
    default:
        break;
    }
    if (left < sizeof(uint32_t))
        return KB_RELOCATED_OUT_OF_SPACE;
    switch (r->type) {
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
        return put_branch(at, distance(callee(r), r->addend, at));
    case R_AARCH64_ADR_PREL_LO21:
        return put_adr(at, distance(to, 0, at));
    case R_AARCH64_ADR_PREL_PG_HI21:
        return put_adr(at, pages(to, at));
    case R_AARCH64_ADR_GOT_PAGE:
        return put_adr(at, pages(slot, at));
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
        return put_low(at, to, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC:
        return put_low(at, to, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC:
        return put_low(at, to, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC:
        return put_low(at, to, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC:
        return put_low(at, to, 4);
    case R_AARCH64_LD64_GOT_LO12_NC:
        return put_low(at, slot, 3);
    default:
        return KB_RELOCATED_UNKNOWN;
    }
}

#endif
