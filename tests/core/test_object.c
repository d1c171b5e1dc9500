/* Proves that a relocatable object runs once it is placed, and that bytes which are no whole object
 * are refused with no byte read behind their end: every block has exactly its size, so that
 * AddressSanitizer sees one too many. */
#include "kb_test.h"
#include "object.h"
#include "object/kb_object.h"
#include "torture.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static kb_error err;

static kb_object *load(const uint8_t *bytes, size_t size, kb_status expected)
{
    kb_object *object = NULL;
    CHECK_INT(kb_object_load(bytes, size, "k", object_resolve, &object, &err), expected);
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

/* Each field that tells a relocatable object of 64 bits is wrong in turn. */
static void test_kind(void)
{
    static const struct {
        size_t at;
        uint8_t value;
    } cases[] = {
        {EI_MAG0, ELFMAG0 + 1},
        {EI_MAG1, 'e'},
        {EI_MAG2, 'l'},
        {EI_MAG3, 'f'},
        {EI_CLASS, ELFCLASS32},
        {EI_DATA, ELFDATA2MSB},
        {offsetof(Elf64_Ehdr, e_type), ET_EXEC},
        {offsetof(Elf64_Ehdr, e_type), ET_DYN},
        {offsetof(Elf64_Ehdr, e_shentsize), sizeof(Elf64_Shdr) - 1},
        {offsetof(Elf64_Ehdr, e_shentsize), sizeof(Elf64_Shdr) + 1},
    };
    size_t size;
    (void)object_bytes(&size);
    uint8_t *copy = copied(size);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t good = copy[cases[i].at];
        copy[cases[i].at] = cases[i].value;
        load(copy, size, KB_INVALID_ARGUMENT);
        copy[cases[i].at] = good;
    }
    Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)copy;
    header->e_shstrndx = header->e_shnum;
    load(copy, size, KB_INVALID_ARGUMENT);
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

/* The size of an object whose zeroed variables take so many bytes; 0 if it is refused. */
static size_t size_with(uint8_t *copy, size_t size, Elf64_Shdr *zeroed, uint64_t bytes)
{
    kb_object *object = NULL;
    zeroed->sh_size = bytes;
    kb_status s = kb_object_load(copy, size, "k", object_resolve, &object, &err);
    size_t placed = object ? kb_object_size(object) : 0;
    CHECK_INT(s, object ? KB_OK : KB_UNIMPLEMENTED);
    kb_object_free(object);
    return placed;
}

/* The section of an object that is all zeros. */
static Elf64_Shdr *zeros_of(uint8_t *copy)
{
    Elf64_Shdr *s = sections_of(copy) + 1;
    while (s->sh_type != SHT_NOBITS)
        s++;
    return s;
}

