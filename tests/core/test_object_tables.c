/* Proves which tables of an object are read and which are refused: each test changes a field of
 * one, up to the end of its range and beyond. Of those that are loaded some run. */
#include "kb_test.h"
#include "object.h"
#include "object/kb_object.h"
#include "object/kb_relocate.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static kb_error err;

#define FUNCTION(object, type, name) ((type)(uintptr_t)kb_object_find(object, name))

/* A copy of the object that a test changes, and its parts. */
typedef struct parts {
    size_t size;
    uint8_t *bytes;
    Elf64_Ehdr *header;
    Elf64_Shdr *sections, *section_names, *symbol_table, *symbol_names;
    Elf64_Sym *symbols;
} parts;

static parts parts_of_copy(void)
{
    parts p;
    const uint8_t *bytes = object_bytes(&p.size);
    p.bytes = malloc(p.size); /* of exactly its size: AddressSanitizer watches */
    if (!p.bytes)
        abort();
    memcpy(p.bytes, bytes, p.size);
    p.header = (Elf64_Ehdr *)(void *)p.bytes;
    p.sections = (Elf64_Shdr *)(void *)(p.bytes + p.header->e_shoff);
    p.section_names = &p.sections[p.header->e_shstrndx];
    p.symbol_table = p.sections;
    while (p.symbol_table->sh_type != SHT_SYMTAB)
        p.symbol_table++;
    p.symbol_names = &p.sections[p.symbol_table->sh_link];
    p.symbols = (Elf64_Sym *)(void *)(p.bytes + p.symbol_table->sh_offset);
    return p;
}

static Elf64_Shdr *section_named(const parts *p, const char *name)
{
    const char *names = (const char *)p->bytes + p->section_names->sh_offset;
    for (size_t i = 1; i < p->header->e_shnum; i++)
        if (strcmp(names + p->sections[i].sh_name, name) == 0)
            return &p->sections[i];
    return NULL;
}

/* Loads the copy and frees it; NULL if it is refused. */
static kb_object *load(parts *p, kb_status expected)
{
    kb_object *object = NULL;
    CHECK_INT(kb_object_load(p->bytes, p->size, "k", object_resolve, &object, &err), expected);
    CHECK_INT(object != NULL, expected == KB_OK);
    free(p->bytes);
    return object;
}

static void load_parts(parts *p, kb_status expected)
{
    kb_object_free(load(p, expected));
}

