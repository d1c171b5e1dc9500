/* Owns the memory of placed objects: one mapping each, of pages that are executable, read-only or
 * writable. A table of addresses, with a slot for each symbol, and jumps to functions outside lie
 * in the same mapping, since those functions may be further away than a call reaches. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#endif
#include "object/kb_object.h"

#include "core/kb_memory.h"
#include "object/kb_cpu.h"
#include "object/kb_elf.h"
#include "object/kb_relocate.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Parts of the mapping, in their order. */
typedef enum part { CODE, CONSTANTS, VARIABLES, PARTS } part;

static const size_t NOWHERE = SIZE_MAX;
static const int PROTECTION[PARTS] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};

enum { OBJECT_SIZE_MAX = 1 << 30 }; /* so that 32-bit distances within the mapping fit */

struct kb_object {
    uint8_t *memory;
    size_t size;
    size_t size_of_variables;
    Elf64_Sym *symbols; /* st_value is the address of those that are defined */
    size_t n_symbols;
    char *names;
};

/* What is needed while an object is placed. */
typedef struct placing {
    kb_elf elf;
    kb_object_resolver *resolve;
    void *context;
    kb_object *object; /* made at the end */
    uint8_t *memory;
    size_t *offsets;         /* of the sections in the mapping, or NOWHERE */
    size_t begin[PARTS + 1]; /* of the parts in the mapping, and its size */
    size_t jumps, slots;     /* offsets of tables that have an element for each symbol */
} placing;

static part part_of(const Elf64_Shdr *s)
{
    if (s->sh_flags & SHF_EXECINSTR)
        return CODE;
    return s->sh_flags & SHF_WRITE ? VARIABLES : CONSTANTS;
}

/* Reserves `size` bytes that begin at a multiple of `alignment`, a power of two or 0; `*at` moves
 * behind them. It is at most OBJECT_SIZE_MAX, a multiple of the page, and so is what is aligned. */
static kb_status reserve(const placing *p, size_t *at, uint64_t size, uint64_t alignment,
                         size_t *begin, kb_error *err)
{
    if (alignment > (uint64_t)sysconf(_SC_PAGESIZE) || alignment & (alignment - 1))
        return kb_elf_damaged(&p->elf, err);
    size_t aligned = alignment ? (*at + alignment - 1) & ~(alignment - 1) : *at;
    if (size > OBJECT_SIZE_MAX - aligned)
        return kb_elf_unsupported(&p->elf, "more than 1 GB", err);
    *begin = aligned;
    *at = aligned + size;
    return KB_OK;
}

static kb_status reserve_sections(placing *p, part which, size_t *at, kb_error *err)
{
    kb_status status = KB_OK;
    for (size_t i = 1; status == KB_OK && i < p->elf.n_sections; i++) {
        const Elf64_Shdr *s = &p->elf.sections[i];
        if (!kb_elf_is_placed(&p->elf, s) || part_of(s) != which)
            continue;
        if (s->sh_flags & SHF_TLS)
            return kb_elf_unsupported(&p->elf, "thread-local variables", err);
        if (s->sh_type != SHT_PROGBITS && s->sh_type != SHT_NOBITS)
            return kb_elf_unsupported(&p->elf, "constructors or sections of an unknown type", err);
        status = reserve(p, at, s->sh_size, s->sh_addralign, &p->offsets[i], err);
    }
    return status;
}

/* Variables that have no section: their value is an alignment, and becomes an offset. */
static kb_status reserve_commons(placing *p, size_t *at, kb_error *err)
{
    kb_status status = KB_OK;
    for (size_t i = 0; status == KB_OK && i < p->elf.n_symbols; i++) {
        Elf64_Sym *s = &p->elf.symbols[i];
        if (s->st_shndx == SHN_COMMON)
            status = reserve(p, at, s->st_size, s->st_value, &s->st_value, err);
    }
    return status;
}

/* Decides where everything is. */
static kb_status lay_out(placing *p, kb_error *err)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), n = p->elf.n_symbols;
    size_t at = 0;
    kb_status status = KB_OK;
    for (size_t i = 0; i < p->elf.n_sections; i++)
        p->offsets[i] = NOWHERE;
    for (part which = CODE; status == KB_OK && which < PARTS; which++) {
        status = reserve(p, &at, 0, page, &p->begin[which], err);
        if (status == KB_OK)
            status = reserve_sections(p, which, &at, err);
        if (status == KB_OK && which == CODE)
            status = reserve(p, &at, n * KB_JUMP_SIZE, KB_JUMP_SIZE, &p->jumps, err);
        if (status == KB_OK && which == CONSTANTS)
            status = reserve(p, &at, n * sizeof(uint64_t), sizeof(uint64_t), &p->slots, err);
        if (status == KB_OK && which == VARIABLES)
            status = reserve_commons(p, &at, err);
    }
    if (status == KB_OK)
        status = reserve(p, &at, 0, page, &p->begin[PARTS], err);
    return status;
}

