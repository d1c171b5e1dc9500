/* Owns the opening of libnvrtc and one compilation with it; and the replacement of the function
 * `signal` that libnvrtc calls: its slot in the table by which the library calls functions of
 * others. The symbols of a library are bound when it is opened, to those of the C library that the
 * process has, and blocking the signals would lose them, since NVRTC ignores SIGINT for a moment,
 * which discards what waits. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr, dladdr */
#endif
#include "cuda/kb_nvrtc.h"

#include "core/kb_memory.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct nvrtc_program nvrtc_program;

#define NVRTC_LIST(X)                                                                              \
    X(nvrtcCreateProgram, (nvrtc_program * *program, const char *source, const char *name,         \
                           int n_headers, const char *const *headers, const char *const *names))   \
    X(nvrtcDestroyProgram, (nvrtc_program * *program))                                             \
    X(nvrtcAddNameExpression, (nvrtc_program * program, const char *name))                         \
    X(nvrtcCompileProgram, (nvrtc_program * program, int n_options, const char *const *options))   \
    X(nvrtcGetLoweredName, (nvrtc_program * program, const char *name, const char **lowered))      \
    X(nvrtcGetProgramLogSize, (nvrtc_program * program, size_t * size))                            \
    X(nvrtcGetProgramLog, (nvrtc_program * program, char *log))                                    \
    X(nvrtcGetCUBINSize, (nvrtc_program * program, size_t * size))                                 \
    X(nvrtcGetCUBIN, (nvrtc_program * program, char *cubin))                                       \
    X(nvrtcGetPTXSize, (nvrtc_program * program, size_t * size))                                   \
    X(nvrtcGetPTX, (nvrtc_program * program, char *ptx))

enum { NVRTC_SUCCESS = 0, NVRTC_COMPILATION = 6, NVRTC_NAME_INVALID = 9 };

typedef struct nvrtc {
    struct nvrtc *next;
    char *library;
    const char *(*nvrtcGetErrorString)(int code);
#define NVRTC_MEMBER(name, parameters) int(*name) parameters; // NOLINT: a declaration
    NVRTC_LIST(NVRTC_MEMBER)
#undef NVRTC_MEMBER
} nvrtc;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nvrtc *opened; /* under the lock */

static bool find(void *library, const char *name, void *slot)
{
    void *symbol = dlsym(library, name);
    memcpy(slot, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool fill(nvrtc *rtc, void *library)
{
    bool all = find(library, "nvrtcGetErrorString", &rtc->nvrtcGetErrorString);
#define NVRTC_FIND(name, parameters) all = find(library, #name, &rtc->name) && all;
    NVRTC_LIST(NVRTC_FIND)
#undef NVRTC_FIND
    return all;
}

static nvrtc *open_under_lock(const char *path, kb_error *err)
{
    for (nvrtc *rtc = opened; rtc; rtc = rtc->next)
        if (strcmp(rtc->library, path) == 0)
            return rtc;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        kb_error_set(err, KB_NOT_FOUND, "%s", dlerror());
        return NULL;
    }
    size_t size = strlen(path) + 1;
    nvrtc *rtc = kb_calloc(1, sizeof *rtc + size);
    if (!rtc || !fill(rtc, library)) {
        kb_error_set(err, rtc ? KB_NOT_FOUND : KB_RESOURCE_EXHAUSTED,
                     rtc ? "%s lacks functions of NVRTC 11.1" : "no memory to open %s", path);
        kb_free(rtc);
        return NULL;
    }
    const void *inside;
    memcpy(&inside, &rtc->nvrtcCreateProgram, sizeof inside);
    kb_nvrtc_keep_signals(inside);
    rtc->library = memcpy(rtc + 1, path, size);
    rtc->next = opened;
    return opened = rtc;
}

static nvrtc *open_library(const char *path, kb_error *err)
{
    pthread_mutex_lock(&lock);
    nvrtc *rtc = open_under_lock(path, err);
    pthread_mutex_unlock(&lock);
    return rtc;
}

static kb_status fail(const nvrtc *rtc, int code, const char *call, kb_error *err)
{
    return kb_error_set(err, code == NVRTC_COMPILATION ? KB_INVALID_ARGUMENT : KB_INTERNAL,
                        "%s: %s", call, rtc->nvrtcGetErrorString(code));
}

typedef int get_size(nvrtc_program *program, size_t *size);
typedef int get_bytes(nvrtc_program *program, char *bytes);

/* Takes a text or an image out of a program; an empty one is none. */
static kb_status take(const nvrtc *rtc, nvrtc_program *program, get_size *size_of, get_bytes *copy,
                      char **bytes, size_t *size, const char *call, kb_error *err)
{
    int code = size_of(program, size);
    if (code != NVRTC_SUCCESS)
        return fail(rtc, code, call, err);
    if (*size == 0)
        return KB_OK;
    *bytes = kb_calloc(1, *size + 1);
    if (!*bytes)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "%s: no memory for %zu bytes", call, *size);
    code = copy(program, *bytes);
    return code == NVRTC_SUCCESS ? KB_OK : fail(rtc, code, call, err);
}

/* Copies the lowered name of a name expression. */
static kb_status take_name(const nvrtc *rtc, nvrtc_program *program, const char *name, char **copy,
                           kb_error *err)
{
    const char *lowered = NULL;
    int code = rtc->nvrtcGetLoweredName(program, name, &lowered);
    if (code != NVRTC_SUCCESS)
        return fail(rtc, code, "nvrtcGetLoweredName", err);
    size_t size = strlen(lowered) + 1;
    *copy = kb_calloc(1, size);
    if (!*copy)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for the name of a kernel");
    memcpy(*copy, lowered, size);
    return KB_OK;
}

