/* Proves that a CUDA kernel for the CPU that comes as machine code runs, and that bytes which are
 * not whole, not of this kernel or not for this machine are refused with a reason. */
#include "cuda_code.h"
#include "fake_xla.h"
#include "kb_test.h"
#include "object/kb_cpu.h"
#include "sealed.h"
#include "torture.h"

#include <elf.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif
#include <stdlib.h>

static const cuda_code_text GOOD = {.abi = KB_HOSTCUDA_ABI, .shared = 48, .stack = 96};
static kb_error err;

/* A digest of its own for each test: known code is not forgotten. */
static const char *new_digest(void)
{
    static char digest[KB_HOSTCUDA_DIGEST + 1];
    static int n;
    snprintf(digest, sizeof digest, "%064d", ++n);
    return digest;
}

static kb_status load(const cuda_code_text *t, const char *digest)
{
    size_t size;
    uint8_t *bytes = cuda_code_write(t, digest, &size);
    kb_status s = kb_cuda_code_load(digest, bytes, size, "op", &err);
    free(bytes); /* before anybody runs the code */
    return s;
}

static void test_runs(void)
{
    const char *digest = new_digest();
    int64_t out[6] = {0}, *at = out;
    void *parameters[] = {&at};
    const uint32_t sizes[6] = {3, 2, 1, 1, 1, 1};
    if (!CHECK_INT(load(&GOOD, digest), KB_OK))
        return;
    const kb_hostcuda_code *code = kb_hostcuda_find(digest);
    CHECK_INT(code->threads.shared, 48);
    CHECK_INT(code->threads.stack, 96);
    CHECK(code->concurrent);
    CHECK(!code->cooperative && !code->threads.run && !code->threads.checked);
    CHECK_INT(kb_hostcuda_launch(digest, sizes, 0, parameters, NULL, &err), KB_OK);
    for (int i = 0; i < 6; i++)
        CHECK_INT(out[i], i);
}

/* What a test changes in the sample. */
typedef struct change {
    const char *name; /* of its only function, at most as long */
    bool prints;      /* it calls kb_print in place of sqrt */
    bool has_variable;
    bool has_fibre; /* it is defined by that name, too */
} change;

static Elf64_Shdr section(const uint8_t *object, size_t i)
{
    Elf64_Ehdr header;
    Elf64_Shdr found;
    memcpy(&header, object, sizeof header);
    memcpy(&found, object + header.e_shoff + i * sizeof found, sizeof found);
    return found;
}

/* The name of the sample's source, which nothing needs, becomes that of kb_print, or the second one
 * of its function. */
static void change_symbols(uint8_t *object, const change *c)
{
    size_t i = 1;
    while (section(object, i).sh_type != SHT_SYMTAB)
        i++;
    const Elf64_Shdr table = section(object, i);
    char *names = (char *)object + section(object, table.sh_link).sh_offset;
    Elf64_Word of_source = 0;
    uint8_t *source = NULL;
    for (size_t at = 0; at < table.sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym s;
        uint8_t *place = object + table.sh_offset + at;
        memcpy(&s, place, sizeof s);
        if (ELF64_ST_TYPE(s.st_info) == STT_FILE) {
            of_source = s.st_name;
            source = place;
            strcpy(names + of_source, c->has_fibre ? "kb_fibre" : "kb_print");
            if (c->has_variable)
                s.st_shndx = SHN_COMMON, s.st_size = s.st_value = 8;
        } else if (strcmp(names + s.st_name, "sqrt") == 0 && c->prints) {
            s.st_name = of_source;
        } else if (strcmp(names + s.st_name, "kb_blocks") == 0) {
            if (c->has_fibre && source) {
                Elf64_Sym fibre = s;
                fibre.st_name = of_source;
                memcpy(source, &fibre, sizeof fibre);
            }
            strcpy(names + s.st_name, c->name);
        }
        memcpy(place, &s, sizeof s);
    }
}