static kb_status place_sections(placing *p, kb_error *err)
{
    size_t size = p->begin[PARTS];
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return kb_elf_no_memory(&p->elf, err);
    p->memory = memory;
    for (size_t i = 1; i < p->elf.n_sections; i++)
        if (p->offsets[i] != NOWHERE && p->elf.sections[i].sh_type == SHT_PROGBITS)
            memcpy(p->memory + p->offsets[i], p->elf.bytes + p->elf.sections[i].sh_offset,
                   p->elf.sections[i].sh_size);
    return KB_OK;
}

/* Replaces the value of a symbol by its address. */
static kb_status resolve_symbol(placing *p, Elf64_Sym *s, kb_error *err)
{
    const char *name = p->elf.names + s->st_name;
    switch (s->st_shndx) {
    case SHN_ABS:
        return KB_OK;
    case SHN_COMMON:
        s->st_value += (uint64_t)(uintptr_t)p->memory;
        return KB_OK;
    case SHN_UNDEF:
        if (strcmp(name, "_GLOBAL_OFFSET_TABLE_") == 0) { /* compilers mention it */
            s->st_value = (uint64_t)(uintptr_t)(p->memory + p->slots);
            return KB_OK;
        }
        s->st_value = *name ? (uint64_t)(uintptr_t)p->resolve(name, p->context) : 0;
        if (s->st_value || !*name || ELF64_ST_BIND(s->st_info) == STB_WEAK)
            return KB_OK;
        return kb_error_set(err, KB_NOT_FOUND,
                            "%s: the machine code uses %s, which this process does not have",
                            p->elf.what, name);
    default:
        break;
    }
    if (s->st_shndx >= p->elf.n_sections || s->st_value > p->elf.sections[s->st_shndx].sh_size)
        return kb_elf_damaged(&p->elf, err);
    if (p->offsets[s->st_shndx] != NOWHERE)
        s->st_value += (uint64_t)(uintptr_t)(p->memory + p->offsets[s->st_shndx]);
    else
        s->st_value = 0; /* of a section that is not in memory */
    return KB_OK;
}

static kb_status resolve_symbols(placing *p, kb_error *err)
{
    for (size_t i = 0; i < p->elf.n_symbols; i++) {
        kb_status status = resolve_symbol(p, &p->elf.symbols[i], err);
        if (status != KB_OK)
            return status;
        uint64_t *slot = (uint64_t *)(void *)(p->memory + p->slots) + i;
        *slot = p->elf.symbols[i].st_value;
        kb_relocate_jump(p->memory + p->jumps + i * KB_JUMP_SIZE, slot);
    }
    return KB_OK;
}

/* Applies the relocations of one table. */
static kb_status relocate(placing *p, const Elf64_Shdr *table, kb_error *err)
{
    const Elf64_Shdr *section = &p->elf.sections[table->sh_info];
    for (size_t i = 0; i < table->sh_size / sizeof(Elf64_Rela); i++) {
        Elf64_Rela r;
        memcpy(&r, p->elf.bytes + table->sh_offset + i * sizeof r, sizeof r);
        size_t index = ELF64_R_SYM(r.r_info);
        if (index >= p->elf.n_symbols || r.r_offset > section->sh_size)
            return kb_elf_damaged(&p->elf, err);
        const Elf64_Sym *symbol = &p->elf.symbols[index];
        const kb_relocation relocation = {
            .type = (uint32_t)ELF64_R_TYPE(r.r_info),
            .symbol = symbol->st_value,
            .addend = r.r_addend,
            .jump =
                symbol->st_shndx == SHN_UNDEF ? p->memory + p->jumps + index * KB_JUMP_SIZE : NULL,
            .slot = (uint64_t *)(void *)(p->memory + p->slots) + index,
        };
        uint8_t *at = p->memory + p->offsets[table->sh_info] + r.r_offset;
        switch (kb_relocate(at, section->sh_size - r.r_offset, &relocation)) {
        case KB_RELOCATED:
            break;
        case KB_RELOCATED_OUT_OF_SPACE:
            return kb_elf_damaged(&p->elf, err);
        case KB_RELOCATED_TOO_FAR:
            return kb_elf_unsupported(&p->elf, "an address that does not fit into its instruction",
                                      err);
        case KB_RELOCATED_UNKNOWN:
            return kb_error_set(err, KB_UNIMPLEMENTED,
                                "%s: the machine code has relocations of type %u, which cannot be "
                                "loaded: compile it as position-independent code",
                                p->elf.what, relocation.type);
        }
    }
    return KB_OK;
}

static kb_status relocate_sections(placing *p, kb_error *err)
{
    kb_status status = KB_OK;
    for (size_t i = 1; status == KB_OK && i < p->elf.n_sections; i++) {
        const Elf64_Shdr *s = &p->elf.sections[i];
        if ((s->sh_type != SHT_RELA && s->sh_type != SHT_REL) || s->sh_info >= p->elf.n_sections ||
            p->offsets[s->sh_info] == NOWHERE)
            continue;
        if (s->sh_type == SHT_REL)
            return kb_elf_unsupported(&p->elf, "relocations without addends", err);
        status = relocate(p, s, err);
    }
    return status;
}

