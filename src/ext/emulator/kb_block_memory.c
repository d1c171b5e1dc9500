/* Owns the memory of blocks: stacks, shared memory, and the blocks that wait for use. */
#include "ext/emulator/kb_block.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    STACK_MIN = 32 * 1024, /* beside a kernel's own variables: what it spills, the C library */
    PAGE = 4096,
    SHIFT = 5 * KB_LINE, /* of the stacks' places in a page, for the sake of the caches */
    KEPT_THREADS = 1024,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kb_block *unused;         /* under the lock; and, written under it, */
static _Atomic(uint32_t) n_kept; /* threads that unused blocks have room for; and */
static uint32_t kept_max; /* how many may be kept: a full block for each processor; 0 at first */

static void unmap(unsigned char *memory, size_t size)
{
    if (memory)
        (void)munmap(memory - KB_FAULT_GUARD, size + KB_FAULT_GUARD);
}

/* Memory of at least `size` bytes in place of what was there, with a guard below, where a stack
 * that overflows ends. */
static bool grow(unsigned char **memory, size_t *there, size_t size)
{
    if (size <= *there)
        return true;
    unmap(*memory, *there);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    unsigned char *guard = mmap(NULL, size + KB_FAULT_GUARD, PROT_READ | PROT_WRITE, flags, -1, 0);
    *memory = guard != MAP_FAILED ? guard + KB_FAULT_GUARD : NULL;
    *there = size;
    if (*memory) {
        (void)mprotect(guard, KB_FAULT_GUARD, PROT_NONE);
        kb_fibre_clean(*memory, size); /* other blocks may have had their stacks at this address */
    }
    return *memory != NULL;
}

static bool make_room(kb_block *b, uint32_t n_threads)
{
    if (n_threads <= b->capacity)
        return true;
    free(b->threads);
    free(b->warps);
    b->threads = aligned_alloc(_Alignof(kb_thread), n_threads * sizeof *b->threads);
    b->warps = calloc((n_threads + KB_WARP - 1) / KB_WARP, sizeof *b->warps);
    b->capacity = b->threads && b->warps ? n_threads : 0;
    return b->capacity != 0;
}

static size_t round_up(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

static void free_block(kb_block *b)
{
    unmap(b->stacks, b->stacks_size);
    unmap(b->shared, b->shared_size);
    free(b->threads);
    free(b->warps);
    free(b);
}

static void number_threads(kb_block *b, const uint32_t sizes[6], uint32_t dynamic_shared)
{
    const uint32_t *extents = sizes + 3;
    for (uint32_t i = 0; i < b->n_threads; i++) {
        kb_thread *t = &b->threads[i];
        t->tid[0] = i % extents[0];
        t->tid[1] = i / extents[0] % extents[1];
        t->tid[2] = i / extents[0] / extents[1];
        memcpy(t->ntid, extents, sizeof t->ntid);
        memcpy(t->nctaid, sizes, sizeof t->nctaid);
        t->shared = b->shared;
        t->dynamic_shared = dynamic_shared;
        t->lane = i % KB_WARP;
        t->index = i;
        t->stack = KB_NO_STACK;
        t->block = b;
        t->place = NULL;
    }
}

kb_block *kb_block_take(const kb_block_code *code, const uint32_t sizes[6], uint32_t dynamic_shared)
{
    pthread_mutex_lock(&lock);
    kb_block *b = unused;
    if (b) {
        unused = b->next;
        n_kept -= b->capacity;
    }
    pthread_mutex_unlock(&lock);
    if (!b)
        b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->code = code;
    b->checks = NULL;
    b->faulted = false;
    b->watch = (kb_watch){.interrupts = atomic_load(&kb_interrupts)};
    b->n_threads = sizes[3] * sizes[4] * sizes[5];
    b->stack = round_up(STACK_MIN + (size_t)code->stack, PAGE) + SHIFT;
    size_t shared = round_up((size_t)code->shared + dynamic_shared + KB_LINE, PAGE);
    if (!make_room(b, b->n_threads) ||
        !grow(&b->stacks, &b->stacks_size, b->stack * b->n_threads) ||
        !grow(&b->shared, &b->shared_size, shared)) {
        free_block(b);
        return NULL;
    }
    number_threads(b, sizes, dynamic_shared);
    return b;
}

void kb_block_give_back(kb_block *b)
{
    if (b->watch.watches)
        kb_interrupt_unwatch();
    kb_block_end(b);
    pthread_mutex_lock(&lock);
    if (kept_max == 0) /* the number is read from a file, which takes as long as a small launch */
        kept_max = KEPT_THREADS * (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    bool keeps = b->capacity <= kept_max && n_kept <= kept_max - b->capacity;
    if (keeps) {
        b->next = unused;
        unused = b;
        n_kept += b->capacity;
    }
    pthread_mutex_unlock(&lock);
    if (!keeps)
        free_block(b);
}

uint32_t kb_block_kept(void)
{
    return n_kept;
}
