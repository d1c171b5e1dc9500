/* Proves that no launch on the CPU, whatever its grid, block and memory, and no order of barriers,
 * operations of warps, waits and ends in which its threads stand, crashes or hangs: it does every
 * block and thread once, or ends with a reason. Programs for the CPU, of which the image and the
 * machine code are changed, are loaded too. */
#include "fuzz.h"

#include "core/kb_handler.h"
#include "ext/emulator/kb_hostcuda.h"
#include "ext/emulator/kb_thread.h"
#include "fake_xla.h"
#include "target.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 8, KINDS = 12, THREADS_MAX = 4096, IMAGE = KB_HOSTCUDA_DIGEST + 40 };

const char fuzz_name[] = "fuzz_hostcuda";

static struct {
    atomic_long done; /* blocks, or threads */
    uint8_t n_steps, kinds[STEPS], values[STEPS];
} script;

static struct {
    long ran, faults, refused, loaded, not_loaded;
} counts;

static void blocks(void *const *parameters, const uint32_t sizes[6], int64_t begin, int64_t end,
                   const char **outside)
{
    (void)parameters;
    require(sizes[0] > 0 && 0 <= begin && begin < end, "a range of blocks");
    if (script.n_steps && script.kinds[0] == 0 && begin == 0)
        *outside = "'x'";
    atomic_fetch_add(&script.done, (long)(end - begin));
}

static void step(kb_thread *t, uint8_t kind, uint8_t value, uint32_t site)
{
    uint32_t mask = value % 4 == 0 ? value * 0x01010101u : 0xffffffffu;
    switch (kind) {
    case 0:
        kb_barrier(t, site);
        return;
    case 1:
        (void)kb_barrier_reduce(t, value % 4, t->index & value, site);
        return;
    case 2:
        kb_warp_barrier(t, mask, site);
        return;
    case 3:
        (void)kb_shuffle(t, mask, value % 5, t->index, value / 4, value & 0x1f1f, site);
        return;
    case 4:
        (void)kb_vote(t, mask, value % 5, t->index & value, site);
        return;
    case 5:
        (void)kb_match(t, mask, value % 2, t->index & value, site);
        return;
    case 6:
        (void)kb_active_mask(t, site);
        return;
    case 7:
        kb_grid_barrier(t, site);
        return;
    case 8:
        kb_poll(t, 1, 0);
        return;
    case 9:
        if (t->dynamic_shared > 0)
            t->shared[64 + value % t->dynamic_shared] = value;
        return;
    case 10:
        kb_recurse(t, (uint64_t)value << (value % 32));
        return;
    default:
        kb_raise(t, "ValueError");
    }
}

/* A step is for all threads, for some, or for those after which the thread ends. */
static void thread(void *const *parameters, kb_thread *t)
{
    (void)parameters;
    t->shared[t->index % 64] = 1;
    for (uint8_t i = 0; i < script.n_steps; i++) {
        uint8_t who = script.kinds[i] / KINDS, value = script.values[i];
        if (who % 4 == 3 && (t->index & value) == 0)
            break;
        if (who % 4 != 2 || (t->index & value) != 0)
            step(t, script.kinds[i] % KINDS, value, i);
    }
    atomic_fetch_add(&script.done, 1);
}

static uint32_t extent(reader *r)
{
    uint8_t kind = byte(r);
    return kind < 230 ? 1u + kind % 6 : (uint32_t)number(r);
}

/* Of three extents; THREADS_MAX and one more where it is more. */
static int64_t product(const uint32_t *sizes)
{
    int64_t n = 1;
    for (int i = 0; i < 3; i++)
        if (__builtin_mul_overflow(n, (int64_t)sizes[i], &n) || n > THREADS_MAX)
            n = sizes[i] == 0 ? 0 : THREADS_MAX + 1;
    return n;
}

