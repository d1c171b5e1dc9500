/* Proves that a program of which one number is out of its range is refused, and with the reason:
 * each case spoils one field of a good program. */
#include "cuda/kb_program.h"
#include "gpu.h"
#include "program.h"
#include "sealed.h"

#include <stdlib.h>

enum { X, N, Y, Z, BEHIND }; /* buffers */
enum { FILL, COPY, FIRST, SECOND };

typedef void spoil(program_text *p);

static void magic(program_text *p)
{
    p->magic = "KBCP";
}

static void inputs(program_text *p)
{
    p->n_inputs = KB_BUFFERS_MAX + 1;
}

static void outputs(program_text *p)
{
    p->n_outputs = UINT32_MAX;
}

static void hidden(program_text *p)
{
    p->n_hidden = 1000; /* more than there are bytes for */
}

static void rank_of_buffer(program_text *p)
{
    p->buffers[N].rank = KB_RANK_MAX + 1;
}

static void negative_rank(program_text *p)
{
    p->buffers[N].rank = -1;
}

static void words_of_function(program_text *p)
{
    p->functions[0].n_words = KB_WORDS_MAX + 1;
    p->n_steps = 0; /* no launch has another number of them */
}

static void sizes_of_parameters(program_text *p)
{
    p->functions[1].n_sizes = 2;
    p->functions[1].sizes[0] = p->functions[1].sizes[1] = 4; /* two words, of one */
}

static void too_few_sizes(program_text *p)
{
    p->functions[0].n_sizes = 1;
    p->functions[0].sizes[0] = 8; /* one word, of six */
}

static void no_size(program_text *p)
{
    p->functions[1].n_sizes = 2; /* the first takes its only word */
    p->functions[1].sizes[0] = 8;
}

static void large_size(program_text *p)
{
    p->functions[1].n_sizes = 1;
    p->functions[1].sizes[0] = KB_PARAMETER_SIZE_MAX + 1;
    p->functions[1].n_words = KB_PARAMETER_SIZE_MAX / 8 + 1;
    p->n_steps = 0; /* no launch has another number of them */
}

static void shared_of_function(program_text *p)
{
    p->functions[1].shared = (uint32_t)INT32_MAX + 1;
}

static void no_images(program_text *p)
{
    p->functions[1].n_images = 0;
}

static void many_images(program_text *p)
{
    p->functions[0].n_images = KB_IMAGES_MAX + 1;
}

static void empty_image(program_text *p)
{
    p->functions[1].images[0].text = "";
}

static void functions(program_text *p)
{
    p->n_functions = UINT32_MAX;
}

static void n_steps(program_text *p)
{
    p->n_steps = UINT32_MAX / 8;
}

static void host_step(program_text *p)
{
    p->steps[FILL].kind = KB_STEP_HOST;
}

static void unknown_step(program_text *p)
{
    p->steps[SECOND].kind = KB_STEP_KINDS;
}

static void callback(program_text *p)
{
    p->steps[SECOND].kind = KB_STEP_CALLBACK;
}

static void function(program_text *p)
{
    p->steps[FIRST].function = 2;
}

static void other_function(program_text *p)
{
    p->steps[FIRST].function = 1; /* it has another number of parameters */
}

static void grid_kind(program_text *p)
{
    p->steps[SECOND].launch.grid[1].kind = (kb_value_kind)(KB_VALUE_COUNT + 1);
}

static void grid_divisor(program_text *p)
{
    p->steps[SECOND].launch.grid[2].divisor = 0;
}

static void grid_constant(program_text *p)
{
    p->steps[SECOND].launch.grid[0].constant = -1;
}

static void grid_count_buffer(program_text *p)
{
    p->steps[FIRST].launch.grid[0].buffer = BEHIND;
}

static void grid_extent_buffer(program_text *p)
{
    p->steps[FIRST].launch.grid[1].buffer = UINT32_MAX;
}