static kb_status protect(placing *p, kb_error *err)
{
    for (part which = CODE; which < PARTS; which++) {
        size_t begin = p->begin[which], size = p->begin[which + 1] - begin;
        if (size && mprotect(p->memory + begin, size, PROTECTION[which]) != 0)
            return kb_error_set(err, KB_FAILED_PRECONDITION,
                                "%s: this system does not let the process run machine code that "
                                "it placed in memory (mprotect failed)",
                                p->elf.what);
    }
    __builtin___clear_cache((char *)p->memory, (char *)p->memory + p->begin[CONSTANTS]);
    return KB_OK;
}

static kb_status read_tables(placing *p, kb_error *err)
{
    kb_status status = kb_elf_read(&p->elf, err);
    if (status != KB_OK)
        return status;
    p->offsets = kb_calloc(p->elf.n_sections, sizeof *p->offsets);
    return p->offsets ? KB_OK : kb_elf_no_memory(&p->elf, err);
}

/* The object owns the mapping, the symbols and their names. */
static kb_status finish(placing *p, kb_error *err)
{
    p->object = kb_calloc(1, sizeof *p->object);
    if (!p->object)
        return kb_elf_no_memory(&p->elf, err);
    *p->object = (kb_object){
        .memory = p->memory,
        .size = p->begin[PARTS],
        .size_of_variables = p->begin[PARTS] - p->begin[VARIABLES],
        .symbols = p->elf.symbols,
        .n_symbols = p->elf.n_symbols,
        .names = p->elf.names,
    };
    return KB_OK;
}

kb_status kb_object_load(const void *bytes, size_t size, const char *what,
                         kb_object_resolver *resolve, void *context, kb_object **object,
                         kb_error *err)
{
    static kb_status (*const steps[])(placing *, kb_error *) = {
        read_tables, lay_out, place_sections, resolve_symbols, relocate_sections, protect, finish,
    };
    placing p = {
        .elf = {.bytes = bytes, .size = size, .what = what},
        .resolve = resolve,
        .context = context,
    };
    kb_status status = KB_OK;
    for (size_t i = 0; status == KB_OK && i < sizeof steps / sizeof *steps; i++)
        status = steps[i](&p, err);
    kb_free(p.elf.sections);
    kb_free(p.offsets);
    if (status == KB_OK) {
        *object = p.object;
        return KB_OK;
    }
    if (p.memory)
        (void)munmap(p.memory, p.begin[PARTS]);
    kb_free(p.elf.symbols);
    kb_free(p.elf.names);
    return status;
}

bool kb_object_next(const kb_object *object, size_t *at, const char **name, void **address)
{
    while (++*at < object->n_symbols) {
        const Elf64_Sym *s = &object->symbols[*at];
        if (s->st_shndx == SHN_UNDEF || ELF64_ST_BIND(s->st_info) == STB_LOCAL)
            continue;
        *name = object->names + s->st_name;
        *address = (void *)(uintptr_t)s->st_value; // NOLINT(performance-no-int-to-ptr)
        return true;
    }
    return false;
}

kb_status kb_object_place(uint64_t features, const void *bytes, size_t size, const char *what,
                          kb_object_resolver *resolve, kb_object **object, kb_error *err)
{
    kb_status s = kb_cpu_check(features, what, err);
    if (s == KB_OK)
        s = kb_object_load(bytes, size, what, resolve, NULL, object, err);
    bool elsewhere = s == KB_NOT_FOUND || s == KB_UNIMPLEMENTED || s == KB_FAILED_PRECONDITION;
    return elsewhere ? (err->status = KB_FAILED_PRECONDITION) : s;
}

void *kb_object_find(const kb_object *object, const char *name)
{
    const char *found;
    void *address;
    for (size_t at = 0; kb_object_next(object, &at, &found, &address);)
        if (strcmp(found, name) == 0)
            return address;
    return NULL;
}

bool kb_object_has_variables(const kb_object *object)
{
    return object->size_of_variables > 0;
}

bool kb_object_uses(const kb_object *object, const char *name)
{
    for (size_t i = 1; i < object->n_symbols; i++) {
        const Elf64_Sym *s = &object->symbols[i];
        if (s->st_shndx == SHN_UNDEF && strcmp(object->names + s->st_name, name) == 0)
            return true;
    }
    return false;
}

size_t kb_object_size(const kb_object *object)
{
    return object->size;
}

void kb_object_free(kb_object *object)
{
    if (!object)
        return;
    if (object->memory)
        (void)munmap(object->memory, object->size);
    kb_free(object->symbols);
    kb_free(object->names);
    kb_free(object);
}
