/* Reads the tables of a relocatable ELF file. */
#include "object/kb_elf.h"

#include "core/kb_memory.h"
#include "object/kb_relocate.h"

#include <string.h>

kb_status kb_elf_damaged(const kb_elf *elf, kb_error *err)
{
    return kb_error_set(err, KB_INVALID_ARGUMENT, "%s: the machine code is damaged", elf->what);
}

kb_status kb_elf_no_memory(const kb_elf *elf, kb_error *err)
{
    return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "%s: no memory for its machine code",
                        elf->what);
}

kb_status kb_elf_unsupported(const kb_elf *elf, const char *feature, kb_error *err)
{
    return kb_error_set(err, KB_UNIMPLEMENTED,
                        "%s: the machine code has %s, which cannot be loaded", elf->what, feature);
}

/* Whether `count` elements of `size` bytes at `offset` are within the file. */
static bool is_within(const kb_elf *elf, uint64_t offset, uint64_t count, uint64_t size)
{
    return offset <= elf->size && count <= (elf->size - offset) / size;
}

static bool is_relocatable(const Elf64_Ehdr *h)
{
    return memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 && h->e_ident[EI_CLASS] == ELFCLASS64 &&
           h->e_ident[EI_DATA] == ELFDATA2LSB && h->e_type == ET_REL &&
           h->e_shentsize == sizeof(Elf64_Shdr) && h->e_shstrndx < h->e_shnum;
}

static kb_status read_sections(kb_elf *elf, kb_error *err)
{
    Elf64_Ehdr h;
    if (elf->size < sizeof h)
        return kb_elf_damaged(elf, err);
    memcpy(&h, elf->bytes, sizeof h);
    if (!is_relocatable(&h) || !is_within(elf, h.e_shoff, h.e_shnum, sizeof(Elf64_Shdr)))
        return kb_elf_damaged(elf, err);
    if (h.e_machine != kb_relocate_machine || kb_relocate_machine == EM_NONE)
        return kb_error_set(err, KB_FAILED_PRECONDITION,
                            "%s: the machine code is for another processor (ELF machine %u, "
                            "expected %u)",
                            elf->what, h.e_machine, kb_relocate_machine);
    elf->n_sections = h.e_shnum;
    elf->section_names = h.e_shstrndx;
    elf->sections = kb_calloc(elf->n_sections, sizeof *elf->sections);
    if (!elf->sections)
        return kb_elf_no_memory(elf, err);
    memcpy(elf->sections, elf->bytes + h.e_shoff, elf->n_sections * sizeof *elf->sections);
    for (size_t i = 0; i < elf->n_sections; i++) { /* names may be said to lie in the first, too */
        const Elf64_Shdr *s = &elf->sections[i];
        if (s->sh_type != SHT_NOBITS && !is_within(elf, s->sh_offset, s->sh_size, 1))
            return kb_elf_damaged(elf, err);
    }
    return KB_OK;
}

static kb_status read_symbols(kb_elf *elf, kb_error *err)
{
    const Elf64_Shdr *table = NULL;
    for (size_t i = 1; i < elf->n_sections; i++)
        if (elf->sections[i].sh_type == SHT_SYMTAB)
            table = &elf->sections[i];
    if (!table || table->sh_link >= elf->n_sections || table->sh_size < sizeof *elf->symbols)
        return kb_elf_damaged(elf, err);
    const Elf64_Shdr *names = &elf->sections[table->sh_link];
    if (names->sh_type != SHT_STRTAB || names->sh_size == 0)
        return kb_elf_damaged(elf, err);
    elf->n_symbols = table->sh_size / sizeof *elf->symbols;
    elf->symbols = kb_calloc(elf->n_symbols, sizeof *elf->symbols);
    elf->names = kb_malloc(names->sh_size);
    if (!elf->symbols || !elf->names)
        return kb_elf_no_memory(elf, err);
    memcpy(elf->symbols, elf->bytes + table->sh_offset, elf->n_symbols * sizeof *elf->symbols);
    memcpy(elf->names, elf->bytes + names->sh_offset, names->sh_size);
    elf->names[names->sh_size - 1] = 0;
    for (size_t i = 0; i < elf->n_symbols; i++)
        if (elf->symbols[i].st_name >= names->sh_size)
            return kb_elf_damaged(elf, err);
    return KB_OK;
}

kb_status kb_elf_read(kb_elf *elf, kb_error *err)
{
    kb_status status = read_sections(elf, err);
    return status == KB_OK ? read_symbols(elf, err) : status;
}

static bool is_for_unwinding(const kb_elf *elf, const Elf64_Shdr *s)
{
    static const char name[] = ".eh_frame";
    const Elf64_Shdr *names = &elf->sections[elf->section_names];
    return names->sh_type == SHT_STRTAB && s->sh_name + sizeof name <= names->sh_size &&
           memcmp(elf->bytes + names->sh_offset + s->sh_name, name, sizeof name) == 0;
}

bool kb_elf_is_placed(const kb_elf *elf, const Elf64_Shdr *s)
{
    return s->sh_flags & SHF_ALLOC && s->sh_size > 0 && s->sh_type != SHT_NOTE &&
           !is_for_unwinding(elf, s);
}
