/* Owns the requests that fail, and the count of what the core holds. */
#define _GNU_SOURCE /* memfd_create */

#include "torture.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const torture_names[TORTURE_KINDS] = {"memory", "mapping", "file", "library",
                                                  "thread", "driver",  "xla"};

/* Of programs that have the fake CUDA driver. */
extern __attribute__((weak)) void fake_cuda_fail_any(int nth, int code, int lasting);
extern __attribute__((weak)) const char *fake_cuda_failed(void);

enum { OUT_OF_MEMORY = 2 }; /* what the driver answers */

static atomic_int armed = TORTURE_KINDS; /* the kind */
static atomic_long left;                 /* requests until the one that fails */
static atomic_long memory_left;          /* requests for memory until the one that fails */
static atomic_bool lasts;
static atomic_bool files_are_full;
static _Atomic(const char *) failed;
static void (*_Atomic meanwhile)(void);
static atomic_long n_blocks, n_mappings, n_files, n_locks, n_held;

void torture_arm(torture_kind kind, long n, bool lasting)
{
    failed = NULL;
    left = n;
    lasts = lasting;
    armed = kind;
    if (kind == TORTURE_DRIVER && fake_cuda_fail_any)
        fake_cuda_fail_any((int)n, OUT_OF_MEMORY, lasting);
}

void torture_fail_nth(long n)
{
    memory_left = n;
}

bool torture_lasts(void)
{
    return lasts;
}

const char *torture_disarm(void)
{
    if (armed == TORTURE_DRIVER && fake_cuda_fail_any) {
        failed = fake_cuda_failed();
        fake_cuda_fail_any(0, 0, 0);
    }
    armed = TORTURE_KINDS;
    return failed;
}

bool torture_fails(torture_kind kind, const char *function)
{
    if (atomic_load_explicit(&armed, memory_order_relaxed) != (int)kind)
        return false;
    long before = atomic_fetch_sub(&left, 1);
    if (before > 1 || (before < 1 && !lasts))
        return false;
    const char *none = NULL;
    atomic_compare_exchange_strong(&failed, &none, function);
    return true;
}

static bool fails_with(torture_kind kind, const char *function, int number)
{
    if (!torture_fails(kind, function))
        return false;
    errno = number;
    return true;
}

torture_taken torture_count(void)
{
    return (torture_taken){n_blocks, n_mappings, n_files, n_locks, n_held};
}

void *torture_tsearch(const void *key, void **root, int (*compare)(const void *, const void *));
void *torture_mmap(void *at, size_t size, int access, int flags, int file, off_t offset);
int torture_mprotect(void *at, size_t size, int access);
int torture_munmap(void *at, size_t size);
int torture_memfd_create(const char *name, unsigned flags);
ssize_t torture_write(int file, const void *bytes, size_t size);
int torture_close(int file);
FILE *torture_fopen(const char *path, const char *mode);
int torture_fseek(FILE *file, long offset, int from);
long torture_ftell(FILE *file);
size_t torture_fread(void *bytes, size_t size, size_t n, FILE *file);
int torture_fclose(FILE *file);
void *torture_dlopen(const char *path, int flags);
void *torture_dlsym(void *library, const char *name);
int torture_thread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument);
int torture_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int torture_mutex_destroy(pthread_mutex_t *mutex);
int torture_mutex_lock(pthread_mutex_t *mutex);
int torture_mutex_unlock(pthread_mutex_t *mutex);
int torture_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes);
int torture_cond_destroy(pthread_cond_t *condition);

void torture_meanwhile(void (*act)(void))
{
    meanwhile = act;
}

static bool lacks_memory(const char *function)
{
    void (*act)(void) = atomic_load_explicit(&meanwhile, memory_order_relaxed);
    if (act && atomic_compare_exchange_strong(&meanwhile, &act, NULL))
        act();
    if (atomic_load_explicit(&memory_left, memory_order_relaxed) > 0 &&
        atomic_fetch_sub(&memory_left, 1) == 1)
        return true;
    return fails_with(TORTURE_MEMORY, function, ENOMEM);
}

static void *counted(void *memory)
{
    if (memory)
        atomic_fetch_add_explicit(&n_blocks, 1, memory_order_relaxed);
    return memory;
}

void *torture_tsearch(const void *key, void **root, int (*compare)(const void *, const void *))
{
    if (!tfind(key, root, compare) && lacks_memory("tsearch"))
        return NULL;
    return tsearch(key, root, compare);
}

