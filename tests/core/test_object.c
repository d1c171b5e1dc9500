/* Proves that a relocatable object runs once it is placed, and that bytes which are no whole object
 * are refused with no byte read behind their end: every block has exactly its size, so that
 * AddressSanitizer sees one too many. */
#include "core/kb_memory.h"
#include "kb_test.h"
#include "object.h"
#include "object/kb_object.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static kb_error err;

static kb_object *load(const uint8_t *bytes, size_t size, kb_status expected)
{
    kb_object *object = NULL;
    CHECK_INT(kb_object_load(bytes, size, "k", object_resolve, NULL, &object, &err), expected);
    CHECK((object != NULL) == (expected == KB_OK));
    return object;
}

#define FUNCTION(object, type, name) ((type)(uintptr_t)kb_object_find(object, name))

static void test_code_runs(void)
{
    size_t size;
    const uint8_t *bytes = object_bytes(&size);
    kb_object *one = load(bytes, size, KB_OK), *other = load(bytes, size, KB_OK);
    if (!one || !other)
        return;
    typedef int64_t count(void);
    typedef double sum(const double *, int64_t);
    typedef const char *name(int64_t);
    typedef int integer(void);
    typedef double indirect(int64_t, double);
    CHECK_INT(FUNCTION(one, count *, "sample_count")(), 41 + 2 + 1);
    CHECK_INT(FUNCTION(one, count *, "sample_count")(), 42 + 2 + 2);
    *(int64_t *)kb_object_find(one, "exported_counter") = 100;
    CHECK_INT(FUNCTION(one, count *, "sample_count")(), 43 + 100 + 3);
    CHECK_INT(FUNCTION(other, count *, "sample_count")(), 41 + 2 + 1); /* has its own variables */
    const double x[] = {1, 2, 3, 4, 5};
    CHECK(FUNCTION(one, sum *, "sample_sum")(x, 5) == 2 * (1.5 + 5 + 10.5 + 18 + 7.5));
    CHECK_TEXT(FUNCTION(one, name *, "sample_name")(2), "two");
    CHECK_INT(FUNCTION(one, count *, "sample_outside")(), 77);
    CHECK_INT(FUNCTION(one, integer *, "sample_has_absent")(), -1);
    CHECK(FUNCTION(one, indirect *, "sample_indirect")(0, 3) == 9);
    CHECK(FUNCTION(one, indirect *, "sample_indirect")(1, 3) == 6);
    CHECK(!kb_object_find(one, "square") && !kb_object_find(one, "outside"));
    CHECK(!kb_object_find(one, "no_such_symbol"));
    CHECK(kb_object_size(one) > 0);
    CHECK(kb_object_has_variables(one));
    CHECK(kb_object_uses(one, "outside") && kb_object_uses(one, "outside_variable"));
    CHECK(!kb_object_uses(one, "sample_count") && !kb_object_uses(one, "no_such_symbol"));
    kb_object_free(one);
    kb_object_free(other);
    kb_object_free(NULL);
}

/* Variables without a section are zero, apart from each other, and each object's own. */
static void test_commons(void)
{
    size_t size;
    const uint8_t *bytes = object_bytes(&size);
    kb_object *one = load(bytes, size, KB_OK), *other = load(bytes, size, KB_OK);
    if (!one || !other)
        return;
    typedef int64_t commons(int64_t);
    CHECK_INT(FUNCTION(one, commons *, "sample_commons")(5), 5 + 0 + 5 + 10);
    CHECK_INT(FUNCTION(one, commons *, "sample_commons")(1), 6 + 0 + 6 + 12);
    CHECK_INT(FUNCTION(other, commons *, "sample_commons")(1), 1 + 0 + 1 + 2);
    const int64_t *words = kb_object_find(one, "common_words");
    CHECK_INT((uintptr_t)words % 64, 0);
    CHECK_INT(words[2], 12);
    CHECK_INT(*(const int8_t *)kb_object_find(one, "common_byte"), 6);
    CHECK_INT(FUNCTION(one, int64_t(*)(void), "sample_count")(), 41 + 2 + 1);
    kb_object_free(one);
    kb_object_free(other);
}

