/* Proves who holds GPU functions and images, that they go with the last holder, and that nobody
 * waits for a load but those who need what is loaded. */
#include "cuda/kb_function.h"
#include "cuda/kb_target.h"
#include "sealed.h"
#include "target.h"

#include "core/kb_handler.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { PROGRAMS = 1000, THREADS = 4 };

static const kb_driver *cu;

static kb_function *hold(uint64_t id, const char *text)
{
    kb_image image = {90, text, strlen(text) + 1};
    kb_function from = {.entry = "k", .n_images = 1, .images = &image};
    kb_function *f = NULL;
    kb_error err;
    sample_digest(from.digest, id);
    CHECK_INT(kb_function_hold(&from, &f, &err), KB_OK);
    return f;
}

static void check_count(size_t functions, size_t images)
{
    const struct kb_function_stats stats = kb_function_count;
    CHECK_INT(stats.functions, (long long)functions);
    CHECK_INT(stats.images, (long long)images);
    CHECK((stats.bytes > 0) == (functions > 0));
}

/* Bytes of functions, each as it says, and of images, of which each has a little more than its own.
 */
static void check_bytes(size_t functions, size_t contents)
{
    const struct kb_function_stats stats = kb_function_count;
    size_t bytes = stats.bytes - functions;
    CHECK(bytes >= contents && bytes <= contents + 128 * stats.images);
}

static void test_last_holder(void)
{
    kb_error err;
    kb_cu_kernel kernel;
    check_count(0, 0);
    kb_function *f = hold(1, "FAKE k 0\n"), *again = hold(1, "FAKE k 0\n");
    kb_function *other = hold(2, "FAKE k 0\n"), *third = hold(3, "FAKE k 0 \n");
    CHECK_PTR(again, f);
    CHECK_PTR(other->images[0].bytes, f->images[0].bytes);
    CHECK_INT((uintptr_t)f->images[0].bytes % 16, 0);
    CHECK_INT(((const char *)f->images[0].bytes)[f->images[0].size], 0);
    check_count(3, 2);
    check_bytes(f->size + other->size + third->size, sizeof "FAKE k 0\n" + sizeof "FAKE k 0 \n");
    size_t bytes = kb_function_count.bytes;
    CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_OK);
    CHECK_INT(kb_function_load(other, cu, 0, "op", &kernel, &err), KB_OK);
    CHECK_INT(kb_function_load(third, cu, 0, "op", &kernel, &err), KB_OK);
    CHECK_INT(fake_cuda_n_libraries(), 2); /* one for each content */
    CHECK_INT(kb_function_count.loads, 3);
    kb_function_drop(f);
    check_count(3, 2);
    kb_function_drop(f);
    check_count(2, 2);
    CHECK(kb_function_count.bytes < bytes);
    CHECK_INT(fake_cuda_n_libraries(), 2);
    kb_function_drop(other);
    check_count(1, 1);
    CHECK_INT(fake_cuda_n_libraries(), 1);
    kb_function_drop(third);
    check_count(0, 0);
    CHECK_INT(fake_cuda_n_libraries(), 0);
    char large[1 << 16] = "FAKE k 0\n";
    memset(large + strlen(large), ' ', sizeof large - strlen(large) - 1);
    kb_function *fourth = hold(4, large);
    CHECK(kb_function_count.bytes > sizeof large); /* its image included */
    check_bytes(fourth->size, sizeof large);
    CHECK(fourth->size >= sizeof *fourth && fourth->size < sizeof *fourth + 128);
    kb_function_drop(fourth);
}

/* Contents of one size are told apart wherever they differ, and found again in any order. */
static void test_many_contents(void)
{
    enum { CONTENTS = 60, SIZE = 24 };
    char contents[CONTENTS][SIZE] = {{0}};
    kb_code *codes[CONTENTS];
    for (int i = 0; i < CONTENTS; i++) {
        snprintf(contents[i], SIZE, "FAKE k 0");
        contents[i][i * 7 % SIZE] = (char)(i + 1);
        codes[i] = kb_code_hold(contents[i], SIZE);
    }
    CHECK_INT(kb_function_count.images, CONTENTS);
    for (int i = CONTENTS; i-- > 0;) {
        CHECK_PTR(kb_code_hold(contents[i], SIZE), codes[i]);
        CHECK_INT(memcmp(kb_code_bytes(codes[i]), contents[i], SIZE), 0);
        kb_code_drop(codes[i]);
    }
    for (int i = 0; i < CONTENTS; i++)
        kb_code_drop(codes[i * 7 % CONTENTS]);
    check_count(0, 0);
}

static kb_status add_program(uint64_t id, const program_text *p, size_t cut, bool *inserted)
{
    uint8_t digest[KB_DIGEST_SIZE];
    size_t size;
    kb_error err;
    sample_digest(digest, id);
    uint8_t *bytes = program_write(p, digest, &size);
    sealed_sign(bytes, size - cut, digest, KB_DIGEST_SIZE);
    kb_status s = kb_target_register(bytes, size - cut, digest, NULL, inserted, &err);
    free(bytes);
    return s;
}

/* Programs that are registered already, or damaged behind their functions, leave nothing; and one
 * that is registered keeps its functions. */
