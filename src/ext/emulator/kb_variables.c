/* Owns the copies of code that has variables, one for each device. */
#include "ext/emulator/kb_cuda_code.h"

#include "kernbridge/cuda_host.h"
#include "module/kb_module.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct variables {
    kb_variables base;
    struct variables *next;
    const char *first;
    kb_xla_bytes bytes;
    kb_variables_maker *make;
    kb_variables_copy *copies; /* the first is the code itself */
} variables;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static variables *all; /* under the lock, as all lists of copies */

/* What compilers and kernbridge's headers define. */
static bool is_ours(const char *name)
{
    static const char *const beginnings[] = {"kb_", "DW.ref.", "completed.", "__dso_handle",
                                             "_ZStL"};
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return strstr(name, "10kernbridge") || strstr(name, "kb_slot_") || strstr(name, "kb_start_f");
}

/* The linker has read the same file. A symbol in the part that it makes read-only is a constant. */
static bool are_in(const char *file)
{
    const Elf64_Ehdr *head = (const void *)file;
    const Elf64_Shdr *sections = (const void *)(file + head->e_shoff), *table = NULL;
    const Elf64_Phdr *segments = (const void *)(file + head->e_phoff), *relro = segments;
    for (int i = 0; i < head->e_shnum; i++)
        table = sections[i].sh_type == SHT_SYMTAB ? &sections[i] : table;
    for (int i = 0; i < head->e_phnum; i++)
        relro = segments[i].p_type == PT_GNU_RELRO ? &segments[i] : relro;
    for (size_t i = 0; table && i < table->sh_size / sizeof(Elf64_Sym); i++) {
        const Elf64_Sym *s = (const Elf64_Sym *)(const void *)(file + table->sh_offset) + i;
        if (ELF64_ST_TYPE(s->st_info) == STT_OBJECT && s->st_shndx < head->e_shnum && s->st_size &&
            sections[s->st_shndx].sh_flags & SHF_WRITE &&
            s->st_value - relro->p_vaddr >= relro->p_memsz &&
            !is_ours(file + sections[table->sh_link].sh_offset + s->st_name))
            return true;
    }
    return !table; /* stripped: who knows */
}

static kb_status copy_library(const kb_xla_bytes *bytes, void **place, kb_error *err)
{
    void *library = NULL;
    kb_status s = kb_module_open_bytes(bytes, &library, err);
    *place = s == KB_OK ? dlsym(library, "kb_cuda_host_slot") : NULL;
    return s;
}

static int32_t device_of(const kb_xla_frame *xla)
{
    kb_xla_device_ordinal args = {.struct_size = KB_XLA_SIZE(kb_xla_device_ordinal, device_ordinal),
                                  .context = xla ? xla->context : NULL};
    bool told = xla && xla->api->struct_size >= KB_XLA_SIZE(kb_xla_api, device_ordinal_get) &&
                kb_xla_succeeded(xla->api, xla->api->device_ordinal_get(&args));
    return told ? args.device_ordinal : 0;
}

/* Under the lock. */
static kb_variables_copy *copy_for(variables *v, int32_t device, kb_error *err)
{
    kb_variables_copy **end = &v->copies;
    while (*end && (*end)->device != device)
        end = &(*end)->next;
    void *place = NULL;
    if (*end || (v->copies && v->make(&v->bytes, &place, err) != KB_OK))
        return *end;
    kb_variables_copy *made = calloc(1, sizeof *made);
    if (!made) {
        kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for the variables of a device");
        return NULL;
    }
    *made = (kb_variables_copy){.device = device,
                                .offset = place ? (char *)place - v->first : 0,
                                .lock = PTHREAD_MUTEX_INITIALIZER};
    if (v->make == copy_library && place)
        ((kb_cuda_host_slot_type *)place)->functions =
            ((const kb_cuda_host_slot_type *)(const void *)v->first)->functions;
    return *end = made;
}

static kb_variables_copy *enter(kb_variables *v, const kb_xla_frame *xla, kb_error *err)
{
    int32_t device = device_of(xla);
    pthread_mutex_lock(&lock);
    kb_variables_copy *copy = copy_for((variables *)v, device, err);
    pthread_mutex_unlock(&lock);
    if (copy)
        pthread_mutex_lock(&copy->lock);
    return copy;
}

kb_variables *kb_variables_new(const void *first, const kb_xla_bytes *bytes,
                               kb_variables_maker *make)
{
    variables *v = calloc(1, sizeof *v + bytes->size);
    if (!v)
        return NULL;
    v->base.enter = enter;
    v->bytes = (kb_xla_bytes){memcpy(v + 1, bytes->data, bytes->size), bytes->size};
    v->first = first;
    v->make = make;
    pthread_mutex_lock(&lock);
    v->next = all;
    all = v;
    pthread_mutex_unlock(&lock);
    return &v->base;
}

kb_status kb_variables_note(const void *slot, kb_error *err)
{
    Dl_info info;
    FILE *file = dladdr(slot, &info) ? fopen(info.dli_fname, "re") : NULL;
    long size = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    void *data = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, file ? fileno(file) : -1, 0);
    if (file)
        (void)fclose(file);
    if (data == MAP_FAILED)
        return kb_error_set(err, KB_NOT_FOUND, "the library cannot be read");
    bool well =
        !are_in(data) || kb_variables_new(slot, &(kb_xla_bytes){data, (size_t)size}, copy_library);
    (void)munmap(data, (size_t)size);
    return well ? KB_OK : kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for a library");
}

kb_variables *kb_variables_of(const void *code)
{
    Dl_info wanted, found;
    bool known = dladdr(code, &wanted);
    pthread_mutex_lock(&lock);
    variables *v = known ? all : NULL;
    while (v && !(dladdr(v->first, &found) && found.dli_fbase == wanted.dli_fbase))
        v = v->next;
    pthread_mutex_unlock(&lock);
    return v ? &v->base : NULL;
}
