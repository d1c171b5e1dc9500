/* Owns the copies of code that has variables, one for each device. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include "hostcuda/kb_variables.h"

#include "core/kb_memory.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct kb_variables_copy {
    kb_variables_copy *next;
    int32_t device;
    ptrdiff_t offset;
    pthread_mutex_t lock; /* held by a call */
};

struct kb_variables {
    kb_variables *next;
    const char *first;
    kb_xla_bytes bytes;
    kb_variables_maker *make;
    kb_variables_copy *copies; /* the first is the code itself */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kb_variables *all; /* under the lock, as all lists of copies */

/* What compilers and kernbridge's headers define. */
static bool is_ours(const char *name)
{
    static const char *const beginnings[] = {
        "kb_",           "DW.ref.",       "completed.",
        "__dso_handle",  "_ZL9kb_slot_",  "_ZStL8__ioinit",
        "_ZL10kb_slot_", "_ZL11kb_slot_", "_ZL16kb_start_failure"};
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return strstr(name, "10kernbridge");
}

/* The linker has read the same file. A symbol in the part that it makes read-only is a constant. */
static bool are_in(const char *file)
{
    const Elf64_Ehdr *head = (const void *)file;
    const Elf64_Shdr *sections = (const void *)(file + head->e_shoff), *table = NULL;
    const Elf64_Phdr *segments = (const void *)(file + head->e_phoff), *relro = NULL;
    for (int i = 0; i < head->e_shnum; i++)
        table = sections[i].sh_type == SHT_SYMTAB ? &sections[i] : table;
    for (int i = 0; i < head->e_phnum; i++)
        relro = segments[i].p_type == PT_GNU_RELRO ? &segments[i] : relro;
    for (size_t i = 0; table && i < table->sh_size / sizeof(Elf64_Sym); i++) {
        const Elf64_Sym *s = (const Elf64_Sym *)(const void *)(file + table->sh_offset) + i;
        if (ELF64_ST_TYPE(s->st_info) == STT_OBJECT && s->st_shndx < head->e_shnum && s->st_size &&
            sections[s->st_shndx].sh_flags & SHF_WRITE &&
            !(relro && s->st_value - relro->p_vaddr < relro->p_memsz) &&
            !is_ours(file + sections[table->sh_link].sh_offset + s->st_name))
            return true;
    }
    return !table; /* stripped: who knows */
}

kb_variables *kb_variables_new(const void *first, const kb_xla_bytes *bytes,
                               kb_variables_maker *make)
{
    kb_variables *v = kb_calloc(1, sizeof *v + bytes->size);
    if (!v)
        return NULL;
    v->bytes = (kb_xla_bytes){memcpy(v + 1, bytes->data, bytes->size), bytes->size};
    v->first = first;
    v->make = make;
    pthread_mutex_lock(&lock);
    v->next = all;
    all = v;
    pthread_mutex_unlock(&lock);
    return v;
}

kb_status kb_variables_note(const void *first, kb_variables_maker *make, kb_error *err)
{
    Dl_info info;
    struct stat about;
    void *data = MAP_FAILED;
    int file = dladdr(first, &info) ? open(info.dli_fname, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0 && fstat(file, &about) == 0)
        data = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (file >= 0)
        (void)close(file);
    if (data == MAP_FAILED)
        return kb_error_set(err, KB_NOT_FOUND, "the library cannot be read");
    const kb_xla_bytes bytes = {data, (size_t)about.st_size};
    bool well = !are_in(data) || kb_variables_new(first, &bytes, make);
    (void)munmap(data, bytes.size);
    return well ? KB_OK : kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for a library");
}

kb_variables *kb_variables_of(const void *code)
{
    Dl_info wanted, found;
    if (!dladdr(code, &wanted))
        return NULL;
    pthread_mutex_lock(&lock);
    kb_variables *v = all;
    while (v && !(dladdr(v->first, &found) && found.dli_fbase == wanted.dli_fbase))
        v = v->next;
    pthread_mutex_unlock(&lock);
    return v;
}

static int32_t device_of(const kb_xla_frame *xla)
{
    if (!xla || xla->api->struct_size < KB_XLA_SIZE(kb_xla_api, device_ordinal_get))
        return 0;
    kb_xla_device_ordinal args = {
        .struct_size = KB_XLA_SIZE(kb_xla_device_ordinal, device_ordinal),
        .context = xla->context,
    };
    return kb_xla_succeeded(xla->api, xla->api->device_ordinal_get(&args)) ? args.device_ordinal
                                                                           : 0;
}

/* Under the lock. */
static kb_variables_copy *copy_for(kb_variables *v, int32_t device, kb_error *err)
{
    kb_variables_copy **end = &v->copies;
    while (*end && (*end)->device != device)
        end = &(*end)->next;
    if (*end)
        return *end;
    void *place = NULL;
    if (v->copies && v->make(&v->bytes, &place, err) != KB_OK)
        return NULL;
    kb_variables_copy *made = kb_calloc(1, sizeof *made);
    if (!made || pthread_mutex_init(&made->lock, NULL) != 0) {
        kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for the variables of a device");
        return NULL;
    }
    made->device = device;
    made->offset = place ? (char *)place - v->first : 0;
    return *end = made;
}

kb_status kb_variables_enter(kb_variables *v, const kb_xla_frame *xla, kb_variables_copy **copy,
                             ptrdiff_t *offset, kb_error *err)
{
    int32_t device = device_of(xla);
    pthread_mutex_lock(&lock);
    *copy = copy_for(v, device, err);
    pthread_mutex_unlock(&lock);
    if (!*copy)
        return err->status;
    pthread_mutex_lock(&(*copy)->lock);
    *offset = (*copy)->offset;
    return KB_OK;
}

void kb_variables_leave(kb_variables_copy *copy)
{
    pthread_mutex_unlock(&copy->lock);
}