static void test_programs(void)
{
    program_text p;
    bool inserted;
    char entry[32];
    program_simple(&p, 1, "first");
    CHECK_INT(add_program(1, &p, 0, &inserted), KB_OK);
    CHECK(inserted);
    check_count(1, 1);
    kb_registry_stats registered = kb_registry_count(&kb_handler_registry);
    size_t bytes = kb_function_count.bytes;
    for (int i = 0; i < PROGRAMS; i++) {
        CHECK_INT(add_program(1, &p, 0, &inserted), KB_OK);
        CHECK(!inserted);
    }
    for (int i = 0; i < PROGRAMS; i++) {
        snprintf(entry, sizeof entry, "damaged%d", i);
        program_simple(&p, (uint64_t)i + 2, entry);
        CHECK_INT(add_program((uint64_t)i + 2, &p, 1, &inserted), KB_INVALID_ARGUMENT);
        CHECK(!inserted);
    }
    check_count(1, 1);
    CHECK_INT(kb_function_count.bytes, (long long)bytes);
    CHECK_INT(kb_registry_count(&kb_handler_registry).kernels, (long long)registered.kernels);
    CHECK_INT(kb_registry_count(&kb_handler_registry).bytes, (long long)registered.bytes);
}

/* What a program owns counts among the bytes of the registry. */
static void test_bytes_of_programs(void)
{
    static char name[100000];
    program_text p;
    bool inserted;
    memset(name, 'n', sizeof name - 1);
    program_simple(&p, 5000, "large");
    p.name = name;
    size_t before = kb_registry_count(&kb_handler_registry).bytes;
    CHECK_INT(add_program(5000, &p, 0, &inserted), KB_OK);
    CHECK(kb_registry_count(&kb_handler_registry).bytes - before >= 2 * sizeof name);
}

static atomic_int entered, allowed;
static kb_function *slow_function;

static void wait_for(atomic_int *what)
{
    while (!atomic_load(what))
        sched_yield();
}

/* A load that ends when another thread has registered and counted, as a load that needs the holder
 * of a lock which that thread has. */
static kb_cu_result load_slowly(kb_cu_library *library, const void *image, void *jit_options,
                                void **jit_values, unsigned int n_jit, void *options, void **values,
                                unsigned int n_options)
{
    atomic_store(&entered, 1);
    wait_for(&allowed);
    return cu->cuLibraryLoadData(library, image, jit_options, jit_values, n_jit, options, values,
                                 n_options);
}

static void *load(void *kernel)
{
    kb_driver slow = *cu;
    kb_error err;
    slow.cuLibraryLoadData = load_slowly;
    gpu_use_device(0);
    CHECK_INT(kb_function_load(slow_function, &slow, 0, "op", kernel, &err), KB_OK);
    return NULL;
}

static void test_nobody_waits(void)
{
    pthread_t threads[THREADS];
    kb_cu_kernel kernels[THREADS], kernel;
    kb_error err;
    alarm(60); /* ends the test where somebody waits for ever */
    size_t loads = kb_function_count.loads, functions = kb_function_count.functions;
    fake_cuda_reset();
    slow_function = hold(6000, "FAKE k 0  \n");
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, load, &kernels[i]);
    wait_for(&entered);
    kb_function *f = hold(6001, "FAKE k 0   \n");
    CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_OK);
    CHECK_INT(kb_function_count.functions, (long long)functions + 2);
    CHECK_INT(kb_function_count.loads, (long long)loads + 1);
    CHECK_PTR(hold(6000, "FAKE k 0  \n"), slow_function);
    atomic_store(&allowed, 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_PTR(kernels[i], kb_function_kernel(slow_function, 0));
    }
    CHECK_INT(fake_cuda_calls("cuLibraryLoadData"), 2);
    CHECK_INT(kb_function_count.loads, (long long)loads + 2);
    alarm(0);
}

static kb_cu_result get_slowly(kb_cu_kernel *kernel, kb_cu_library library, const char *name)
{
    atomic_store(&entered, 1);
    wait_for(&allowed);
    return cu->cuLibraryGetKernel(kernel, library, name);
}

static void *load_on_second(void *kernel)
{
    kb_driver slow = *cu;
    kb_error err;
    slow.cuLibraryGetKernel = get_slowly;
    gpu_use_device(1);
    CHECK_INT(kb_function_load(slow_function, &slow, 1, "op", kernel, &err), KB_OK);
    return NULL;
}

/* Whoever has all that is needed on one device does not wait for the load on another. */
static void test_other_device(void)
{
    pthread_t thread;
    kb_cu_kernel first, second, again = NULL;
    kb_error err;
    alarm(60);
    fake_cuda_reset();
    atomic_store(&entered, 0);
    atomic_store(&allowed, 0);
    slow_function = hold(6002, "FAKE k 0    \n");
    CHECK_INT(kb_function_load(slow_function, cu, 0, "op", &first, &err), KB_OK);
    pthread_create(&thread, NULL, load_on_second, &second);
    wait_for(&entered);
    CHECK_INT(kb_function_load(slow_function, cu, 0, "op", &again, &err), KB_OK);
    CHECK_PTR(again, first);
    CHECK_INT(kb_function_allow_shared(slow_function, cu, 0, 48 * 1024, "op", &err), KB_OK);
    CHECK_PTR(kb_function_kernel(slow_function, 1), NULL);
    atomic_store(&allowed, 1);
    pthread_join(thread, NULL);
    CHECK_PTR(kb_function_kernel(slow_function, 1), second);
    alarm(0);
}

int main(void)
{
    cu = gpu_start();
    test_last_holder();
    test_many_contents();
    test_programs();
    test_bytes_of_programs();
    test_nobody_waits();
    test_other_device();
    kb_function_free_all();
    check_count(0, 0);
    return kb_test_end("test_function_release");
}
