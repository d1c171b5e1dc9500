/* Owns the replacement of the function `signal` that libnvrtc calls: its slot in the table by which
 * the library calls functions of other libraries. The symbols of a library are bound when it is
 * opened, to the C library of the process, and blocking the signals would lose them, since NVRTC
 * ignores SIGINT for a moment, which discards pending signals. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr, dladdr */
#endif
#include "cuda/kb_nvrtc.h"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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
