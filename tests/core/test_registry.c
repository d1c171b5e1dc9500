/* Proves that a registered kernel is always found, once and by all of its digest, while others
 * register theirs; meaningful under ThreadSanitizer. */
#include "core/kb_registry.h"

#include "core/kb_host.h"
#include "kb_test.h"
#include "sample.h"

#include <pthread.h>

static kb_registry *open_registry(void)
{
    static kb_registry registry;
    registry = (kb_registry){.lock = PTHREAD_MUTEX_INITIALIZER};
    return &registry;
}

static int32_t fail(void **result, void **exception, void *const *inputs, void *const *outputs)
{
    (void)result, (void)exception, (void)inputs, (void)outputs;
    return 7;
}

static void test_add_and_find(void)
{
    kb_registry *registry = open_registry();
    kb_error err;
    sample s;
    sample_init(&s, 3, sample_record);
    sample_input(&s, KB_DTYPE_F32, 1, "x");
    CHECK_PTR(kb_registry_find(registry, s.kernel.key), NULL);

    bool inserted = false;
    CHECK_INT(kb_registry_add(registry, &s.kernel, &inserted, &err), KB_OK);
    CHECK(inserted);
    const kb_kernel *there = kb_registry_find(registry, s.kernel.key);
    if (CHECK(there != NULL)) {
        CHECK(there != &s.kernel);
        CHECK_TEXT(there->name, "op3");
        CHECK_TEXT(there->buffers[0].name, "x");
    }
    CHECK_PTR(kb_registry_find(registry, s.kernel.key + 1), NULL);
    CHECK_PTR(kb_registry_find(registry, s.kernel.key + 64), NULL); /* same place, other key */

    CHECK_INT(kb_registry_add(registry, &s.kernel, &inserted, &err), KB_OK);
    CHECK(!inserted);
    CHECK_PTR(kb_registry_find(registry, s.kernel.key), there);
    CHECK_INT(kb_registry_count(registry).kernels, 1);
    sample_free_registry(registry);
}

static void test_exchange(void)
{
    kb_registry *registry = open_registry();
    kb_error err;
    bool inserted;
    sample s;
    sample_init(&s, 5, sample_record);
    CHECK_INT(kb_registry_add(registry, &s.kernel, &inserted, &err), KB_OK);
    const kb_kernel *there = kb_registry_find(registry, s.kernel.key);
    kb_step *own = (kb_step *)(uintptr_t)there->plan.steps; /* as derivatives replace it */
    CHECK(own->host.entry == sample_record);
    own->host.entry = fail;
    CHECK(s.step.host.entry == sample_record);

    kb_frame frame = {.kernel = there};
    CHECK_INT(kb_host_run(&there->plan.steps->host, &frame, &err), KB_INTERNAL);
    CHECK_HAS(err.message, "op5: the kernel failed with status 7");
    sample_free_registry(registry);
}

static void test_match(void)
{
    kb_registry *registry = open_registry();
    kb_error err;
    bool inserted;
    sample s;
    sample_init(&s, 4, sample_record);
    const kb_kernel *found = &s.kernel;
    CHECK_INT(kb_registry_match(registry, s.kernel.digest, &found, &err), KB_NOT_FOUND);
    char text[80];
    snprintf(text, sizeof text, "no kernel with the key %016llx is registered",
             (unsigned long long)s.kernel.key);
    CHECK_TEXT(err.message, text);
    CHECK_PTR(found, NULL);
    CHECK_INT(kb_registry_add(registry, &s.kernel, &inserted, &err), KB_OK);
    CHECK_INT(kb_registry_match(registry, s.kernel.digest, &found, &err), KB_OK);
    CHECK_PTR(found, kb_registry_find(registry, s.kernel.key));
    sample_free_registry(registry);
}