static void launch(reader *r)
{
    uint8_t form = byte(r) % 4;
    bool fibres = form > 0;
    const kb_hostcuda_code code = {
        .blocks = fibres ? NULL : blocks,
        .threads = {.run = fibres ? thread : NULL, .shared = 64, .stack = byte(r) * 16u},
        .cooperative = form == 2,
    };
    uint32_t sizes[6];
    for (int i = 0; i < 6; i++)
        sizes[i] = i >= 3 && byte(r) % 4 ? 1u + byte(r) % 40 : extent(r);
    int64_t n_blocks = product(sizes), n_threads = product(sizes + 3);
    if (n_blocks > THREADS_MAX || n_threads > THREADS_MAX || n_blocks * n_threads > THREADS_MAX)
        for (int i = 0; i < 6; i++)
            sizes[i] = sizes[i] == 0 || sizes[i] > INT32_MAX ? sizes[i] : 1; /* it ends some day */
    n_blocks = product(sizes);
    n_threads = product(sizes + 3);
    uint32_t shared = byte(r) % 8 ? byte(r) : (uint32_t)number(r) % (1u << 20);
    script.n_steps = byte(r) % (STEPS + 1);
    for (uint8_t i = 0; i < script.n_steps; i++) {
        script.kinds[i] = byte(r) % (KINDS * 4);
        script.values[i] = byte(r);
    }
    atomic_store(&script.done, 0);
    char fault[KB_FAULT_SIZE] = "";
    void *parameters[] = {NULL};
    kb_cu_result result = kb_hostcuda_run(&code, sizes, shared, parameters, NULL, fault);
    if (result == KB_CU_SUCCESS) {
        counts.ran++;
        require(atomic_load(&script.done) == (fibres ? n_blocks * n_threads : n_blocks),
                "a thread was not run once");
    } else if (result == KB_HOSTCUDA_FAULT) {
        counts.faults++;
        require(fault[0] && memchr(fault, 0, sizeof fault), "a fault without a reason");
    } else {
        counts.refused++;
        require(result == KB_CU_INVALID_VALUE, "a result of no kind");
    }
}

static kb_status compile(const char *image, size_t size, kb_error *err)
{
    require(size > KB_HOSTCUDA_DIGEST && image[size - 1] == '\0', "an image that is no text");
    return kb_hostcuda_add(image, &(kb_hostcuda_code){.blocks = blocks}, err);
}

/* Takes machine code whose bytes are those that it was given; the reader of the real one has a
 * fuzzer of its own. */
static kb_status load(const char digest[KB_HOSTCUDA_DIGEST], const void *bytes, size_t size,
                      const char *what, kb_error *err)
{
    require(bytes && size > 0 && what, "no machine code");
    if (*(const char *)bytes == '!')
        return kb_error_set(err, KB_FAILED_PRECONDITION, "it cannot run here");
    return kb_hostcuda_add(digest, &(kb_hostcuda_code){.blocks = blocks}, err);
}

static void program(reader *r)
{
    static uint64_t id = 1000;
    char image[IMAGE + 1], code[16];
    program_text p;
    target_call c;
    program_simple(&p, ++id, "entry");
    memset(image, 'a', KB_HOSTCUDA_DIGEST);
    (void)snprintf(image, KB_HOSTCUDA_DIGEST, "%llu", (unsigned long long)id);
    image[strlen(image)] = 'x';
    (void)snprintf(image + KB_HOSTCUDA_DIGEST, sizeof image - KB_HOSTCUDA_DIGEST, "\n%s%d",
                   KB_HOSTCUDA_ABI_LINE, KB_HOSTCUDA_ABI);
    for (int n = byte(r) % 3; n > 0; n--)
        image[byte(r) % strlen(image)] = (char)(1 + byte(r) % 255);
    if (byte(r) % 4 == 0)
        image[1 + byte(r) % (strlen(image) - 1)] = '\0';
    (void)snprintf(code, sizeof code, "%s", byte(r) % 2 ? "code" : "!");
    p.functions[0].images[0] = (program_image){.cc = KB_HOSTCUDA_CC, .text = image};
    if (byte(r) % 2) {
        p.functions[0].n_images = 2;
        p.functions[0].images[1] = (program_image){.cc = KB_HOSTCUDA_CODE_CC, .text = code};
    }
    p.steps[0].launch.block[0] = byte(r) % 8 ? 4 : (uint32_t)number(r);
    script.n_steps = byte(r) % 4 == 0;
    script.kinds[0] = 0;
    target_call_init(&c, id, &p);
    kb_xla_error *error = kb_emulator.targets[0].instantiate(&c.f.frame);
    ++*(error ? &counts.not_loaded : &counts.loaded);
    require(!error || *error->message, "an error without a message");
    fake_error_destroy(error);
    error = kb_emulator.targets[0].execute(&c.f.frame);
    require(!error || *error->message, "an error without a message");
    fake_error_destroy(error);
    target_call_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reader r = {data, data + size};
    kb_hostcuda_compile = compile;
    kb_hostcuda_load = load;
    if (byte(&r) % 8)
        launch(&r);
    else
        program(&r);
    require(fake_errors_alive() == 0, "an error was left");
    return 0;
}

bool fuzz_tell(uint64_t n)
{
    printf("fuzz_hostcuda: %llu inputs: launches: %ld ran, %ld faults, %ld refused; programs: %ld "
           "loaded, %ld not\n",
           (unsigned long long)n, counts.ran, counts.faults, counts.refused, counts.loaded,
           counts.not_loaded);
    return counts.ran && counts.faults && counts.refused && counts.loaded && counts.not_loaded;
}
