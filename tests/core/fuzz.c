/* Owns the fuzzers' own driver, and what they share. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void require(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s: %s\n", fuzz_name, what);
    abort();
}

uint8_t byte(reader *r)
{
    return r->at < r->end ? *r->at++ : 0;
}

int64_t number(reader *r)
{
    static const int64_t special[] = {
        0,  1,         -1,        2,       3,         16,        17,        31,        32,       33,
        64, INT32_MAX, INT32_MIN, 1 << 16, INT64_MAX, INT64_MIN, 1ll << 32, 1ll << 40, 1ll << 62};
    enum { SPECIAL = sizeof special / sizeof *special };
    uint8_t kind = byte(r);
    if (kind < 200)
        return kind < 100 ? kind % 8 : special[kind % SPECIAL];
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | byte(r);
    return (int64_t)value;
}

#ifdef KB_FUZZ_MAIN
enum { CORPUS_INPUT_MAX = 1 << 16 };

static uint64_t seed;
static char input[4200]; /* of the corpus, that runs now; or nothing */

static uint64_t random_next(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

static void run_seed(void)
{
    uint8_t data[192];
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u;
    size_t size = random_next(&x) % sizeof data;
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(random_next(&x) >> 32);
    LLVMFuzzerTestOneInput(data, size);
}

static void tell_seed(void)
{
    if (input[0]) {
        fprintf(stderr, "%s: it was %s\n", fuzz_name, input);
        return;
    }
    fprintf(
        stderr,
        "%s: to see this again: KB_FUZZ_SEED=%llu; once it is mended, keep the line \"%s %llu\" "
        "in tests/core/fuzz_seeds.txt\n",
        fuzz_name, (unsigned long long)seed, fuzz_name, (unsigned long long)seed);
}

/* Of the sanitizers, where there are any. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Runs the inputs of this fuzzer's corpus, a file that tests/core/corpus.py writes. Returns their
 * number. */
static uint64_t run_corpus(const char *folder)
{
    static uint8_t data[CORPUS_INPUT_MAX];
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, fuzz_name);
    FILE *file = fopen(path, "rb");
    uint64_t n = 0;
    uint8_t head[2];
    while (file && fread(head, 1, sizeof head, file) == sizeof head) {
        size_t size = fread(data, 1, (size_t)(head[0] | head[1] << 8), file);
        (void)snprintf(input, sizeof input, "input %llu of %s", (unsigned long long)n, path);
        LLVMFuzzerTestOneInput(data, size);
        n++;
    }
    if (file)
        (void)fclose(file);
    input[0] = '\0';
    return n;
}

/* Runs the seeds that are kept for this fuzzer in a file: lines of a fuzzer's name and a seed.
 * Returns whether the file could be read. */
static bool run_kept(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "%s: cannot read KB_FUZZ_SEEDS=%s\n", fuzz_name, path);
        return false;
    }
    char name[64];
    unsigned long long kept;
    while (fscanf(file, "%63s %llu", name, &kept) == 2) {
        if (strcmp(name, fuzz_name) != 0)
            continue;
        seed = kept;
        run_seed();
    }
    fclose(file);
    return true;
}

/* Another number each time. */
static uint64_t random_start(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t x = ((uint64_t)t.tv_sec << 30 ^ (uint64_t)t.tv_nsec) + 1;
    return random_next(&x) >> 16;
}

/* KB_FUZZ_SECONDS: how long (2). KB_FUZZ_SEED: run this seed alone. KB_FUZZ_SEEDS: a file of seeds
 * to begin with. KB_FUZZ_CORPUS: a folder of folders of inputs, of which the fuzzer's own is run.
 * KB_FUZZ_START: the first of the other seeds; drawn and printed if it is not given.
 */
int main(void)
{
    const char *seconds = getenv("KB_FUZZ_SECONDS"), *only = getenv("KB_FUZZ_SEED");
    const char *kept = getenv("KB_FUZZ_SEEDS"), *start = getenv("KB_FUZZ_START");
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(tell_seed);
    if (only) {
        seed = strtoull(only, NULL, 10);
        run_seed();
        return 0;
    }
    if (kept && !run_kept(kept))
        return 1;
    const char *corpus = getenv("KB_FUZZ_CORPUS");
    uint64_t n_kept = corpus ? run_corpus(corpus) : 0;
    double end = now() + (seconds ? strtod(seconds, NULL) : 2);
    uint64_t first = start ? strtoull(start, NULL, 10) : random_start();
    printf("%s: KB_FUZZ_START=%llu\n", fuzz_name, (unsigned long long)first);
    for (seed = first; (seed - first) % 256 || now() < end; seed++)
        run_seed();
    bool all_kinds = fuzz_tell(seed - first);
    printf("%s: executions: %llu, and %llu of the corpus\n", fuzz_name,
           (unsigned long long)(seed - first), (unsigned long long)n_kept);
    return all_kinds ? 0 : 1;
}
#endif
