/* Owns the memory of placed objects: one mapping each, of pages that are executable, read-only or
 * writable. A table of addresses, with a slot for each symbol, and jumps to functions outside lie
 * in the same mapping, since those functions may be further away than a call reaches. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#endif
#include "object/kb_object.h"

#include "object/kb_cpu.h"
#include "object/kb_relocate.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The tables of the file. What is read here lies within its bytes. */
typedef struct elf {
    const uint8_t *bytes;
    size_t size;
    const char *what;     /* named in errors */
    Elf64_Shdr *sections; /* the contents of each but SHT_NOBITS are within the bytes */
    size_t n_sections;
    size_t section_names; /* a section */
    Elf64_Sym *symbols;   /* the name of each is within `names` */
    size_t n_symbols;
    char *names; /* a copy, which ends with NUL */
} elf;

static kb_status damaged(const elf *file, kb_error *err)
{
    return kb_error_set(err, KB_INVALID_ARGUMENT, "%s: the machine code is damaged", file->what);
}

static kb_status no_memory(const elf *file, kb_error *err)
{
    return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "%s: no memory for its machine code",
                        file->what);
}

static kb_status unsupported(const elf *file, const char *feature, kb_error *err)
{
    return kb_error_set(err, KB_UNIMPLEMENTED,
                        "%s: the machine code has %s, which cannot be loaded", file->what, feature);
}

/* Whether `count` elements of `size` bytes at `offset` are within the file. */
static bool is_within(const elf *file, uint64_t offset, uint64_t count, uint64_t size)
{
    return offset <= file->size && count <= (file->size - offset) / size;
}

static bool is_relocatable(const Elf64_Ehdr *h)
{
    return memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 && h->e_ident[EI_CLASS] == ELFCLASS64 &&
           h->e_ident[EI_DATA] == ELFDATA2LSB && h->e_type == ET_REL &&
           h->e_shentsize == sizeof(Elf64_Shdr) && h->e_shstrndx < h->e_shnum;
}

static kb_status read_sections(elf *file, kb_error *err)
{
    Elf64_Ehdr h;
    if (file->size < sizeof h)
        return damaged(file, err);
    memcpy(&h, file->bytes, sizeof h);
    if (!is_relocatable(&h) || !is_within(file, h.e_shoff, h.e_shnum, sizeof(Elf64_Shdr)))
        return damaged(file, err);
    if (h.e_machine != kb_relocate_machine)
        return kb_error_set(err, KB_FAILED_PRECONDITION,
                            "%s: the machine code is for another processor (ELF machine %u, "
                            "expected %u)",
                            file->what, h.e_machine, kb_relocate_machine);
    file->n_sections = h.e_shnum;
    file->section_names = h.e_shstrndx;
    file->sections = calloc(file->n_sections, sizeof *file->sections);
    if (!file->sections)
        return no_memory(file, err);
    memcpy(file->sections, file->bytes + h.e_shoff, file->n_sections * sizeof *file->sections);
    for (size_t i = 0; i < file->n_sections; i++) { /* names may be said to lie in the first, too */
        const Elf64_Shdr *s = &file->sections[i];
        if (s->sh_type != SHT_NOBITS && !is_within(file, s->sh_offset, s->sh_size, 1))
            return damaged(file, err);
    }
    return KB_OK;
}

static kb_status read_symbols(elf *file, kb_error *err)
{
    const Elf64_Shdr *table = NULL;
    for (size_t i = 1; i < file->n_sections; i++)
        if (file->sections[i].sh_type == SHT_SYMTAB)
            table = &file->sections[i];
    if (!table || table->sh_link >= file->n_sections || table->sh_size < sizeof *file->symbols)
        return damaged(file, err);
    const Elf64_Shdr *names = &file->sections[table->sh_link];
    if (names->sh_type != SHT_STRTAB || names->sh_size == 0)
        return damaged(file, err);
    file->n_symbols = table->sh_size / sizeof *file->symbols;
    file->symbols = calloc(file->n_symbols, sizeof *file->symbols);
    file->names = malloc(names->sh_size);
    if (!file->symbols || !file->names)
        return no_memory(file, err);
    memcpy(file->symbols, file->bytes + table->sh_offset, file->n_symbols * sizeof *file->symbols);
    memcpy(file->names, file->bytes + names->sh_offset, names->sh_size);
    file->names[names->sh_size - 1] = 0;
    for (size_t i = 0; i < file->n_symbols; i++)
        if (file->symbols[i].st_name >= names->sh_size)
            return damaged(file, err);
    return KB_OK;
}