/* A copy of the object in memory of exactly `n` bytes. */
static uint8_t *copied(size_t n)
{
    size_t size;
    const uint8_t *bytes = object_bytes(&size);
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy || n > size)
        abort();
    return memcpy(copy, bytes, n);
}

static void test_a_part_is_refused(void)
{
    size_t size;
    (void)object_bytes(&size);
    for (size_t n = 0; n < size; n++) {
        uint8_t *part = copied(n);
        load(part, n, KB_INVALID_ARGUMENT); /* the table of sections is at the end */
        free(part);
    }
    CHECK_TEXT(err.message, "k: the machine code is damaged");
}

static void test_header(void)
{
    size_t size;
    (void)object_bytes(&size);
    uint8_t *copy = copied(size);
    Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)copy, good = *header;
    header->e_machine = EM_S390;
    load(copy, size, KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "another processor (ELF machine 22, expected");
    *header = good;
    header->e_type = ET_DYN;
    load(copy, size, KB_INVALID_ARGUMENT);
    *header = good;
    header->e_shoff = UINT64_MAX - 8;
    load(copy, size, KB_INVALID_ARGUMENT);
    *header = good;
    header->e_shnum = UINT16_MAX;
    load(copy, size, KB_INVALID_ARGUMENT);
    *header = good;
    header->e_shoff = 0; /* the header alone, which says that it is a section, too */
    header->e_shnum = 1;
    header->e_shstrndx = 0;
    load(copy, sizeof *header, KB_INVALID_ARGUMENT);
    header->e_machine = EM_S390;
    load(copy, sizeof *header, KB_FAILED_PRECONDITION);
    free(copy);
}

static Elf64_Shdr *sections_of(uint8_t *bytes)
{
    return (Elf64_Shdr *)(void *)(bytes + ((Elf64_Ehdr *)(void *)bytes)->e_shoff);
}

/* Names may be said to lie in the first section, which is none: nothing is read where it points. */
static void test_first_section(void)
{
    size_t size;
    (void)object_bytes(&size);
    for (int of_sections = 0; of_sections < 2; of_sections++) {
        uint8_t *copy = copied(size);
        Elf64_Shdr *s = sections_of(copy);
        s[0].sh_type = SHT_STRTAB;
        s[0].sh_offset = UINT64_MAX / 2;
        s[0].sh_size = 1 << 20;
        if (of_sections)
            ((Elf64_Ehdr *)(void *)copy)->e_shstrndx = 0;
        for (size_t i = 1; !of_sections; i++)
            if (s[i].sh_type == SHT_SYMTAB) {
                s[i].sh_link = 0;
                break;
            }
        load(copy, size, KB_INVALID_ARGUMENT);
        free(copy);
    }
}

/* Loads the object with one field of its first section of a type changed. */
static void with_section(uint32_t type, void (*change)(Elf64_Shdr *), kb_status expected)
{
    size_t size;
    (void)object_bytes(&size);
    uint8_t *copy = copied(size);
    Elf64_Shdr *s = sections_of(copy);
    for (size_t i = 1;; i++)
        if (s[i].sh_type == type && (type != SHT_PROGBITS || s[i].sh_size)) {
            change(&s[i]);
            break;
        }
    load(copy, size, expected);
    free(copy);
}

static void make_tls(Elf64_Shdr *s)
{
    s->sh_flags |= SHF_TLS;
}
static void make_constructors(Elf64_Shdr *s)
{
    s->sh_type = SHT_INIT_ARRAY;
}
static void make_odd(Elf64_Shdr *s)
{
    s->sh_addralign = 3;
}
static void make_huge(Elf64_Shdr *s)
{
    s->sh_size = UINT64_C(1) << 40;
}
static void make_full(Elf64_Shdr *s)
{
    s->sh_size = UINT64_C(1) << 30; /* and there is code besides */
}
static void make_far(Elf64_Shdr *s)
{
    s->sh_offset = UINT64_MAX - 3;
}
static void make_linkless(Elf64_Shdr *s)
{
    s->sh_link = UINT32_MAX;
}
static void make_nameless(Elf64_Shdr *s)
{
    s->sh_size = 0;
}