static void grid_axis(program_text *p)
{
    p->steps[FIRST].launch.grid[1].axis = 2;
}

static void grid_axis_of_scalar(program_text *p)
{
    p->steps[FIRST].launch.grid[1] = gpu_extent(N, 0, 1);
}

static void wide_grid_z(program_text *p)
{
    p->steps[FIRST].launch.grid[2] = gpu_constant(2, 1);
}

static void wide_grid_z_kind(program_text *p)
{
    p->steps[FIRST].launch.grid[2] = gpu_extent(X, 0, 1);
}

static void block_0(program_text *p)
{
    p->steps[SECOND].launch.block[1] = 0;
}

static void block_large(program_text *p)
{
    p->steps[SECOND].launch.block[0] = 1025;
}

static void cluster_0(program_text *p)
{
    p->steps[SECOND].launch.cluster[2] = 0;
}

static void cluster_large(program_text *p)
{
    p->steps[SECOND].launch.cluster[1] = 1025;
}

static void shared(program_text *p)
{
    p->steps[SECOND].launch.shared = (uint32_t)INT32_MAX + 1;
}

static void fewer_words(program_text *p)
{
    p->steps[FIRST].launch.n_words = 5;
}

static void many_words(program_text *p)
{
    p->steps[SECOND].launch.n_words = UINT32_MAX;
}

static void word_kind(program_text *p)
{
    p->steps[FIRST].words[0].kind = KB_WORD_COUNT + 1;
}

static void word_kind_of_byte(program_text *p)
{
    p->steps[FIRST].words[0].kind = 256; /* 0 if it was cut */
}

static void word_address_buffer(program_text *p)
{
    p->steps[FIRST].words[1].buffer = BEHIND;
}

static void word_buffer_of_16_bits(program_text *p)
{
    p->steps[FIRST].words[4].buffer = 65536 + Y;
}

static void word_stride_buffer(program_text *p)
{
    p->steps[FIRST].words[4].buffer = BEHIND;
}

static void word_axis(program_text *p)
{
    p->steps[FIRST].words[3].axis = 2;
}

static void word_axis_of_byte(program_text *p)
{
    p->steps[FIRST].words[3].axis = 256;
}

static void word_offset(program_text *p)
{
    p->steps[FIRST].words[2].value = -1;
}

static void word_offset_without_reach(program_text *p)
{
    p->steps[FIRST].words[1].value = 4;
}

static void word_reach_negative(program_text *p)
{
    p->steps[FIRST].words[2].reach = -1;
}

static void word_reach_overflows(program_text *p)
{
    p->steps[FIRST].words[2].value = 100;
    p->steps[FIRST].words[2].reach = INT64_MAX - 99;
}

static void word_reach_overflows_by_one(program_text *p)
{
    p->steps[FIRST].words[2].value = 1;
    p->steps[FIRST].words[2].reach = INT64_MAX;
}

static void zeroed_buffer(program_text *p)
{
    p->steps[FIRST].zeroed[0] = BEHIND;
}

static void zeroed_packed(program_text *p)
{
    p->buffers[Y].dtype = KB_DTYPE_S4;
}

static void many_zeroed(program_text *p)
{
    p->steps[SECOND].launch.n_zeroed = UINT32_MAX / 4;
}

static void fill_buffer(program_text *p)
{
    p->steps[FILL].fill.buffer = BEHIND;
}

static void fill_size_0(program_text *p)
{
    p->steps[FILL].fill.item_size = 0;
}

static void fill_size_3(program_text *p)
{
    p->steps[FILL].fill.item_size = 3;
}

static void fill_size_32(program_text *p)
{
    p->steps[FILL].fill.item_size = 32;
}

static void fill_offset(program_text *p)
{
    p->steps[FILL].fill.offset = -1;
}

static void fill_count(program_text *p)
{
    p->steps[FILL].fill.count.buffer = BEHIND;
}

static void copy_to(program_text *p)
{
    p->steps[COPY].copy.to = BEHIND;
}