/* Whether the name of a section begins with `size` bytes. */
static bool is_named(const elf *file, const Elf64_Shdr *s, const char *name, size_t size)
{
    const Elf64_Shdr *names = &file->sections[file->section_names];
    return names->sh_type == SHT_STRTAB && s->sh_name + size <= names->sh_size &&
           memcmp(file->bytes + names->sh_offset + s->sh_name, name, size) == 0;
}

/* Whether a section must be in memory. Tables for unwinding need not: no exception passes through
 * a kernel. */
static bool is_placed(const elf *file, const Elf64_Shdr *s)
{
    static const char unwinding[] = ".eh_frame";
    return s->sh_flags & SHF_ALLOC && s->sh_size > 0 && s->sh_type != SHT_NOTE &&
           !is_named(file, s, unwinding, sizeof unwinding);
}

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
    elf file;
    kb_object_resolver *resolve;
    uint8_t *memory;
    size_t *offsets;         /* of the sections in the mapping, or NOWHERE */
    size_t begin[PARTS + 1]; /* of the parts in the mapping, and its size */
    size_t jumps, slots;     /* offsets of tables that have an element for each symbol */
} placing;

static part part_of(const elf *file, const Elf64_Shdr *s)
{
    static const char relocated[] = ".data.rel.ro"; /* which only the loader writes */
    if (s->sh_flags & SHF_EXECINSTR)
        return CODE;
    bool varies = s->sh_flags & SHF_WRITE && !is_named(file, s, relocated, sizeof relocated - 1);
    return varies ? VARIABLES : CONSTANTS;
}

/* Reserves `size` bytes that begin at a multiple of `alignment`, a power of two or 0; `*at` moves
 * past them. It is at most OBJECT_SIZE_MAX, a multiple of the page, and so is what is aligned. */
static kb_status reserve(const placing *p, size_t *at, uint64_t size, uint64_t alignment,
                         size_t *begin, kb_error *err)
{
    if (alignment > (uint64_t)sysconf(_SC_PAGESIZE) || alignment & (alignment - 1))
        return damaged(&p->file, err);
    size_t aligned = alignment ? (*at + alignment - 1) & ~(alignment - 1) : *at;
    if (size > OBJECT_SIZE_MAX - aligned)
        return unsupported(&p->file, "more than 1 GB", err);
    *begin = aligned;
    *at = aligned + size;
    return KB_OK;
}

static kb_status reserve_sections(placing *p, part which, size_t *at, kb_error *err)
{
    kb_status status = KB_OK;
    for (size_t i = 1; status == KB_OK && i < p->file.n_sections; i++) {
        const Elf64_Shdr *s = &p->file.sections[i];
        if (!is_placed(&p->file, s) || part_of(&p->file, s) != which)
            continue;
        if (s->sh_flags & SHF_TLS)
            return unsupported(&p->file, "thread-local variables", err);
        if (s->sh_type != SHT_PROGBITS && s->sh_type != SHT_NOBITS)
            return unsupported(&p->file, "constructors or sections of an unknown type", err);
        status = reserve(p, at, s->sh_size, s->sh_addralign, &p->offsets[i], err);
    }
    return status;
}

/* Variables that have no section: their value is an alignment, and becomes an offset. */
static kb_status reserve_commons(placing *p, size_t *at, kb_error *err)
{
    kb_status status = KB_OK;
    for (size_t i = 0; status == KB_OK && i < p->file.n_symbols; i++) {
        Elf64_Sym *s = &p->file.symbols[i];
        if (s->st_shndx == SHN_COMMON)
            status = reserve(p, at, s->st_size, s->st_value, &s->st_value, err);
    }
    return status;
}

/* Decides where everything is. */
static kb_status lay_out(placing *p, kb_error *err)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), n = p->file.n_symbols;
    size_t at = 0;
    kb_status status = KB_OK;
    for (size_t i = 0; i < p->file.n_sections; i++)
        p->offsets[i] = NOWHERE;
    for (part which = CODE; status == KB_OK && which < PARTS; which++) {
        (void)reserve(p, &at, 0, page, &p->begin[which], err); /* nothing always fits */
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
        return no_memory(&p->file, err);
    p->memory = memory;
    for (size_t i = 1; i < p->file.n_sections; i++)
        if (p->offsets[i] != NOWHERE && p->file.sections[i].sh_type == SHT_PROGBITS)
            memcpy(p->memory + p->offsets[i], p->file.bytes + p->file.sections[i].sh_offset,
                   p->file.sections[i].sh_size);
    return KB_OK;
}

