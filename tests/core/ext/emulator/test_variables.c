/* Proves that code with variables has a copy of them for each device, that its calls on one device
 * come one after the other, and which libraries are taken to have variables. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif

#include "ext/emulator/kb_cuda_code.h"
#include "gpu.h"
#include "kernbridge/cuda_host.h"
#include "module/kb_source.h"
#include "torture.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static kb_error err;

/* A library of its own for each test: what is known of one is not forgotten. */
static void *open_copy(const char *from, char path[], size_t path_size)
{
    char command[1024];
    static int n;
    (void)snprintf(path, path_size, "/tmp/kb_variables_%ld_%d.so", (long)getpid(), n++);
    (void)snprintf(command, sizeof command, "cp '%s' %s", from, path);
    CHECK_INT(system(command), 0);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fprintf(stderr, "%s\n", dlerror());
    return library;
}

static kb_source_function *count_of(void *library)
{
    kb_source_function *count;
    void *found = dlsym(library, "sample_count");
    memcpy(&count, &found, sizeof count);
    return count;
}

/* The frame of a call on a device. */
static fake_frame f;

static const kb_xla_frame *on(int32_t device)
{
    fake_device_set(device);
    return &f.frame;
}

static bool is_free(kb_variables_copy *copy)
{
    if (pthread_mutex_trylock(&copy->lock) != 0)
        return false;
    pthread_mutex_unlock(&copy->lock);
    return true;
}

static kb_variables_copy *enter(kb_variables *v, const kb_xla_frame *xla)
{
    kb_variables_copy *copy = v->enter(v, xla, &err);
    if (CHECK(copy != NULL) && copy) {
        CHECK(!is_free(copy));
        pthread_mutex_unlock(&copy->lock);
        CHECK(is_free(copy));
    }
    return copy;
}

static int next_file(void)
{
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(file);
    return file;
}

