/* How the addresses in machine code are filled in, which differs from processor to processor. */
#ifndef KB_RELOCATE_H
#define KB_RELOCATE_H

#include <stddef.h>
#include <stdint.h>

/* The machine of ELF headers that this build can place. */
extern const uint16_t kb_relocate_machine;

/* Bytes of a jump to an address that stands in memory. */
enum { KB_JUMP_SIZE = 16 };

/* Writes a jump to the address that `slot` holds. Both are at most 2 GB apart. */
void kb_relocate_jump(uint8_t jump[KB_JUMP_SIZE], const uint64_t *slot);

/* What a relocation of a symbol refers to. */
typedef struct kb_relocation {
    uint32_t type;
    uint64_t symbol;     /* its address */
    int64_t addend;      /* to be added to it */
    const uint8_t *jump; /* to call it, where it may be more than 2 GB away; else NULL */
    uint64_t *slot;      /* of the table of addresses */
} kb_relocation;

typedef enum kb_relocated {
    KB_RELOCATED,
    KB_RELOCATED_TOO_FAR,     /* the address does not fit into the instruction */
    KB_RELOCATED_UNKNOWN,     /* the type is not supported */
    KB_RELOCATED_OUT_OF_SPACE /* the section ends before the field does */
} kb_relocated;

/* Fills in a field of `left` bytes at most at `at`, which is where the code will run. */
kb_relocated kb_relocate(uint8_t *at, size_t left, const kb_relocation *r);

#endif