static void copy_from(program_text *p)
{
    p->steps[COPY].copy.from = BEHIND;
}

static void copy_to_offset(program_text *p)
{
    p->steps[COPY].copy.to_offset = INT64_MIN;
}

static void copy_from_offset(program_text *p)
{
    p->steps[COPY].copy.from_offset = -8;
}

static void copy_size(program_text *p)
{
    p->steps[COPY].copy.size.divisor = 0;
}

static const struct {
    spoil *spoil;
    const char *what;
} cases[] = {
    {magic, "its first bytes"},
    {inputs, "a number of buffers"},
    {outputs, "a number of buffers"},
    {hidden, "a number of buffers"},
    {rank_of_buffer, "a rank"},
    {negative_rank, "a rank"},
    {words_of_function, "a number of parameters"},
    {sizes_of_parameters, "the size of a parameter"},
    {too_few_sizes, "the size of a parameter"},
    {no_size, "the size of a parameter"},
    {large_size, "the size of a parameter"},
    {shared_of_function, "a size of shared memory"},
    {no_images, "a number of images"},
    {many_images, "a number of images"},
    {empty_image, "an image"},
    {functions, "its length"},
    {n_steps, "its length"},
    {host_step, "a kind of step"},
    {unknown_step, "a kind of step"},
    {callback, "a step that calls Python"},
    {function, "a function"},
    {other_function, "a number of parameters"},
    {grid_kind, "a kind of value"},
    {grid_divisor, "a divisor"},
    {grid_constant, "a constant"},
    {grid_count_buffer, "a buffer"},
    {grid_extent_buffer, "a buffer"},
    {grid_axis, "an axis"},
    {grid_axis_of_scalar, "an axis"},
    {wide_grid_z, "the grid of a wide launch"},
    {wide_grid_z_kind, "the grid of a wide launch"},
    {block_0, "a block"},
    {block_large, "a block"},
    {cluster_0, "a cluster"},
    {cluster_large, "a cluster"},
    {shared, "a size of shared memory"},
    {fewer_words, NULL},
    {many_words, "its length"},
    {word_kind, "a kind of parameter"},
    {word_kind_of_byte, "a kind of parameter"},
    {word_address_buffer, "a buffer"},
    {word_buffer_of_16_bits, "a buffer"},
    {word_stride_buffer, "a buffer"},
    {word_axis, "an axis"},
    {word_axis_of_byte, "an axis"},
    {word_offset, "an offset"},
    {word_offset_without_reach, "a reach"},
    {word_reach_negative, "an offset"},
    {word_reach_overflows, "a reach"},
    {word_reach_overflows_by_one, "a reach"},
    {zeroed_buffer, "a buffer"},
    {zeroed_packed, "an output to be zeroed"},
    {many_zeroed, "its length"},
    {fill_buffer, "a buffer"},
    {fill_size_0, "the size of an element"},
    {fill_size_3, "the size of an element"},
    {fill_size_32, "the size of an element"},
    {fill_offset, "an offset"},
    {fill_count, "a buffer"},
    {copy_to, "a buffer"},
    {copy_from, "a buffer"},
    {copy_to_offset, "an offset"},
    {copy_from_offset, "an offset"},
    {copy_size, "a divisor"},
};

/* Without the bytes of its end. */
static bool refuses_without(const program_text *p, size_t end, const char *what)
{
    static const uint8_t digest[KB_DIGEST_SIZE];
    size_t size;
    kb_kernel kernel;
    kb_error err;
    char text[256];
    uint8_t *bytes = program_write(p, digest, &size);
    sealed_sign(bytes, size - end, digest, KB_DIGEST_SIZE);
    kb_status s = kb_program_read(bytes, size - end, digest, false, &kernel, &err);
    free(bytes);
    if (s == KB_OK)
        kernel.free_owner(kernel.owner);
    if (s == KB_OK || !what)
        return s != KB_OK;
    CHECK_INT(s, KB_INVALID_ARGUMENT);
    snprintf(text, sizeof text,
             "a kernel's program is damaged, or of another version of kernbridge: the check of %s "
             "failed",
             what);
    return CHECK_TEXT(err.message, text);
}