static kb_status load_changed(const cuda_code_text *t, const change *c, const char *digest)
{
    size_t size;
    uint8_t *bytes = cuda_code_write(t, digest, &size);
    change_symbols(bytes + SEALED_BODY + sizeof t->features + 3 * sizeof(uint32_t), c);
    sealed_sign(bytes, size, digest, KB_HOSTCUDA_DIGEST);
    kb_status s = kb_cuda_code_load(digest, bytes, size, "op", &err);
    free(bytes);
    return s;
}

/* Blocks may run side by side unless they share variables or an output. */
static void test_concurrent(void)
{
    for (int i = 0; i < 4; i++) {
        const char *digest = new_digest();
        const change c = {.name = "kb_blocks", .prints = i & 1, .has_variable = i >> 1};
        if (!CHECK_INT(load_changed(&GOOD, &c, digest), KB_OK))
            continue;
        CHECK_INT(kb_hostcuda_find(digest)->concurrent, i == 0);
    }
}

/* What is placed for a device stays for the life of the process, and nobody keeps its address. */
static void keep_leaks(bool keep)
{
#ifdef __SANITIZE_ADDRESS__
    if (keep)
        __lsan_disable();
    else
        __lsan_enable();
#else
    (void)keep;
#endif
}

/* Code with a variable is placed once more for each other device. */
static void test_copies(void)
{
    const char *digest = new_digest();
    const change c = {.name = "kb_blocks", .has_variable = true};
    const uint32_t sizes[6] = {3, 2, 1, 1, 1, 1};
    fake_frame f;
    if (!CHECK_INT(load_changed(&GOOD, &c, digest), KB_OK))
        return;
    const kb_hostcuda_code *code = kb_hostcuda_find(digest);
    kb_variables *v = code->variables;
    fake_frame_init(&f, fake_api(9), KB_XLA_STAGE_EXECUTE);
    if (!CHECK(v != NULL))
        return;
    long before = torture_count().mappings;
    for (int32_t device = 0; device < 3; device++) {
        int64_t out[6] = {0}, *at = out;
        void *parameters[] = {&at};
        fake_device_set(device);
        torture_arm(TORTURE_MAPPING, 1, true);
        kb_status s = kb_hostcuda_launch(digest, sizes, 0, parameters, &f.frame, &err);
        torture_disarm();
        CHECK_INT(s, device ? KB_INTERNAL : KB_OK);
        if (device)
            CHECK_HAS(err.message, "a kernel of another device: ");
        keep_leaks(true);
        CHECK_INT(kb_hostcuda_launch(digest, sizes, 0, parameters, &f.frame, &err), KB_OK);
        keep_leaks(false);
        for (int i = 0; i < 6; i++)
            CHECK_INT(out[i], i);
        kb_variables_copy *copy = v->enter(v, &f.frame, &err);
        if (CHECK(copy != NULL) && copy) {
            pthread_mutex_unlock(&copy->lock);
            CHECK_INT(copy->offset != 0, device != 0);
            const void *moved = (const char *)(uintptr_t)code->blocks + copy->offset;
            CHECK(memcmp(moved, (const void *)(uintptr_t)code->blocks, 8) == 0);
        }
        CHECK_INT(torture_count().mappings > before, device != 0);
        before = torture_count().mappings;
    }
    fake_device_set(0);
    fake_frame_free(&f);
}

/* So is code whose threads wait. */
static void test_copies_of_fibres(void)
{
    const char *digest = new_digest();
    const change c = {.name = "kb_fibre", .has_variable = true};
    cuda_code_text t = GOOD;
    fake_frame f;
    t.form = 1;
    if (!CHECK_INT(load_changed(&t, &c, digest), KB_OK))
        return;
    const kb_hostcuda_code *code = kb_hostcuda_find(digest);
    fake_frame_init(&f, fake_api(9), KB_XLA_STAGE_EXECUTE);
    for (int32_t device = 0; device < 2; device++) {
        fake_device_set(device);
        keep_leaks(true);
        kb_variables_copy *copy = code->variables->enter(code->variables, &f.frame, &err);
        keep_leaks(false);
        if (!CHECK(copy != NULL) || !copy)
            continue;
        pthread_mutex_unlock(&copy->lock);
        CHECK_INT(copy->offset != 0, device != 0);
        const void *run = (const void *)(uintptr_t)code->threads.run;
        CHECK(memcmp((const char *)run + copy->offset, run, 8) == 0);
    }
    fake_device_set(0);
    fake_frame_free(&f);
}