/* It may have 1 GB with its last page, and not a byte more. */
static void test_largest(void)
{
    size_t size;
    (void)object_bytes(&size);
    uint8_t *copy = copied(size);
    Elf64_Shdr *s = zeros_of(copy);
    uint64_t fits = s->sh_size, refused = UINT64_C(1) << 30;
    while (refused - fits > 1) {
        uint64_t middle = fits + (refused - fits) / 2;
        *(size_with(copy, size, s, middle) ? &fits : &refused) = middle;
    }
    CHECK_INT(size_with(copy, size, s, fits), 1 << 30);
    CHECK_INT(size_with(copy, size, s, refused), 0);
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

static void *resolve_nothing(const char *name)
{
    (void)name;
    return NULL;
}

static void test_a_missing_symbol_is_named(void)
{
    size_t size;
    const uint8_t *bytes = object_bytes(&size);
    kb_object *object = NULL;
    CHECK_INT(kb_object_load(bytes, size, "k", resolve_nothing, &object, &err), KB_NOT_FOUND);
    CHECK_HAS(err.message, "k: the machine code uses outside");
    CHECK_HAS(err.message, "which this process does not have");
}

/* Whoever places an object learns whether it is damaged, or whole and made for elsewhere. */
static void test_placed(void)
{
    static const struct {
        uint64_t features;
        kb_object_resolver *resolve;
        Elf64_Half machine, type;
        bool has_tls;
        kb_status expected;
        const char *message;
    } cases[] = {
        {0, object_resolve, 0, ET_REL, false, KB_OK, ""},
        {UINT64_C(1) << 63, object_resolve, 0, ET_REL, false, KB_FAILED_PRECONDITION,
         "k: the machine code needs what this processor does not have: feature 63 of a later "
         "kernbridge"},
        {0, resolve_nothing, 0, ET_REL, false, KB_FAILED_PRECONDITION,
         "which this process does not have"},
        {0, object_resolve, 0, ET_REL, true, KB_FAILED_PRECONDITION,
         "k: the machine code has thread-local variables, which cannot be loaded"},
        {0, object_resolve, EM_S390, ET_REL, false, KB_FAILED_PRECONDITION,
         "k: the machine code is for another processor"},
        {0, object_resolve, 0, ET_DYN, false, KB_INVALID_ARGUMENT,
         "k: the machine code is damaged"},
    };
    size_t size;
    (void)object_bytes(&size);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t *copy = copied(size);
        Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)copy;
        header->e_type = cases[i].type;
        if (cases[i].machine)
            header->e_machine = cases[i].machine;
        Elf64_Shdr *s = sections_of(copy) + 1;
        while (s->sh_type != SHT_PROGBITS || !s->sh_size)
            s++;
        if (cases[i].has_tls)
            make_tls(s);
        kb_object *object = NULL;
        err = (kb_error){.status = KB_OK};
        CHECK_INT(
            kb_object_place(cases[i].features, copy, size, "k", cases[i].resolve, &object, &err),
            cases[i].expected);
        CHECK_INT(err.status, cases[i].expected);
        CHECK_HAS(err.message, cases[i].message);
        CHECK_INT(object != NULL, cases[i].expected == KB_OK);
        kb_object_free(object);
        free(copy);
    }
    kb_object *object = NULL;
    const uint8_t *bytes = object_bytes(&size);
    torture_fail_nth(1);
    CHECK_INT(kb_object_place(0, bytes, size, "k", object_resolve, &object, &err),
              KB_RESOURCE_EXHAUSTED);
    torture_fail_nth(0);
}

/* Pages of the process, in memory or not; 0 if the system does not tell. */
static long mapped(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages;
}

/* An object that is freed, or cannot be loaded once it has memory, leaves none of it behind. */
static void test_given_back(void)
{
    enum { ROUNDS = 64, SIZE = 1 << 26 };
    size_t size;
    (void)object_bytes(&size);
    uint8_t *copy = copied(size);
    Elf64_Shdr *s = zeros_of(copy);
    s->sh_size = SIZE;
    for (int refused = 0; refused < 2; refused++) {
        const long before = mapped(), page = sysconf(_SC_PAGESIZE);
        for (int round = 0; round < ROUNDS; round++) {
            kb_object *object = NULL;
            CHECK_INT(kb_object_load(copy, size, "k", refused ? resolve_nothing : object_resolve,
                                     &object, &err),
                      refused ? KB_NOT_FOUND : KB_OK);
            kb_object_free(object);
        }
        CHECK((mapped() - before) * page < (long)ROUNDS / 2 * SIZE);
    }
    free(copy);
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
        kb_status status = kb_object_load(copy, size, "k", object_resolve, &object, &err);
        n += status == KB_UNIMPLEMENTED; /* not those of tables for unwinding */
        kb_object_free(object);
        const size_t n_symbols = s[s[i].sh_link].sh_size / sizeof(Elf64_Sym);
        const Elf64_Rela bad[] = {
            {good.r_offset, ELF64_R_INFO(UINT32_MAX, ELF64_R_TYPE(good.r_info)), good.r_addend},
            {good.r_offset, ELF64_R_INFO(n_symbols, ELF64_R_TYPE(good.r_info)), good.r_addend},
            {s[s[i].sh_info].sh_size + 1, good.r_info, good.r_addend},
            {s[s[i].sh_info].sh_size, good.r_info, good.r_addend},
            {s[s[i].sh_info].sh_size - 1, good.r_info, good.r_addend},
            {UINT64_MAX, good.r_info, good.r_addend}};
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
            *r = bad[k];
            object = NULL;
            kb_status found = kb_object_load(copy, size, "k", object_resolve, &object, &err);
            CHECK_INT(found, status == KB_OK ? KB_OK : KB_INVALID_ARGUMENT);
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
        torture_fail_nth(++n);
        status = kb_object_load(bytes, size, "k", object_resolve, &object, &err);
        torture_fail_nth(0);
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
    test_kind();
    test_first_section();
    test_sections();
    test_largest();
    test_unaligned_commons();
    test_a_symbol_without_memory();
    test_a_missing_symbol_is_named();
    test_placed();
    test_given_back();
    test_relocations();
    test_no_memory();
    return kb_test_end("test_object");
}