/* Two digests that share the first eight bytes and differ in any one of the others. */
static void test_collision(void)
{
    kb_registry *registry = open_registry();
    kb_error err;
    bool inserted;
    sample first, second;
    sample_init(&first, 8, sample_record);
    sample_init(&second, 8, sample_record);
    first.kernel.name = "first";
    second.kernel.name = "second";
    CHECK_INT(kb_registry_add(registry, &first.kernel, &inserted, &err), KB_OK);
    size_t bytes = kb_registry_count(registry).bytes;
    char text[160];
    snprintf(text, sizeof text,
             "has the key %016llx of first, but another digest; rename a variable in one of the "
             "two kernels to give it another key",
             (unsigned long long)first.kernel.key);
    for (int i = 8; i < KB_DIGEST_SIZE; i++) {
        second.kernel.digest[i] ^= 0x40;
        CHECK_INT(kb_registry_add(registry, &second.kernel, &inserted, &err), KB_ALREADY_EXISTS);
        CHECK(!inserted);
        CHECK(strncmp(err.message, "second ", 7) == 0);
        CHECK_TEXT(strchr(err.message, ' ') + 1, text);

        const kb_kernel *found;
        CHECK_INT(kb_registry_match(registry, second.kernel.digest, &found, &err),
                  KB_ALREADY_EXISTS);
        CHECK(strncmp(err.message, "the kernel of this program ", 27) == 0);
        CHECK_TEXT(err.message + 27, text);
        second.kernel.digest[i] ^= 0x40;
    }
    CHECK_INT(kb_registry_count(registry).kernels, 1);
    CHECK_INT(kb_registry_count(registry).bytes, (long long)bytes);
    sample_free_registry(registry);
}

static void test_extreme_keys(void)
{
    kb_registry *registry = open_registry();
    kb_error err;
    bool inserted;
    const int64_t keys[] = {0, -1, INT64_MIN, INT64_MAX, 1, 63, 64, INT64_MIN + 64};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        sample s;
        sample_init(&s, i, sample_record);
        for (int b = 0; b < 8; b++)
            s.kernel.digest[b] = (uint8_t)((uint64_t)keys[i] >> (8 * b));
        CHECK_PTR(kb_registry_find(registry, keys[i]), NULL);
        CHECK_INT(kb_registry_add(registry, &s.kernel, &inserted, &err), KB_OK);
        CHECK(inserted);
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const kb_kernel *kernel = kb_registry_find(registry, keys[i]);
        if (CHECK(kernel != NULL)) {
            CHECK_INT(kernel->key, keys[i]);
            CHECK_INT(kernel->name[2] - '0', (long long)i);
        }
    }
    sample_free_registry(registry);
}

/* At most half of a table is taken, and the next has twice the size: what is counted grows by the
 * descriptors, and by that table where it is needed. */
static void test_growth_and_stats(void)
{
    enum { N = 10000, HEAD = 2 * sizeof(void *) }; /* of a table */
    kb_registry *registry = open_registry();
    kb_error err;
    bool inserted;
    sample s;
    size_t half = 32, bytes = HEAD + 2 * half * sizeof(void *);
    CHECK_INT(kb_registry_count(registry).kernels, 0);
    CHECK_INT(kb_registry_count(registry).bytes, 0);
    long lost = 0, refused = 0, wrong_stats = 0;
    for (uint64_t id = 0; id < N; id++) {
        sample_init(&s, id, sample_record);
        if (id % 3 == 0)
            sample_input(&s, KB_DTYPE_F32, 1, "of a length of its own");
        refused += kb_registry_add(registry, &s.kernel, &inserted, &err) != KB_OK || !inserted;
        const kb_kernel *there = kb_registry_find(registry, s.kernel.key);
        if (id == half) {
            half *= 2;
            bytes += HEAD + 2 * half * sizeof(void *);
        }
        bytes += there ? there->bytes : 0;
        kb_registry_stats stats = kb_registry_count(registry);
        wrong_stats += stats.kernels != id + 1 || stats.bytes != bytes;
    }
    for (uint64_t id = 0; id < N; id++) {
        sample_init(&s, id, sample_record);
        const kb_kernel *kernel;
        if (kb_registry_match(registry, s.kernel.digest, &kernel, &err) != KB_OK ||
            strcmp(kernel->name, s.name) != 0)
            lost++;
    }
    CHECK_INT(refused, 0);
    CHECK_INT(lost, 0);
    CHECK_INT(wrong_stats, 0);
    CHECK_INT(half, 16384);
    sample_free_registry(registry);
}

/* Four writers each add ids of an overlapping range, four readers look for any of them. */
enum { WRITERS = 4, READERS = 4, PER_WRITER = 1200, STEP = 800 };
enum { IDS = (WRITERS - 1) * STEP + PER_WRITER };

static kb_registry *shared;
static atomic_long wrong;
static atomic_long inserted_total;
static atomic_int writers_left;
static pthread_barrier_t start;

static void *writer(void *argument)
{
    uint64_t first = (uint64_t)(*(int *)argument * STEP);
    pthread_barrier_wait(&start);
    for (uint64_t id = first; id < first + PER_WRITER; id++) {
        sample s;
        kb_error err;
        bool inserted = false;
        sample_init(&s, id, sample_record);
        sample_input(&s, KB_DTYPE_F32, 1, "x");
        if (kb_registry_add(shared, &s.kernel, &inserted, &err) != KB_OK ||
            !kb_registry_find(shared, s.kernel.key))
            atomic_fetch_add(&wrong, 1);
        atomic_fetch_add(&inserted_total, inserted);
    }
    atomic_fetch_sub(&writers_left, 1);
    return NULL;
}