/* The copies of a library, found by its code, among several. */
static void test_library(void)
{
    enum { N = 3, DEVICES = 4 };
    void *libraries[N];
    kb_variables *found[N];
    kb_variables_copy *copies[DEVICES];
    struct stat original, copied;
    char path[100];
    int file = next_file();
    for (int i = 0; i < N; i++) {
        libraries[i] = open_copy(i == 1 ? SAMPLE_WITHOUT : SAMPLE, path, sizeof path);
        if (!CHECK(libraries[i] != NULL))
            return;
        CHECK_INT(kb_cuda_host_connect(libraries[i], &err), KB_OK);
        (void)unlink(path);
        CHECK_INT(kb_cuda_host_connect(libraries[i], &err), KB_OK); /* is not looked at again */
    }
    CHECK_INT(next_file(), file);
    CHECK_INT(stat(SAMPLE, &original), 0);
    for (int i = 0; i < N; i++) {
        found[i] = kb_variables_of((const void *)(uintptr_t)count_of(libraries[i]));
        CHECK_INT(found[i] != NULL, i != 1);
        CHECK_PTR(kb_variables_of(dlsym(libraries[i], "kb_cuda_host_slot")), found[i]);
        CHECK_PTR(kb_source_variables(count_of(libraries[i])), found[i]);
    }
    CHECK(found[0] != found[2]);
    CHECK_PTR(kb_variables_of(&err), NULL);
    void *on_heap = malloc(1);
    CHECK_PTR(kb_variables_of(on_heap), NULL);
    free(on_heap);
    for (int k = 0; k < 2; k++) /* the first device has the code itself */
        for (int32_t device = 0; device < DEVICES; device++) {
            kb_variables_copy *copy = enter(found[0], on(device));
            CHECK(k == 0 || copy == copies[device]);
            copies[device] = copy;
            CHECK_INT(copy->device, device);
            CHECK_INT(copy->offset == 0, device == 0);
            for (int32_t other = 0; other < device; other++)
                CHECK(copy->offset != copies[other]->offset);
            kb_cuda_host_slot_type *slot = dlsym(libraries[0], "kb_cuda_host_slot");
            CHECK(slot->functions != NULL);
            CHECK_PTR(KB_MOVED(slot, copy)->functions, slot->functions);
            CHECK_INT(KB_MOVED(slot, copy)->version, KB_CUDA_HOST_VERSION);
            Dl_info about;
            if (device && CHECK(dladdr(KB_MOVED(slot, copy), &about) != 0)) {
                CHECK_INT(stat(about.dli_fname, &copied), 0);
                CHECK_INT(copied.st_size, original.st_size);
            }
        }
    /* Where XLA does not say which device it is, it is the first. */
    CHECK_PTR(enter(found[0], NULL), copies[0]);
    CHECK_PTR(enter(found[0], on(-2)), copies[0]);
    CHECK_INT(fake_errors_alive(), 0);
    fake_frame older;
    fake_frame_init(&older, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_device_set(2);
    CHECK_PTR(enter(found[0], &older.frame), copies[0]);
    fake_frame_free(&older);
    /* The first device that calls has the code itself, whichever it is; and one may be used while
     * another is. */
    kb_variables_copy *held = found[2]->enter(found[2], on(3), &err);
    if (!CHECK(held != NULL) || !held)
        return;
    CHECK_INT(held->device, 3);
    CHECK_INT(held->offset, 0);
    CHECK(enter(found[2], on(0))->offset != 0);
    CHECK(!is_free(held));
    pthread_mutex_unlock(&held->lock);
    /* What there is no memory for is an error, and is made later. */
    torture_taken before = torture_count();
    for (int n = 1; n < 3; n++) {
        torture_arm(n == 1 ? TORTURE_MEMORY : TORTURE_FILE, 1, true);
        CHECK_PTR(found[0]->enter(found[0], on(9), &err), NULL);
        torture_disarm();
        CHECK_HAS(err.message, n == 1 ? "no memory for the variables of a device" : "memfd_create");
        CHECK_INT(err.status, n == 1 ? KB_RESOURCE_EXHAUSTED : KB_FAILED_PRECONDITION);
        CHECK(is_free(copies[0]));
    }
    CHECK_INT(torture_count().blocks, before.blocks);
    CHECK_INT(enter(found[0], on(9))->device, 9);
}

/* Calls on devices, each of which counts. */
static void test_calls(void)
{
    static int32_t out[1];
    char path[100];
    void *library = open_copy(SAMPLE, path, sizeof path);
    if (!CHECK(library != NULL) || !CHECK_INT(kb_cuda_host_connect(library, &err), KB_OK))
        return;
    (void)unlink(path);
    kb_source_step step = {.run = count_of(library)};
    void *last_error = dlsym(library, "sample_last_error");
    memcpy(&step.last_error, &last_error, sizeof last_error);
    kb_kernel kernel = {.name = "op1", .source = ""};
    kb_step plan;
    CHECK_INT(kb_source_plan(&step, NULL, &kernel, &plan, &err), KB_OK);
    gpu_call c;
    gpu_call_init(&c, 1);
    c.f.frame.api = fake_api(9);
    gpu_ret(&c, KB_DTYPE_S32, 0, 0, NULL, out);
    for (int32_t i = 1; i < 4; i++)
        for (int32_t device = 0; device < 3; device++) {
            fake_device_set(device);
            CHECK_INT(gpu_run(&c, kernel.plan.steps, kernel.plan.n_steps),
                      i == 3 ? KB_INTERNAL : KB_OK);
            CHECK_INT(out[0], i);
            if (i == 3)
                CHECK_HAS(c.err.message, "a launch failed with CUDA runtime error 3, an error");
        }
    fake_device_set(0);
    gpu_call_free(&c);
    kernel.free_owner(kernel.owner);
}

/* Code that is not a library: its maker finds the place, or there is none. */
static const char *made_of;
static void *made_at;
static kb_status made;

static kb_status make(const kb_xla_bytes *bytes, void **place, kb_error *e)
{
    made_of = bytes->size == 6 && memcmp(bytes->data, "bytes", 6) == 0 ? bytes->data : NULL;
    *place = made_at;
    return made == KB_OK ? KB_OK : kb_error_set(e, made, "not made");
}

static void test_maker(void)
{
    static char first[64], second[64];
    char bytes[] = "bytes";
    torture_fail_nth(1);
    CHECK_PTR(kb_variables_new(first, &(kb_xla_bytes){bytes, sizeof bytes}, make), NULL);
    torture_fail_nth(0);
    kb_variables *v = kb_variables_new(first, &(kb_xla_bytes){bytes, sizeof bytes}, make);
    if (!CHECK(v != NULL) || !v)
        return;
    memset(bytes, 0, sizeof bytes);
    made_at = second;
    CHECK_INT(enter(v, on(5))->offset, 0);
    CHECK_PTR(made_of, NULL); /* nothing was made */
    CHECK_INT(enter(v, on(6))->offset, second - first);
    CHECK(made_of != NULL && made_of != bytes);
    for (size_t i = 0; i < sizeof second; i++)
        CHECK_INT(second[i], 0);
    made_at = NULL;
    CHECK_INT(enter(v, on(7))->offset, 0);
    CHECK_PTR(kb_variables_of(second), v);
    static const char *on_heap; /* code that lies in no library is nobody's */
    on_heap = malloc(1);
    CHECK(kb_variables_new(on_heap, &(kb_xla_bytes){bytes, sizeof bytes}, make) != NULL);
    CHECK_PTR(kb_variables_of(second), v);
    CHECK_PTR(kb_variables_of(on_heap), NULL);
    made = KB_NOT_FOUND;
    CHECK_PTR(v->enter(v, on(8), &err), NULL);
    CHECK_TEXT(err.message, "not made");
    CHECK_INT(enter(v, on(6))->offset, second - first);
}

/* A file that stands where a library was opened: whether it has variables is told by whether
 * memory is asked for. */
typedef struct image {
    Elf64_Ehdr head;
    Elf64_Phdr before_segments, segments[3], behind_segments;
    Elf64_Shdr before_sections, sections[4], behind_sections;
    Elf64_Sym symbols[4];
    char names[200];
} image;

static char library_path[100];
static const void *slot;

static kb_status note(const image *file)
{
    (void)unlink(library_path);
    int to = open(library_path, O_WRONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    CHECK_INT(write(to, file, sizeof *file), sizeof *file);
    close(to);
    torture_fail_nth(1);
    kb_status s = kb_variables_note(slot, &err);
    torture_fail_nth(0);
    (void)unlink(library_path);
    CHECK(s == KB_OK || s == KB_RESOURCE_EXHAUSTED || s == KB_NOT_FOUND);
    return s;
}

enum { NAMES = 2, TABLE = 3, DATA = 1, RELRO = 2 };

/* The first symbol is none, then come a function, a constant and what is asked about. */
static void init_image(image *i, const char *name)
{
    *i = (image){.head = {.e_shoff = offsetof(image, sections),
                          .e_shnum = 4,
                          .e_phoff = offsetof(image, segments),
                          .e_phnum = 3}};
    i->segments[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_vaddr = 0, .p_memsz = 0x100};
    i->segments[1] = (Elf64_Phdr){.p_type = PT_LOAD, .p_vaddr = 0x1000, .p_memsz = 0x1000};
    i->segments[RELRO] = (Elf64_Phdr){.p_type = PT_GNU_RELRO, .p_vaddr = 0x1000, .p_memsz = 0x200};
    i->sections[DATA] = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_flags = SHF_WRITE | SHF_ALLOC};
    i->sections[NAMES] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = offsetof(image, names)};
    i->sections[TABLE] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                      .sh_offset = offsetof(image, symbols),
                                      .sh_size = sizeof i->symbols,
                                      .sh_link = NAMES};
    (void)snprintf(i->names + 1, sizeof i->names - 1, "%s", name);
    const unsigned char object = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT);
    i->symbols[1] = (Elf64_Sym){.st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
                                .st_shndx = DATA,
                                .st_size = 8,
                                .st_value = 0x1800,
                                .st_name = 1};
    i->symbols[2] = (Elf64_Sym){
        .st_info = object, .st_shndx = DATA, .st_size = 8, .st_value = 0x11F8, .st_name = 1};
    i->symbols[3] = (Elf64_Sym){
        .st_info = object, .st_shndx = DATA, .st_size = 8, .st_value = 0x1200, .st_name = 1};
}

