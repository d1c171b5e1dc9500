/* The tables of a relocatable ELF file. Nobody vouches for the bytes: what is read here lies within
 * them. One thread. */
#ifndef KB_ELF_H
#define KB_ELF_H

#include "core/kb_error.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kb_elf {
    const uint8_t *bytes;
    size_t size;
    const char *what;     /* named in errors */
    Elf64_Shdr *sections; /* the contents of each but SHT_NOBITS are within the bytes */
    size_t n_sections;
    size_t section_names; /* a section */
    Elf64_Sym *symbols;   /* the name of each is within `names` */
    size_t n_symbols;
    char *names; /* a copy, which ends with NUL */
} kb_elf;

/* Copies the tables. The caller sets `bytes`, `size` and `what`, zeroes the rest, and frees
 * `sections`, `symbols` and `names` with kb_free whatever is returned: KB_INVALID_ARGUMENT,
 * KB_FAILED_PRECONDITION for another processor, or KB_RESOURCE_EXHAUSTED. */
kb_status kb_elf_read(kb_elf *elf, kb_error *err);

/* Whether a section is to be in memory. Tables for unwinding are not: no exception passes through
 * a kernel. */
bool kb_elf_is_placed(const kb_elf *elf, const Elf64_Shdr *section);

/* Errors that name the object: KB_INVALID_ARGUMENT, KB_RESOURCE_EXHAUSTED, KB_UNIMPLEMENTED. */
kb_status kb_elf_damaged(const kb_elf *elf, kb_error *err);
kb_status kb_elf_no_memory(const kb_elf *elf, kb_error *err);
kb_status kb_elf_unsupported(const kb_elf *elf, const char *feature, kb_error *err);

#endif