static void test_sections(void)
{
    with_section(SHT_PROGBITS, make_tls, KB_UNIMPLEMENTED);
    CHECK_HAS(err.message, "thread-local variables");
    with_section(SHT_PROGBITS, make_constructors, KB_UNIMPLEMENTED);
    CHECK_HAS(err.message, "constructors or sections of an unknown type");
    with_section(SHT_PROGBITS, make_odd, KB_INVALID_ARGUMENT);
    with_section(SHT_PROGBITS, make_far, KB_INVALID_ARGUMENT);
    with_section(SHT_NOBITS, make_huge, KB_UNIMPLEMENTED);
    CHECK_HAS(err.message, "more than 1 GB");
    with_section(SHT_NOBITS, make_full, KB_UNIMPLEMENTED);
    CHECK_HAS(err.message, "more than 1 GB");
    with_section(SHT_SYMTAB, make_linkless, KB_INVALID_ARGUMENT);
    with_section(SHT_RELA, make_far, KB_INVALID_ARGUMENT);
    with_section(SHT_STRTAB, make_nameless, KB_INVALID_ARGUMENT);
}

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
    (void)object_bytes(&p.size);
    p.bytes = copied(p.size);
    p.header = (Elf64_Ehdr *)(void *)p.bytes;
    p.sections = sections_of(p.bytes);
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