/* Without memory for its variables, code is refused: devices would share them. */
static void test_no_memory_for_variables(void)
{
    const change c = {.name = "kb_blocks", .has_variable = true};
    kb_status s = KB_RESOURCE_EXHAUSTED;
    for (long n = 1; s == KB_RESOURCE_EXHAUSTED; n++) {
        const char *digest = new_digest();
        torture_fail_nth(n);
        s = load_changed(&GOOD, &c, digest);
        torture_fail_nth(0);
        const kb_hostcuda_code *code = kb_hostcuda_find(digest);
        CHECK(s == KB_OK ? code && code->variables : !code);
    }
    CHECK_INT(s, KB_OK);
}

/* Of each form: what it must define, and what is known of it then. */
static void test_forms(void)
{
    enum { BLOCKS, THREADS, COOPERATIVE, FORMS };
    for (uint32_t form = BLOCKS; form < FORMS; form++)
        for (int fibre = 0; fibre < 3; fibre++) { /* 2: neither */
            static const char *const names[] = {"kb_blocks", "kb_fibre", "kb_other"};
            const char *digest = new_digest();
            const change c = {.name = names[fibre]};
            cuda_code_text t = GOOD;
            t.form = form;
            bool fits = fibre == (form != BLOCKS);
            if (!CHECK_INT(load_changed(&t, &c, digest), fits ? KB_OK : KB_INVALID_ARGUMENT))
                continue;
            CHECK_INT((kb_hostcuda_find(digest) != NULL), fits);
            if (!fits) {
                CHECK_TEXT(err.message,
                           "op: the machine code of a kernel for the CPU is damaged, or belongs to "
                           "another kernel: the check of what it defines failed");
                continue;
            }
            const kb_hostcuda_code *code = kb_hostcuda_find(digest);
            CHECK_INT(code->blocks != NULL, !fibre);
            CHECK_INT(code->threads.run != NULL, fibre);
            CHECK_INT(code->threads.shared, 48);
            CHECK_INT(code->threads.stack, 96);
            CHECK_PTR(code->threads.checked, NULL);
            CHECK_INT(code->cooperative, form == COOPERATIVE);
        }
}

/* Code that defines what two forms need is of neither. */
static void test_two_forms(void)
{
    const change c = {.name = "kb_blocks", .has_fibre = true};
    for (uint32_t form = 0; form < 3; form++) {
        const char *digest = new_digest();
        cuda_code_text t = GOOD;
        t.form = form;
        CHECK_INT(load_changed(&t, &c, digest), KB_INVALID_ARGUMENT);
        CHECK_HAS(err.message, "the check of what it defines failed");
        CHECK(!kb_hostcuda_find(digest));
    }
}