static void test_symbols(void)
{
    static const char *const ours[] = {
        "kb_x",           "DW.ref.__gxx_personality_v0", "completed.0", "__dso_handle",
        "_ZStL8__ioinit", "_ZN10kernbridge5thingE",      "_kb_slot_1",  "x_kb_start_f",
    };
    static const char *const others[] = {"counter", "akb_",       "DW.re",       "complete.0",
                                         "_dso",    "_ZSt4other", "kernbridge5", ""};
    const kb_status yes = KB_RESOURCE_EXHAUSTED;
    image i;
    for (size_t k = 0; k < sizeof ours / sizeof *ours; k++) {
        init_image(&i, ours[k]);
        CHECK_INT(note(&i), KB_OK);
        init_image(&i, others[k]);
        CHECK_INT(note(&i), yes);
    }
    init_image(&i, "counter");
    i.symbols[3].st_value--; /* which is made read-only */
    CHECK_INT(note(&i), KB_OK);
    i.symbols[3].st_value = 0x1000;
    CHECK_INT(note(&i), KB_OK);
    i.symbols[3].st_value--;
    CHECK_INT(note(&i), yes);
    init_image(&i, "counter");
    i.symbols[3].st_size = 0;
    CHECK_INT(note(&i), KB_OK);
    i.symbols[3].st_size = 1;
    CHECK_INT(note(&i), yes);
    i.symbols[3].st_info = ELF64_ST_INFO(STB_LOCAL, STT_TLS);
    CHECK_INT(note(&i), KB_OK);
    init_image(&i, "counter");
    i.symbols[3].st_shndx = SHN_ABS;
    CHECK_INT(note(&i), KB_OK);
    i.symbols[3].st_shndx = 4; /* the first that there is not */
    i.behind_sections.sh_flags = SHF_WRITE;
    CHECK_INT(note(&i), KB_OK);
    init_image(&i, "counter");
    i.sections[DATA].sh_flags = SHF_ALLOC;
    CHECK_INT(note(&i), KB_OK);
    init_image(&i, "counter"); /* the first and the last symbol count */
    i.symbols[0] = i.symbols[3];
    i.sections[TABLE].sh_size = sizeof *i.symbols;
    CHECK_INT(note(&i), yes);
    i.sections[TABLE].sh_size = 0;
    CHECK_INT(note(&i), KB_OK);
    init_image(&i, "counter");
    i.sections[TABLE].sh_size = 3 * sizeof *i.symbols;
    CHECK_INT(note(&i), KB_OK);
}