void *torture_malloc(size_t size)
{
    return lacks_memory("malloc") ? NULL : counted(malloc(size));
}

void *torture_calloc(size_t count, size_t size)
{
    return lacks_memory("calloc") ? NULL : counted(calloc(count, size));
}

void *torture_aligned_alloc(size_t alignment, size_t size)
{
    return lacks_memory("aligned_alloc") ? NULL : counted(aligned_alloc(alignment, size));
}

void torture_free(void *memory)
{
    if (memory)
        atomic_fetch_sub_explicit(&n_blocks, 1, memory_order_relaxed);
    free(memory);
}

void *torture_mmap(void *at, size_t size, int access, int flags, int file, off_t offset)
{
    if (fails_with(TORTURE_MAPPING, "mmap", ENOMEM))
        return MAP_FAILED;
    void *memory = mmap(at, size, access, flags, file, offset);
    n_mappings += memory != MAP_FAILED;
    return memory;
}

int torture_mprotect(void *at, size_t size, int access)
{
    return fails_with(TORTURE_MAPPING, "mprotect", ENOMEM) ? -1 : mprotect(at, size, access);
}

int torture_munmap(void *at, size_t size)
{
    n_mappings--;
    return munmap(at, size);
}

int torture_memfd_create(const char *name, unsigned flags)
{
    if (fails_with(TORTURE_FILE, "memfd_create", EMFILE))
        return -1;
    int file = memfd_create(name, flags);
    n_files += file >= 0;
    return file;
}

void torture_fill_files(bool full)
{
    files_are_full = full;
}

/* Leaves a byte for another call, as the system may. */
ssize_t torture_write(int file, const void *bytes, size_t size)
{
    if (fails_with(TORTURE_FILE, "write", EIO))
        return -1;
    if (files_are_full)
        return 0;
    return write(file, bytes, size > 1 && file != STDERR_FILENO ? size - 1 : size);
}

int torture_close(int file)
{
    n_files--;
    return close(file);
}

FILE *torture_fopen(const char *path, const char *mode)
{
    if (fails_with(TORTURE_FILE, "fopen", EMFILE))
        return NULL;
    FILE *file = fopen(path, mode);
    n_files += file != NULL;
    return file;
}

int torture_fseek(FILE *file, long offset, int from)
{
    return fails_with(TORTURE_FILE, "fseek", EIO) ? -1 : fseek(file, offset, from);
}

long torture_ftell(FILE *file)
{
    return fails_with(TORTURE_FILE, "ftell", EIO) ? -1 : ftell(file);
}

size_t torture_fread(void *bytes, size_t size, size_t n, FILE *file)
{
    return fails_with(TORTURE_FILE, "fread", EIO) ? 0 : fread(bytes, size, n, file);
}

int torture_fclose(FILE *file)
{
    n_files--;
    return fclose(file);
}

/* What dlerror reports must be a text of the loader's own. */
void *torture_dlopen(const char *path, int flags)
{
    return torture_fails(TORTURE_LIBRARY, "dlopen") ? dlopen("/torture/missing.so", flags)
                                                    : dlopen(path, flags);
}

void *torture_dlsym(void *library, const char *name)
{
    return torture_fails(TORTURE_LIBRARY, "dlsym") ? dlsym(library, "torture_missing")
                                                   : dlsym(library, name);
}

int torture_thread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument)
{
    if (torture_fails(TORTURE_THREAD, "pthread_create"))
        return EAGAIN;
    return pthread_create(thread, attributes, start, argument);
}

int torture_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    if (torture_fails(TORTURE_THREAD, "pthread_mutex_init"))
        return ENOMEM;
    n_locks++;
    return pthread_mutex_init(mutex, attributes);
}

int torture_mutex_destroy(pthread_mutex_t *mutex)
{
    n_locks--;
    return pthread_mutex_destroy(mutex);
}

int torture_mutex_lock(pthread_mutex_t *mutex)
{
    n_held++;
    return pthread_mutex_lock(mutex);
}

int torture_mutex_unlock(pthread_mutex_t *mutex)
{
    n_held--;
    return pthread_mutex_unlock(mutex);
}

int torture_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes)
{
    if (torture_fails(TORTURE_THREAD, "pthread_cond_init"))
        return ENOMEM;
    n_locks++;
    return pthread_cond_init(condition, attributes);
}

int torture_cond_destroy(pthread_cond_t *condition)
{
    n_locks--;
    return pthread_cond_destroy(condition);
}