static void damaged_is_refused(const uint8_t *bytes, size_t size, const void *digest)
{
    CHECK_INT(kb_cuda_code_load(digest, bytes, size, "op", &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "op: the machine code");
    CHECK_HAS(err.message, "is damaged");
}

static void changed_is_refused(const uint8_t *bytes, size_t size, const void *digest)
{
    damaged_is_refused(bytes, size, digest);
    CHECK_HAS(err.message, "the check of its digest failed");
}

static void test_a_part_is_refused(void)
{
    const char *digest = new_digest();
    size_t size;
    uint8_t *bytes = cuda_code_write(&GOOD, digest, &size);
    sealed_each_part(bytes, size, 37, digest, KB_HOSTCUDA_DIGEST, damaged_is_refused);
    CHECK(!kb_hostcuda_find(digest));
    free(bytes);
}

static void test_digest(void)
{
    const char *digest = new_digest();
    size_t size;
    uint8_t *bytes = cuda_code_write(&GOOD, digest, &size);
    sealed_each_flip(bytes, size, 101, digest, changed_is_refused);
    CHECK_INT(kb_cuda_code_load(new_digest(), bytes, size, "op", &err), KB_INVALID_ARGUMENT);
    bytes[0] = 'X';
    CHECK_INT(kb_cuda_code_load(digest, bytes, size, "op", &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "its first bytes");
    free(bytes);
}

static void test_wrong_fields(void)
{
    const char *digest = new_digest();
    cuda_code_text t = GOOD;
    t.abi++;
    CHECK_INT(load(&t, digest), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "op: the program's machine code for the CPU was generated for ABI 2 of "
                           "kernbridge, and this kernbridge has ABI 1");
    t = GOOD, t.form = 3;
    CHECK_INT(load(&t, digest), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "the check of its beginning failed");
    for (uint32_t form = 1; form < 3; form++) {
        t = GOOD, t.form = form;
        CHECK_INT(load(&t, digest), KB_INVALID_ARGUMENT);
        CHECK_HAS(err.message, "the check of what it defines failed");
    }
    t = GOOD, t.features = INT64_MIN;
    CHECK_INT(load(&t, digest), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "op: the machine code needs what this processor does not have");
    t = GOOD, t.features = (int64_t)kb_cpu_features();
    CHECK_INT(load(&t, digest), KB_OK);
}

/* The tables of hostcuda, Numba's runtime and the C library's mathematics, and not all that the
 * process has. */
static void test_names(void)
{
    const kb_symbol *tables[] = {kb_hostcuda_symbols, kb_libdevice_symbols};
    for (int i = 0; i < 2; i++)
        for (const kb_symbol *s = tables[i]; s->name; s++)
            CHECK_INT((intptr_t)kb_cuda_code_find(s->name), (intptr_t)s->address);
    CHECK(kb_cuda_code_find("kb_barrier") != NULL);
    CHECK(kb_cuda_code_find("kb_nv_erfinv") != NULL);
    CHECK(kb_cuda_code_find("remquof") != NULL);
    CHECK(kb_cuda_code_find("memset") != NULL);
    CHECK(kb_cuda_code_find("NRT_MemInfo_alloc_aligned") != NULL);
    CHECK(kb_cuda_code_find("__extendhfsf2") != NULL);
    CHECK(kb_cuda_code_find("numba_attempt_nocopy_reshape") == NULL);
    CHECK(kb_cuda_code_find("NRT_unknown") == NULL);
    CHECK(kb_cuda_code_find("kb_PyBool_FromLong") == NULL);
    CHECK(kb_cuda_code_find("system") == NULL);
}

static void test_what_it_defines(void)
{
    const char *digest = new_digest(), *name;
    size_t size, at = 0, n = 0;
    void *address;
    const kb_object *object = NULL;
    uint8_t *bytes = cuda_code_write(&GOOD, digest, &size);
    CHECK_INT(kb_cuda_code_load(digest, bytes, size, "op", &err), KB_OK);
    object = kb_hostcuda_find(digest)->owner;
    while (kb_object_next(object, &at, &name, &address)) {
        n++;
        CHECK_TEXT(name, "kb_blocks");
        CHECK(address == kb_object_find(object, "kb_blocks"));
    }
    CHECK_INT(n, 1);
    free(bytes);
}

int main(void)
{
    test_runs();
    test_concurrent();
    test_copies();
    test_copies_of_fibres();
    test_no_memory_for_variables();
    test_forms();
    test_two_forms();
    test_a_part_is_refused();
    test_digest();
    test_wrong_fields();
    test_names();
    test_what_it_defines();
    return kb_test_end("test_cuda_code");
}