static kb_status take_results(const nvrtc *rtc, nvrtc_program *program,
                              const kb_nvrtc_request *request, kb_nvrtc_result *result,
                              kb_error *err)
{
    size_t size;
    kb_status s = take_name(rtc, program, request->name, &result->entry, err);
    if (s == KB_OK && request->probe)
        s = take_name(rtc, program, request->probe, &result->probe, err);
    if (s == KB_OK)
        s = take(rtc, program, rtc->nvrtcGetCUBINSize, rtc->nvrtcGetCUBIN, &result->cubin,
                 &result->cubin_size, "nvrtcGetCUBIN", err);
    if (s == KB_OK)
        s = take(rtc, program, rtc->nvrtcGetPTXSize, rtc->nvrtcGetPTX, &result->ptx, &size,
                 "nvrtcGetPTX", err);
    return s;
}

static kb_status run(const nvrtc *rtc, nvrtc_program *program, const kb_nvrtc_request *request,
                     kb_nvrtc_result *result, kb_error *err)
{
    size_t size;
    int code = rtc->nvrtcAddNameExpression(program, request->name);
    if (code == NVRTC_SUCCESS && request->probe)
        code = rtc->nvrtcAddNameExpression(program, request->probe);
    if (code != NVRTC_SUCCESS)
        return fail(rtc, code, "nvrtcAddNameExpression", err);
    code = rtc->nvrtcCompileProgram(program, request->n_options, request->options);
    kb_status s = take(rtc, program, rtc->nvrtcGetProgramLogSize, rtc->nvrtcGetProgramLog,
                       &result->log, &size, "nvrtcGetProgramLog", err);
    if (s != KB_OK)
        return s;
    if (code != NVRTC_SUCCESS)
        return fail(rtc, code, "nvrtcCompileProgram", err);
    return take_results(rtc, program, request, result, err);
}

kb_status kb_nvrtc_compile(const kb_nvrtc_request *request, kb_nvrtc_result *result, kb_error *err)
{
    *result = (kb_nvrtc_result){0};
    const nvrtc *rtc = open_library(request->library, err);
    if (!rtc)
        return err->status;
    nvrtc_program *program = NULL;
    int code = rtc->nvrtcCreateProgram(&program, request->source, request->file, request->n_headers,
                                       request->headers, request->header_names);
    if (code != NVRTC_SUCCESS)
        return fail(rtc, code, "nvrtcCreateProgram", err);
    kb_status s = run(rtc, program, request, result, err);
    (void)rtc->nvrtcDestroyProgram(&program);
    return s;
}

void kb_nvrtc_free(kb_nvrtc_result *result)
{
    kb_free(result->cubin);
    kb_free(result->ptx);
    kb_free(result->entry);
    kb_free(result->probe);
    kb_free(result->log);
}

typedef void handler(int number);

static bool same_library(const void *a, const void *b)
{
    Dl_info of_a, of_b;
    return dladdr(a, &of_a) && dladdr(b, &of_b) && of_a.dli_fbase == of_b.dli_fbase;
}

/* Called by NVRTC in place of `signal`. It may restore what it took before it called this. */
static handler *keep(int number, handler *wanted)
{
    struct sigaction now;
    if (sigaction(number, NULL, &now) != 0)
        return SIG_ERR;
    const void *address;
    memcpy(&address, &now.sa_handler, sizeof address);
    if (same_library(address, __builtin_return_address(0)))
        return signal(number, wanted);
    return now.sa_handler;
}

/* Writes to a slot. Its page is writable in every NVRTC so far, but may have been closed. */
static void set(uintptr_t slot)
{
    handler *(*replacement)(int, handler *) = keep;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (mprotect((void *)(slot / page * page), page, PROT_READ | PROT_WRITE) == 0)
        __atomic_store_n((handler * (**)(int, handler *)) slot, replacement, __ATOMIC_RELEASE);
}

/* Looks for the function in the calls that a library's dynamic section lists. The loader has made
 * addresses of the section's offsets, but not of those in the list. */
static void replace(uintptr_t base, const ElfW(Dyn) * d)
{
    enum { LAST = DT_JMPREL };
    ElfW(Xword) values[LAST + 1] = {0};
    for (; d->d_tag != DT_NULL; d++)
        if (d->d_tag <= LAST)
            values[d->d_tag] = d->d_un.d_val;
    const ElfW(Rela) *calls = (const void *)values[DT_JMPREL];
    const ElfW(Sym) *symbols = (const void *)values[DT_SYMTAB];
    const char *names = (const void *)values[DT_STRTAB];
    size_t n = values[DT_PLTRELSZ] / sizeof *calls;
    while (n-- > 0)
        if (strcmp(names + symbols[ELF64_R_SYM(calls[n].r_info)].st_name, "signal") == 0)
            set(base + calls[n].r_offset);
}

/* Replaces the function in the library that is meant: of a path, or, with NULL, in each libnvrtc.
 */
static int visit(struct dl_phdr_info *library, size_t size, void *data)
{
    (void)size;
    static const char usual[] = "libnvrtc";
    const char *path = library->dlpi_name, *wanted = ((const Dl_info *)data)->dli_fname;
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    if (wanted ? strcmp(path, wanted) != 0 : strncmp(file, usual, strlen(usual)) != 0)
        return 0;
    const ElfW(Phdr) *segment = library->dlpi_phdr;
    while (segment->p_type != PT_DYNAMIC)
        segment++;
    uintptr_t base = library->dlpi_addr;
    replace(base, (const void *)(base + segment->p_vaddr));
    return 0;
}

void kb_nvrtc_keep_signals(const void *inside)
{
    Dl_info meant = {0};
    if (!inside || dladdr(inside, &meant))
        (void)dl_iterate_phdr(visit, &meant);
}