static void *reader(void *argument)
{
    static _Thread_local bool seen[IDS];
    uint64_t x = (uint64_t)(*(int *)argument) + 1;
    pthread_barrier_wait(&start);
    while (atomic_load(&writers_left) > 0) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        uint64_t id = (x >> 33) % IDS;
        uint8_t digest[KB_DIGEST_SIZE];
        sample_digest(digest, id);
        const kb_kernel *kernel = kb_registry_find(shared, kb_digest_key(digest));
        bool whole = kernel && memcmp(kernel->digest, digest, sizeof digest) == 0 &&
                     kernel->n_inputs == 1 && strcmp(kernel->buffers[0].name, "x") == 0;
        if ((kernel && !whole) || (seen[id] && !kernel))
            atomic_fetch_add(&wrong, 1);
        seen[id] |= kernel != NULL;
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[WRITERS + READERS];
    int numbers[WRITERS + READERS];
    shared = open_registry();
    atomic_store(&writers_left, WRITERS);
    pthread_barrier_init(&start, NULL, WRITERS + READERS);
    for (int i = 0; i < WRITERS + READERS; i++) {
        numbers[i] = i;
        CHECK_INT(pthread_create(&threads[i], NULL, i < WRITERS ? writer : reader, &numbers[i]), 0);
    }
    for (int i = 0; i < WRITERS + READERS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);

    CHECK_INT(atomic_load(&wrong), 0);
    CHECK_INT(atomic_load(&inserted_total), IDS);
    CHECK_INT(kb_registry_count(shared).kernels, IDS);
    long missing = 0;
    for (uint64_t id = 0; id < IDS; id++) {
        uint8_t digest[KB_DIGEST_SIZE];
        sample_digest(digest, id);
        missing += !kb_registry_find(shared, kb_digest_key(digest));
    }
    CHECK_INT(missing, 0);
    sample_free_registry(shared);
}

/* Every key has the same place in the table, so that whoever looks for an absent one ends at the
 * entry that the writer fills next: it must not be taken for the one sought. */
enum { CHAIN = 600, CHAIN_ROUNDS = 4 };

static void chain_digest(uint8_t digest[KB_DIGEST_SIZE], uint32_t id)
{
    memset(digest, 0, KB_DIGEST_SIZE);
    memcpy(digest + 4, &id, sizeof id);
}

static void *chain_reader(void *argument)
{
    (void)argument;
    uint8_t digest[KB_DIGEST_SIZE];
    pthread_barrier_wait(&start);
    for (uint32_t id = CHAIN; atomic_load(&writers_left) > 0; id++) {
        chain_digest(digest, id);
        if (kb_registry_find(shared, kb_digest_key(digest)))
            atomic_fetch_add(&wrong, 1);
    }
    return NULL;
}

static void test_absent_while_written(void)
{
    for (int round = 0; round < CHAIN_ROUNDS; round++) {
        pthread_t readers[READERS];
        shared = open_registry();
        atomic_store(&writers_left, 1);
        atomic_store(&wrong, 0);
        pthread_barrier_init(&start, NULL, READERS + 1);
        for (int i = 0; i < READERS; i++)
            CHECK_INT(pthread_create(&readers[i], NULL, chain_reader, NULL), 0);
        pthread_barrier_wait(&start);
        for (uint32_t id = 0; id < CHAIN; id++) {
            sample s;
            kb_error err;
            bool inserted;
            sample_init(&s, id, sample_record);
            chain_digest(s.kernel.digest, id);
            if (kb_registry_add(shared, &s.kernel, &inserted, &err) != KB_OK)
                atomic_fetch_add(&wrong, 1);
        }
        atomic_store(&writers_left, 0);
        for (int i = 0; i < READERS; i++)
            pthread_join(readers[i], NULL);
        pthread_barrier_destroy(&start);
        CHECK_INT(atomic_load(&wrong), 0);
        CHECK_INT(kb_registry_count(shared).kernels, CHAIN);
        sample_free_registry(shared);
    }
}

int main(void)
{
    test_add_and_find();
    test_exchange();
    test_match();
    test_collision();
    test_extreme_keys();
    test_growth_and_stats();
    test_threads();
    test_absent_while_written();
    return kb_test_end("test_registry");
}