/* Expects it to be loaded or refused, and frees it. */
static void load_parts(parts *p, kb_status expected)
{
    kb_object_free(load(p->bytes, p->size, expected));
    free(p->bytes);
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
        kb_object *object = load(p.bytes, p.size, KB_OK);
        free(p.bytes);
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
    kb_object *object = load(p.bytes, p.size, KB_OK);
    free(p.bytes);
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

/* The size of an object whose zeroed variables take so many bytes; 0 if it is refused. */
static size_t size_with(uint8_t *copy, size_t size, Elf64_Shdr *zeroed, uint64_t bytes)
{
    kb_object *object = NULL;
    zeroed->sh_size = bytes;
    kb_status s = kb_object_load(copy, size, "k", object_resolve, NULL, &object, &err);
    size_t placed = object ? kb_object_size(object) : 0;
    CHECK_INT(s, object ? KB_OK : KB_UNIMPLEMENTED);
    kb_object_free(object);
    return placed;
}

/* It may have 1 GB with its last page, and not a byte more. */
static void test_largest(void)
{
    size_t size, i = 1;
    (void)object_bytes(&size);
    uint8_t *copy = copied(size);
    Elf64_Shdr *s = sections_of(copy);
    while (s[i].sh_type != SHT_NOBITS)
        i++;
    uint64_t fits = s[i].sh_size, refused = UINT64_C(1) << 30;
    while (refused - fits > 1) {
        uint64_t middle = fits + (refused - fits) / 2;
        *(size_with(copy, size, &s[i], middle) ? &fits : &refused) = middle;
    }
    CHECK_INT(size_with(copy, size, &s[i], fits), 1 << 30);
    CHECK_INT(size_with(copy, size, &s[i], refused), 0);
    CHECK_HAS(err.message, "more than 1 GB");
    free(copy);
}

/* Variables of one byte and of 24 that may lie anywhere are still apart. */
static void test_unaligned_commons(void)
{
    size_t size;
    (void)object_bytes(&size);
    uint8_t *copy = copied(size);
    const Elf64_Shdr *s = sections_of(copy);
    while (s->sh_type != SHT_SYMTAB)
        s++;
    Elf64_Sym *symbols = (Elf64_Sym *)(void *)(copy + s->sh_offset);
    for (size_t i = 0; i < s->sh_size / sizeof *symbols; i++)
        if (symbols[i].st_shndx == SHN_COMMON)
            symbols[i].st_value = 1;
    kb_object *object = load(copy, size, KB_OK);
    free(copy);
    if (!object)
        return;
    uintptr_t byte = (uintptr_t)kb_object_find(object, "common_byte");
    uintptr_t words = (uintptr_t)kb_object_find(object, "common_words");
    CHECK(byte + 1 == words || words + 24 == byte);
    kb_object_free(object);
}

/* A function that lies in a section which is not in memory, such as a table of symbols. */
static void test_a_symbol_without_memory(void)
{
    size_t size;
    (void)object_bytes(&size);
    uint8_t *copy = copied(size);
    const Elf64_Shdr *s = sections_of(copy);
    uint16_t table = 1;
    while (s[table].sh_type != SHT_SYMTAB)
        table++;
    Elf64_Sym *symbols = (Elf64_Sym *)(void *)(copy + s[table].sh_offset);
    const char *names = (const char *)copy + s[s[table].sh_link].sh_offset;
    for (size_t i = 1; i < s[table].sh_size / sizeof *symbols; i++)
        if (strcmp(names + symbols[i].st_name, "sample_sum") == 0) {
            symbols[i].st_shndx = table;
            symbols[i].st_value = 0;
        }
    kb_object *object = load(copy, size, KB_OK);
    free(copy);
    if (!object)
        return;
    CHECK_PTR(kb_object_find(object, "sample_sum"), NULL);
    CHECK(kb_object_find(object, "sample_count") != NULL);
    kb_object_free(object);
}

static void *resolve_nothing(const char *name, void *context)
{
    (void)name, (void)context;
    return NULL;
}

static void test_a_missing_symbol_is_named(void)
{
    size_t size;
    const uint8_t *bytes = object_bytes(&size);
    kb_object *object = NULL;
    CHECK_INT(kb_object_load(bytes, size, "k", resolve_nothing, NULL, &object, &err), KB_NOT_FOUND);
    CHECK_HAS(err.message, "k: the machine code uses outside");
    CHECK_HAS(err.message, "which this process does not have");
}

/* Every relocation in turn: of another type, of a symbol that is not there, behind the section. */
static void test_relocations(void)
{
    size_t size, n = 0;
    (void)object_bytes(&size);
    uint8_t *copy = copied(size);
    const Elf64_Shdr *s = sections_of(copy);
    for (size_t i = 1; i < ((Elf64_Ehdr *)(void *)copy)->e_shnum; i++) {
        if (s[i].sh_type != SHT_RELA || !(s[s[i].sh_info].sh_flags & SHF_ALLOC))
            continue;
        Elf64_Rela *r = (Elf64_Rela *)(void *)(copy + s[i].sh_offset), good = *r;
        r->r_info = ELF64_R_INFO(ELF64_R_SYM(good.r_info), 0xfff);
        kb_object *object = NULL;
        kb_status status = kb_object_load(copy, size, "k", object_resolve, NULL, &object, &err);
        n += status == KB_UNIMPLEMENTED; /* not those of tables for unwinding */
        kb_object_free(object);
        const Elf64_Rela bad[] = {
            {good.r_offset, ELF64_R_INFO(UINT32_MAX, ELF64_R_TYPE(good.r_info)), good.r_addend},
            {s[s[i].sh_info].sh_size - 1, good.r_info, good.r_addend},
            {UINT64_MAX, good.r_info, good.r_addend}};
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
            *r = bad[k];
            object = NULL;
            if (kb_object_load(copy, size, "k", object_resolve, NULL, &object, &err) == KB_OK)
                CHECK(status == KB_OK);
            kb_object_free(object);
        }
        *r = good;
    }
    CHECK(n >= 2); /* code and a table of addresses at least */
    free(copy);
}

static void test_no_memory(void)
{
    size_t size;
    const uint8_t *bytes = object_bytes(&size);
    kb_status status = KB_RESOURCE_EXHAUSTED;
    long n = 0;
    while (status != KB_OK && n < 100) {
        kb_object *object = NULL;
        kb_memory_fail_nth(++n);
        status = kb_object_load(bytes, size, "k", object_resolve, NULL, &object, &err);
        kb_memory_fail_nth(0);
        if (status != KB_OK) {
            CHECK_INT(status, KB_RESOURCE_EXHAUSTED);
            CHECK_TEXT(err.message, "k: no memory for its machine code");
        }
        kb_object_free(object);
    }
    CHECK(n > 4 && n < 100);
}

int main(void)
{
    test_code_runs();
    test_commons();
    test_a_part_is_refused();
    test_header();
    test_first_section();
    test_sections();
    test_ends_of_sections();
    test_placed();
    test_names_of_sections();
    test_order();
    test_names_of_symbols();
    test_symbols();
    test_alignments();
    test_largest();
    test_unaligned_commons();
    test_a_symbol_without_memory();
    test_a_missing_symbol_is_named();
    test_relocations();
    test_no_memory();
    return kb_test_end("test_object");
}