/* A section ends with the file, and not behind it. That of the compiler's name is not placed. */
static void test_ends_of_sections(void)
{
    const struct {
        size_t before, size; /* the end of the file */
        kb_status expected;
    } cases[] = {{0, 0, KB_OK},
                 {1, 1, KB_OK},
                 {9, 9, KB_OK},
                 {0, 1, KB_INVALID_ARGUMENT},
                 {1, 2, KB_INVALID_ARGUMENT},
                 {9, 10, KB_INVALID_ARGUMENT},
                 {(size_t)-1, 0, KB_INVALID_ARGUMENT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parts p = parts_of_copy();
        Elf64_Shdr *comment = section_named(&p, ".comment");
        if (!CHECK(comment != NULL))
            return;
        comment->sh_offset = p.size - cases[i].before;
        comment->sh_size = cases[i].size;
        load_parts(&p, cases[i].expected);
    }
}

/* What is placed: sections with a byte or more that say so, but for notes. Others may say that they
 * are thread-local. */
static void test_placed(void)
{
    const struct {
        Elf64_Xword flags, size;
        Elf64_Word type;
        kb_status expected;
    } cases[] = {{SHF_ALLOC | SHF_TLS, 2, SHT_PROGBITS, KB_UNIMPLEMENTED},
                 {SHF_ALLOC | SHF_TLS, 1, SHT_PROGBITS, KB_UNIMPLEMENTED},
                 {SHF_ALLOC | SHF_TLS, 0, SHT_PROGBITS, KB_OK},
                 {SHF_ALLOC | SHF_TLS, 1, SHT_NOTE, KB_OK},
                 {SHF_TLS, 1, SHT_PROGBITS, KB_OK},
                 {SHF_ALLOC, 1, SHT_PROGBITS, KB_OK},
                 {SHF_ALLOC, 1, SHT_NOBITS, KB_OK},
                 {SHF_ALLOC, 1, SHT_FINI_ARRAY, KB_UNIMPLEMENTED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parts p = parts_of_copy();
        Elf64_Shdr *comment = section_named(&p, ".comment");
        comment->sh_flags = cases[i].flags;
        comment->sh_size = cases[i].size;
        comment->sh_type = cases[i].type;
        load_parts(&p, cases[i].expected);
    }
}

/* Section 0 is none, whatever it says: it is not placed, and nothing is relocated by it. */
static void test_section_0(void)
{
    parts p = parts_of_copy();
    p.sections[0] = *section_named(&p, ".comment");
    p.sections[0].sh_flags = SHF_ALLOC | SHF_TLS;
    load_parts(&p, KB_OK);
    p = parts_of_copy();
    size_t i = 1;
    while (p.sections[i].sh_type != SHT_RELA ||
           !(p.sections[p.sections[i].sh_info].sh_flags & SHF_EXECINSTR))
        i++;
    p.sections[0] = p.sections[i];
    p.sections[0].sh_type = SHT_REL;
    load_parts(&p, KB_OK);
    p = parts_of_copy();
    p.sections[i].sh_type = SHT_REL;
    load_parts(&p, KB_UNIMPLEMENTED);
    CHECK_TEXT(err.message,
               "k: the machine code has relocations without addends, which cannot be loaded");
    p = parts_of_copy();
    p.sections[i].sh_info = 0;
    load_parts(&p, KB_OK);
    p = parts_of_copy();
    p.sections[i].sh_type = SHT_REL; /* of a section that is not there */
    p.sections[i].sh_info = p.header->e_shnum;
    load_parts(&p, KB_OK);
}

static void test_far_address(void)
{
    parts p = parts_of_copy();
    size_t i = 1;
    while (p.sections[i].sh_type != SHT_RELA ||
           !(p.sections[p.sections[i].sh_info].sh_flags & SHF_EXECINSTR))
        i++;
    Elf64_Rela first;
    memcpy(&first, p.bytes + p.sections[i].sh_offset, sizeof first);
    first.r_addend = INT64_C(1) << 40;
    memcpy(p.bytes + p.sections[i].sh_offset, &first, sizeof first);
    load_parts(&p, KB_UNIMPLEMENTED);
    CHECK_TEXT(err.message, "k: the machine code has an address that does not fit into its "
                            "instruction, which cannot be loaded");
}

/* Tables for unwinding are known by their name, which may be the last of all, and are not placed:
 * nobody sees that they are thread-local here. */
static void test_names_of_sections(void)
{
    enum { NAME_SIZE = sizeof ".eh_frame", CASES = 7 };
    for (int i = 0; i < CASES; i++) {
        parts p = parts_of_copy();
        Elf64_Shdr *unwinding = section_named(&p, ".eh_frame");
        bool shared = p.section_names == p.symbol_names; /* LLVM has one table for all names */
        if (!unwinding || (shared && i >= 1 && i <= 4)) {
            free(p.bytes);
            continue;
        }
        unwinding->sh_flags |= SHF_TLS;
        if (i == 1)
            p.section_names->sh_size = unwinding->sh_name + NAME_SIZE;
        if (i == 2)
            p.section_names->sh_size = unwinding->sh_name + NAME_SIZE - 1;
        if (i == 3)
            p.section_names->sh_size = unwinding->sh_name;
        if (i == 4)
            p.section_names->sh_type = SHT_PROGBITS;
        if (i == 5)
            unwinding->sh_name = UINT32_MAX;
        if (i == 6)
            p.header->e_shstrndx = p.header->e_shnum;
        load_parts(&p, i < 2 ? KB_OK : i < 6 ? KB_UNIMPLEMENTED : KB_INVALID_ARGUMENT);
        if (i >= 2)
            CHECK_HAS(err.message, i < 6 ? "k: the machine code has thread-local variables, which "
                                           "cannot be loaded"
                                         : "k: the machine code is damaged");
    }
}

/* The first symbol of a section that is placed. */
static Elf64_Sym *placed_symbol(const parts *p)
{
    Elf64_Sym *s = &p->symbols[1];
    while (s->st_shndx == SHN_UNDEF || s->st_shndx >= p->header->e_shnum ||
           !(p->sections[s->st_shndx].sh_flags & SHF_ALLOC))
        s++;
    return s;
}

/* Constants are no variables, nor are those into which only the loader writes addresses. */
static void test_without_variables(void)
{
    parts p = parts_of_copy();
    const char *names = (const char *)p.bytes + p.section_names->sh_offset;
    for (size_t i = 0; i < p.header->e_shnum; i++)
        if (strncmp(names + p.sections[i].sh_name, ".data.rel.ro", 12) != 0)
            p.sections[i].sh_flags &= ~(Elf64_Xword)SHF_WRITE;
    for (size_t i = 0; i < p.symbol_table->sh_size / sizeof *p.symbols; i++)
        if (p.symbols[i].st_shndx == SHN_COMMON) {
            p.symbols[i].st_shndx = placed_symbol(&p)->st_shndx;
            p.symbols[i].st_value = 0;
        }
    kb_object *object = load(&p, KB_OK);
    if (!object)
        return;
    CHECK(!kb_object_has_variables(object));
    CHECK_INT(kb_object_size(object) % (size_t)sysconf(_SC_PAGESIZE), 0);
    kb_object_free(object);
}

static size_t other(size_t section, size_t a, size_t b)
{
    return section == a ? b : section == b ? a : section;
}

/* Every section in the place of the first that is one: the order of sections does not matter. */
static void test_order(void)
{
    const size_t n = ((Elf64_Ehdr *)(void *)(uintptr_t)object_bytes(&(size_t){0}))->e_shnum;
    for (size_t k = 2; k < n; k++) {
        parts p = parts_of_copy();
        for (size_t i = 0; i < n; i++) {
            Elf64_Shdr *s = &p.sections[i];
            s->sh_link = (Elf64_Word)other(s->sh_link, 1, k);
            if (s->sh_type == SHT_RELA)
                s->sh_info = (Elf64_Word)other(s->sh_info, 1, k);
        }
        for (size_t i = 0; i < p.symbol_table->sh_size / sizeof *p.symbols; i++)
            p.symbols[i].st_shndx = (Elf64_Section)other(p.symbols[i].st_shndx, 1, k);
        p.header->e_shstrndx = (Elf64_Half)other(p.header->e_shstrndx, 1, k);
        const Elf64_Shdr first = p.sections[1];
        p.sections[1] = p.sections[k];
        p.sections[k] = first;
        kb_object *object = load(&p, KB_OK);
        if (!object)
            return;
        CHECK_INT(FUNCTION(object, int64_t(*)(void), "sample_count")(), 41 + 2 + 1);
        CHECK_TEXT(FUNCTION(object, const char *(*)(int64_t), "sample_name")(1), "one");
        kb_object_free(object);
    }
    parts p = parts_of_copy(); /* but that section 0 is none */
    p.sections[0] = *p.symbol_table;
    p.symbol_table->sh_type = SHT_NULL;
    load_parts(&p, KB_INVALID_ARGUMENT);
}

/* The last name may lack its end, and must be that of a table of names. */
static void test_names_of_symbols(void)
{
    parts p = parts_of_copy();
    p.bytes[p.symbol_names->sh_offset + p.symbol_names->sh_size - 1] = 'x';
    kb_object *object = load(&p, KB_OK);
    static const char *const names[] = {"sample_count", "sample_sum",     "sample_name",
                                        "common_byte",  "sample_commons", "sample_indirect"};
    for (size_t i = 0; object && i < sizeof names / sizeof *names; i++)
        CHECK(kb_object_find(object, names[i]) != NULL);
    kb_object_free(object);
    p = parts_of_copy();
    p.symbol_names->sh_type = SHT_PROGBITS;
    size_t last = p.symbol_table->sh_size / sizeof(Elf64_Sym) - 1;
    load_parts(&p, KB_INVALID_ARGUMENT);
    for (int i = 0; i < 2; i++) {
        p = parts_of_copy();
        p.symbols[i ? last : 0].st_name = UINT32_MAX;
        load_parts(&p, KB_INVALID_ARGUMENT);
    }
}

/* Names, sections and values of a symbol, at the end and behind it. */
static void test_symbols(void)
{
    for (int behind = 0; behind < 2; behind++) {
        kb_status expected = behind ? KB_INVALID_ARGUMENT : KB_OK;
        parts p = parts_of_copy();
        p.symbols[1].st_name = (Elf64_Word)p.symbol_names->sh_size - 1 + (Elf64_Word)behind;
        load_parts(&p, expected);

        p = parts_of_copy();
        Elf64_Sym *symbol = placed_symbol(&p);
        symbol->st_value = p.sections[symbol->st_shndx].sh_size + (Elf64_Xword)behind;
        load_parts(&p, expected);

        p = parts_of_copy();
        symbol = placed_symbol(&p);
        symbol->st_value = 0;
        symbol->st_shndx = (Elf64_Section)(p.header->e_shnum - 1 + behind);
        load_parts(&p, expected);

        p = parts_of_copy(); /* one symbol, and nothing that refers to others */
        p.symbol_table->sh_size = sizeof(Elf64_Sym) - (size_t)behind;
        for (size_t i = 1; i < p.header->e_shnum; i++)
            if (p.sections[i].sh_type == SHT_RELA)
                p.sections[i].sh_type = SHT_NULL;
        if (p.symbol_names != p.section_names)
            p.symbol_names->sh_size = 1;
        load_parts(&p, expected);

        p = parts_of_copy();
        p.symbol_table->sh_link = behind ? p.header->e_shnum : p.symbol_table->sh_link;
        load_parts(&p, expected);
    }
}

static Elf64_Sym *symbol_named(const parts *p, const char *name)
{
    const char *names = (const char *)p->bytes + p->symbol_names->sh_offset;
    for (size_t i = 1; i < p->symbol_table->sh_size / sizeof *p->symbols; i++)
        if (strcmp(names + p->symbols[i].st_name, name) == 0)
            return &p->symbols[i];
    abort();
}

/* Names a symbol anew, in a copy of the names behind the file. */
static void rename_symbol(parts *p, const char *from, const char *to)
{
    size_t old = p->symbol_names->sh_size, size = old + strlen(to) + 1;
    Elf64_Sym *symbol = symbol_named(p, from);
    const size_t at = p->symbol_names->sh_offset;
    symbol->st_name = (Elf64_Word)old;
    p->symbol_names->sh_offset = p->size;
    p->symbol_names->sh_size = size;
    p->bytes = realloc(p->bytes, p->size + size);
    if (!p->bytes)
        abort();
    memcpy(p->bytes + p->size, p->bytes + at, old);
    strcpy((char *)p->bytes + p->size + old, to);
    p->size += size;
}

/* What a table of functions holds in place of one that is elsewhere. */
static const uint64_t *second_function(const kb_object *object)
{
    const uint64_t *const *functions = kb_object_find(object, "functions");
    return functions ? functions[1] : NULL;
}

/* The table of all symbols, which code finds by its own name: each has its address there. */
static void test_addresses(void)
{
    static const char *const names[] = {"sample_count", "exported_counter", "sample_sum",
                                        "common_words", "sample_indirect",  "common_byte"};
    enum { N = sizeof names / sizeof *names };
    parts p = parts_of_copy();
    size_t index[N];
    for (size_t i = 0; i < N; i++)
        index[i] = (size_t)(symbol_named(&p, names[i]) - p.symbols);
    symbol_named(&p, "functions")->st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
    rename_symbol(&p, "outside", "_GLOBAL_OFFSET_TABLE_");
    kb_object *object = load(&p, KB_OK);
    const uint64_t *addresses = object ? second_function(object) : NULL;
    if (!CHECK(addresses != NULL))
        return;
    CHECK_INT(addresses[0], 0);
    for (size_t i = 0; i < N; i++)
        CHECK_INT(addresses[index[i]], (uintptr_t)kb_object_find(object, names[i]));
    kb_object_free(object);
}

/* A symbol that is a number, and one of which there is nothing in memory. */
static void test_numbers(void)
{
    parts p = parts_of_copy();
    for (size_t i = 1; i < p.header->e_shnum; i++)
        if (p.sections[i].sh_type == SHT_RELA)
            p.sections[i].sh_type = SHT_NULL;
    Elf64_Sym *number = symbol_named(&p, "exported_counter");
    number->st_shndx = SHN_ABS;
    number->st_value = 0x1234;
    kb_object *object = load(&p, KB_OK);
    if (!object)
        return;
    CHECK_INT((uintptr_t)kb_object_find(object, "exported_counter"), 0x1234);
    kb_object_free(object);
}

/* The first symbol is none, whatever it says; the second is one. */
static void test_first_symbols(void)
{
    for (int index = 0; index < 2; index++) {
        parts p = parts_of_copy();
        p.symbols[index] = *symbol_named(&p, "sample_sum");
        p.symbols[index].st_name++;
        kb_object *object = load(&p, KB_OK);
        if (!object)
            return;
        void *sum = kb_object_find(object, "sample_sum");
        CHECK(sum != NULL);
        CHECK_PTR(kb_object_find(object, "ample_sum"), index ? sum : NULL);
        CHECK(!kb_object_uses(object, "ample_sum"));
        CHECK(!kb_object_uses(object, "")); /* the name of the first */
        kb_object_free(object);

        p = parts_of_copy();
        p.symbols[index] = *symbol_named(&p, "outside_variable");
        p.symbols[index].st_name++;
        p.symbols[index].st_info = ELF64_ST_INFO(STB_WEAK, STT_NOTYPE);
        object = load(&p, KB_OK);
        if (!object)
            return;
        CHECK_INT(kb_object_uses(object, "utside_variable"), index);
        CHECK_PTR(kb_object_find(object, "utside_variable"), NULL);
        kb_object_free(object);
    }
}

/* A relocation that changes nothing may stand at the end of its section, and not behind it. */
static void test_relocation_of_nothing(void)
{
    for (int behind = 0; behind < 2; behind++) {
        parts p = parts_of_copy();
        size_t i = 1;
        while (p.sections[i].sh_type != SHT_RELA ||
               !(p.sections[p.sections[i].sh_info].sh_flags & SHF_WRITE))
            i++;
        Elf64_Rela *r = (Elf64_Rela *)(void *)(p.bytes + p.sections[i].sh_offset);
        r->r_info = ELF64_R_INFO(ELF64_R_SYM(r->r_info), 0); /* R_X86_64_NONE, R_AARCH64_NONE */
        r->r_offset = p.sections[p.sections[i].sh_info].sh_size + (Elf64_Xword)behind;
        load_parts(&p, behind ? KB_INVALID_ARGUMENT : KB_OK);
    }
}

/* What may be done with the memory at an address, as the system writes it; "" if it does not. */
static const char *protection_of(const void *address)
{
    static char line[512], protection[5];
    unsigned long begin, end;
    protection[0] = '\0';
    FILE *file = fopen("/proc/self/maps", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%lx-%lx %4s", &begin, &end, protection) == 3 &&
            begin <= (uintptr_t)address && (uintptr_t)address < end)
            break;
    if (file)
        fclose(file);
    return protection;
}

/* Code can run and constants can be read, and neither can be changed; variables can. */
static void test_protection(void)
{
    parts p = parts_of_copy();
    kb_object *object = load(&p, KB_OK);
    if (!object || !*protection_of(object))
        return; /* another system */
    CHECK_TEXT(protection_of(kb_object_find(object, "sample_sum")), "r-xp");
    const char *constant = FUNCTION(object, const char *(*)(int64_t), "sample_name")(1);
    CHECK_TEXT(protection_of(constant), "r--p");
    CHECK_TEXT(protection_of(kb_object_find(object, "exported_counter")), "rw-p");
    CHECK_TEXT(protection_of(kb_object_find(object, "common_byte")), "rw-p");
    kb_object_free(object);
}

/* Where nothing is placed, there are a jump and an address for each symbol, in pages of their own.
 */
static void test_many_symbols(void)
{
    const size_t counts[] = {1, 256, 257, 512, 513, 5000}, page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        size_t n = counts[i], table = n * sizeof(Elf64_Sym);
        parts p = parts_of_copy();
        for (size_t k = 1; k < p.header->e_shnum; k++) {
            p.sections[k].sh_flags = 0;
            if (p.sections[k].sh_type == SHT_RELA)
                p.sections[k].sh_type = SHT_NULL;
        }
        p.symbol_table->sh_offset = p.size;
        p.symbol_table->sh_size = table;
        p.bytes = realloc(p.bytes, p.size + table);
        if (!p.bytes)
            abort();
        memset(p.bytes + p.size, 0, table);
        p.size += table;
        kb_object *object = load(&p, KB_OK);
        size_t jumps = (n * KB_JUMP_SIZE + page - 1) / page;
        size_t addresses = (n * sizeof(uint64_t) + page - 1) / page;
        if (object)
            CHECK_INT(kb_object_size(object), (jumps + addresses) * page);
        kb_object_free(object);
    }
}

/* Alignments of a section and of a variable without one: 1 to a page, and powers of two. */
static void test_alignments(void)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const struct {
        uint64_t alignment;
        kb_status expected;
    } cases[] = {{0, KB_OK},
                 {1, KB_OK},
                 {2, KB_OK},
                 {3, KB_INVALID_ARGUMENT},
                 {page, KB_OK},
                 {page + 1, KB_INVALID_ARGUMENT},
                 {2 * page, KB_INVALID_ARGUMENT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parts p = parts_of_copy();
        for (size_t k = 1; k < p.header->e_shnum; k++)
            if (p.sections[k].sh_type == SHT_NOBITS)
                p.sections[k].sh_addralign = cases[i].alignment;
        load_parts(&p, cases[i].expected);
        p = parts_of_copy();
        Elf64_Sym *s = p.symbols;
        while (s->st_shndx != SHN_COMMON)
            s++;
        s->st_value = cases[i].alignment;
        load_parts(&p, cases[i].expected);
    }
}

int main(void)
{
    test_ends_of_sections();
    test_placed();
    test_section_0();
    test_far_address();
    test_without_variables();
    test_names_of_sections();
    test_order();
    test_names_of_symbols();
    test_symbols();
    test_alignments();
    test_addresses();
    test_numbers();
    test_first_symbols();
    test_relocation_of_nothing();
    test_protection();
    test_many_symbols();
    return kb_test_end("test_object_tables");
}