/* Replaces the value of a symbol by its address. */
static kb_status resolve_symbol(placing *p, Elf64_Sym *s, kb_error *err)
{
    const char *name = p->file.names + s->st_name;
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
        s->st_value = *name ? (uint64_t)(uintptr_t)p->resolve(name) : 0;
        if (s->st_value || !*name || ELF64_ST_BIND(s->st_info) == STB_WEAK)
            return KB_OK;
        return kb_error_set(err, KB_NOT_FOUND,
                            "%s: the machine code uses %s, which this process does not have",
                            p->file.what, name);
    default:
        break;
    }
    if (s->st_shndx >= p->file.n_sections || s->st_value > p->file.sections[s->st_shndx].sh_size)
        return damaged(&p->file, err);
    if (p->offsets[s->st_shndx] != NOWHERE)
        s->st_value += (uint64_t)(uintptr_t)(p->memory + p->offsets[s->st_shndx]);
    else
        s->st_value = 0; /* of a section that is not in memory */
    return KB_OK;
}

static kb_status resolve_symbols(placing *p, kb_error *err)
{
    for (size_t i = 0; i < p->file.n_symbols; i++) {
        kb_status status = resolve_symbol(p, &p->file.symbols[i], err);
        if (status != KB_OK)
            return status;
        uint64_t *slot = (uint64_t *)(void *)(p->memory + p->slots) + i;
        *slot = p->file.symbols[i].st_value;
        kb_relocate_jump(p->memory + p->jumps + i * KB_JUMP_SIZE, slot);
    }
    return KB_OK;
}

/* Applies the relocations of one table. */
static kb_status relocate(placing *p, const Elf64_Shdr *table, kb_error *err)
{
    const Elf64_Shdr *section = &p->file.sections[table->sh_info];
    for (size_t i = 0; i < table->sh_size / sizeof(Elf64_Rela); i++) {
        Elf64_Rela r;
        memcpy(&r, p->file.bytes + table->sh_offset + i * sizeof r, sizeof r);
        size_t index = ELF64_R_SYM(r.r_info);
        if (index >= p->file.n_symbols || r.r_offset > section->sh_size)
            return damaged(&p->file, err);
        const Elf64_Sym *symbol = &p->file.symbols[index];
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
            return damaged(&p->file, err);
        case KB_RELOCATED_TOO_FAR:
            return unsupported(&p->file, "an address that does not fit into its instruction", err);
        case KB_RELOCATED_UNKNOWN:
            return kb_error_set(err, KB_UNIMPLEMENTED,
                                "%s: the machine code has relocations of type %u, which cannot be "
                                "loaded: compile it as position-independent code",
                                p->file.what, relocation.type);
        }
    }
    return KB_OK;
}

static kb_status relocate_sections(placing *p, kb_error *err)
{
    kb_status status = KB_OK;
    for (size_t i = 1; status == KB_OK && i < p->file.n_sections; i++) {
        const Elf64_Shdr *s = &p->file.sections[i];
        if ((s->sh_type != SHT_RELA && s->sh_type != SHT_REL) || s->sh_info >= p->file.n_sections ||
            p->offsets[s->sh_info] == NOWHERE)
            continue;
        if (s->sh_type == SHT_REL)
            return unsupported(&p->file, "relocations without addends", err);
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
                                p->file.what);
    }
    __builtin___clear_cache((char *)p->memory, (char *)p->memory + p->begin[CONSTANTS]);
    return KB_OK;
}

static kb_status read_tables(placing *p, kb_error *err)
{
    kb_status status = read_sections(&p->file, err);
    if (status == KB_OK)
        status = read_symbols(&p->file, err);
    if (status != KB_OK)
        return status;
    p->offsets = calloc(p->file.n_sections + 1, sizeof *p->offsets);
    return p->offsets ? KB_OK : no_memory(&p->file, err);
}

kb_status kb_object_load(const void *bytes, size_t size, const char *what,
                         kb_object_resolver *resolve, kb_object **object, kb_error *err)
{
    static kb_status (*const steps[])(placing *, kb_error *) = {
        read_tables, lay_out, place_sections, resolve_symbols, relocate_sections, protect,
    };
    placing p = {.file = {.bytes = bytes, .size = size, .what = what}, .resolve = resolve};
    kb_object *o = calloc(1, sizeof *o);
    if (!o)
        return no_memory(&p.file, err);
    kb_status status = KB_OK;
    for (size_t i = 0; status == KB_OK && i < sizeof steps / sizeof *steps; i++)
        status = steps[i](&p, err);
    free(p.file.sections);
    free(p.offsets);
    /* The object owns what there is, also after a failure. */
    *o = (kb_object){
        .memory = p.memory,
        .size = p.begin[PARTS],
        .size_of_variables = p.begin[PARTS] - p.begin[VARIABLES],
        .symbols = p.file.symbols,
        .n_symbols = p.file.n_symbols,
        .names = p.file.names,
    };
    if (status == KB_OK)
        *object = o;
    else
        kb_object_free(o);
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
        s = kb_object_load(bytes, size, what, resolve, object, err);
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
    free(object->symbols);
    free(object->names);
    free(object);
}