static bool refuses(const program_text *p, const char *what)
{
    return refuses_without(p, 0, what);
}

/* Of things that take the least that each can take there are as many as fit, and what is wrong with
 * the first is told, or one more, which is told before any is read. The numbers of functions and of
 * steps take four bytes each. */
static void test_least(void)
{
    enum { COUNT = 4 };
    program_text good, p;
    program_init(&good);
    good.n_inputs = PROGRAM_BUFFERS, good.n_outputs = good.n_hidden = 0;
    good.n_functions = good.n_steps = 0;
    for (int i = 0; i < PROGRAM_BUFFERS; i++)
        good.buffers[i] = (program_buffer){KB_DTYPE_F32, 1, ""};
    CHECK(!refuses(&good, ""));
    CHECK(refuses_without(&good, COUNT, "its length"));
    CHECK(refuses_without(&good, 2 * COUNT, "its length"));
    CHECK(refuses_without(&good, 2 * COUNT + 1, "a number of buffers"));
    p = good, p.n_hidden = 1; /* which has no bytes */
    CHECK(refuses(&p, "a number of buffers"));

    p = good, p.n_functions = PROGRAM_FUNCTIONS;
    for (int i = 0; i < PROGRAM_FUNCTIONS; i++)
        p.functions[i] = (program_function){.entry = ""};
    CHECK(refuses_without(&p, COUNT, "a number of images"));
    CHECK(refuses_without(&p, COUNT + 1, "its length"));

    p = good, p.n_functions = 1;
    p.functions[0] = (program_function){.entry = "", .n_images = 3};
    CHECK(refuses_without(&p, COUNT, "an image"));
    CHECK(refuses_without(&p, COUNT + 1, "its length"));

    p = good, p.n_steps = PROGRAM_STEPS;
    for (int i = 0; i < PROGRAM_STEPS; i++)
        p.steps[i].kind = KB_STEP_CALLBACK;
    CHECK(refuses(&p, "a step that calls Python"));
    CHECK(refuses_without(&p, 1, "its length"));

    program_init(&p);
    p.n_steps = 1;
    p.steps[0] = p.steps[FIRST];
    p.steps[0].launch.n_zeroed = 0;
    p.steps[0].words[0].kind = KB_WORD_COUNT + 1;
    CHECK(refuses_without(&p, COUNT, "a kind of parameter"));
    CHECK(refuses_without(&p, COUNT + 1, "its length"));
}

static void test_version(void)
{
    static const uint8_t digest[KB_DIGEST_SIZE];
    program_text p;
    size_t size;
    kb_kernel kernel;
    kb_error err;
    char text[256];
    program_init(&p);
    for (int more = -1; more <= 1; more += 2) {
        p.version = (uint32_t)(KB_PROGRAM_VERSION + more);
        uint8_t *bytes = program_write(&p, digest, &size);
        CHECK_INT(kb_program_read(bytes, size, digest, false, &kernel, &err),
                  KB_FAILED_PRECONDITION);
        snprintf(text, sizeof text,
                 "a kernel's program has format %d, and this kernbridge reads format %d: export "
                 "the program again with this version",
                 KB_PROGRAM_VERSION + more, KB_PROGRAM_VERSION);
        CHECK_TEXT(err.message, text);
        free(bytes);
    }
}

int main(void)
{
    program_text p;
    program_init(&p);
    CHECK(!refuses(&p, "")); /* the good one */
    test_version();
    test_least();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_init(&p);
        cases[i].spoil(&p);
        if (!CHECK(refuses(&p, cases[i].what)))
            fprintf(stderr, "case %zu (%s) was not refused so\n", i, cases[i].what);
    }
    kb_function_free_all();
    return kb_test_end("test_program_refused");
}