/* The tables are those of the file, from the first to the last. */
static void test_tables(void)
{
    const kb_status yes = KB_RESOURCE_EXHAUSTED;
    const Elf64_Shdr none = {.sh_type = SHT_SYMTAB};
    image i;
    init_image(&i, "counter");
    i.behind_sections = i.before_sections = none;
    CHECK_INT(note(&i), yes);
    i.sections[0] = i.sections[TABLE]; /* the first, and the only one */
    i.sections[TABLE] = (Elf64_Shdr){.sh_type = SHT_NOTE};
    i.sections[0].sh_size = 3 * sizeof *i.symbols;
    CHECK_INT(note(&i), KB_OK);
    i.sections[0] = (Elf64_Shdr){.sh_type = SHT_NOTE}; /* none: it was stripped */
    CHECK_INT(note(&i), yes);
    init_image(&i, "counter");
    i.segments[0] = i.segments[RELRO];
    i.segments[RELRO] = i.segments[1];
    i.behind_segments = i.before_segments =
        (Elf64_Phdr){.p_type = PT_GNU_RELRO, .p_vaddr = 0x1000, .p_memsz = 0x1000};
    CHECK_INT(note(&i), yes);
    i.symbols[3].st_value = 0x1180;
    CHECK_INT(note(&i), KB_OK);
    i.segments[0] = i.segments[1]; /* none */
    i.segments[0].p_memsz = 0x10;
    CHECK_INT(note(&i), yes);
}

static void test_notes(void)
{
    void *library = open_copy(SAMPLE, library_path, sizeof library_path);
    slot = library ? dlsym(library, "kb_cuda_host_slot") : NULL;
    if (!CHECK(slot != NULL))
        return;
    int file = next_file(), input = dup(STDIN_FILENO);
    long mappings = torture_count().mappings;
    test_symbols();
    test_tables();
    CHECK_INT(torture_count().mappings, mappings);
    CHECK_PTR(kb_variables_of(slot), NULL);
    /* There is no such file, or it is empty, or the code is in none. */
    CHECK_INT(kb_variables_note(slot, &err), KB_NOT_FOUND);
    CHECK_TEXT(err.message, "the library cannot be read");
    close(open(library_path, O_WRONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
    CHECK_INT(kb_variables_note(slot, &err), KB_NOT_FOUND);
    void *on_heap = malloc(1);
    CHECK_INT(kb_variables_note(on_heap, &err), KB_NOT_FOUND);
    free(on_heap);
    torture_arm(TORTURE_MAPPING, 1, true);
    CHECK_INT(kb_variables_note(slot, &err), KB_NOT_FOUND);
    torture_disarm();
    image i;
    init_image(&i, "counter");
    for (int n = 1; n < 4; n++) { /* it is not opened, has no end, or does not say where that is */
        torture_arm(TORTURE_FILE, n, false);
        CHECK_INT(note(&i), KB_NOT_FOUND);
        CHECK_TEXT(torture_disarm(), n == 1 ? "fopen" : n == 2 ? "fseek" : "ftell");
    }
    if (input >= 0)
        CHECK(fcntl(STDIN_FILENO, F_GETFD) >= 0);
    /* A file may have the number 0. */
    init_image(&i, "counter");
    close(STDIN_FILENO);
    CHECK_INT(note(&i), KB_RESOURCE_EXHAUSTED);
    CHECK(fcntl(STDIN_FILENO, F_GETFD) < 0);
    if (input >= 0) {
        dup2(input, STDIN_FILENO);
        close(input);
        CHECK_INT(next_file(), file);
    }
}

int main(void)
{
    gpu_start();
    fake_frame_init(&f, fake_api(9), KB_XLA_STAGE_EXECUTE);
    test_notes();
    test_library();
    test_calls();
    test_maker();
    fake_frame_free(&f);
    return kb_test_end("test_variables");
}
