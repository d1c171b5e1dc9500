/* Owns the reading of kernels that come as machine code. */
#include "object/kb_host_code.h"

#include "core/kb_arena.h"
#include "core/kb_attrs.h"
#include "core/kb_dtype.h"
#include "core/kb_failures.h"
#include "core/kb_handler.h"
#include "core/kb_reader.h"
#include "core/kb_sha256.h"
#include "object/kb_cpu.h"
#include "object/kb_object.h"
#include "object/kb_provided.h"

#include <string.h>

/* The least that each takes on the wire: bounds the counts. */
enum { BUFFER_SIZE = 12, PLACE_SIZE = 8 };

enum { MAGIC_SIZE = sizeof KB_HOST_CODE_MAGIC - 1 };

/* What a kernel's step points to. It lies in its own arena. */
typedef struct contents {
    kb_arena *arena;
    kb_object *object;
    kb_failures failures;
    kb_step step;
} contents;

typedef struct host_code {
    kb_reader from;
    kb_kernel *kernel;
    contents *contents;
    uint64_t features;
    kb_xla_bytes object;
    bool no_memory;
    const char *wrong; /* the first thing that does not hold */
} host_code;

static void *take(host_code *c, size_t count, size_t size)
{
    void *memory = kb_arena_take(c->contents->arena, count, size);
    c->no_memory |= !memory;
    c->from.failed |= !memory;
    return memory;
}

static void expect(host_code *c, bool holds, const char *what)
{
    if (holds || c->from.failed)
        return;
    c->from.failed = true;
    c->wrong = what;
}

static const char *read_text(host_code *c)
{
    uint32_t size;
    const char *text = kb_read_text(&c->from, &size);
    char *copy = text ? take(c, (size_t)size + 1, 1) : NULL;
    return copy ? memcpy(copy, text, size) : "";
}

static void read_buffers(host_code *c)
{
    kb_kernel *kernel = c->kernel;
    uint32_t *counts[] = {&kernel->n_inputs, &kernel->n_outputs, &kernel->n_hidden};
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        *counts[i] = kb_read_u32(&c->from);
        expect(c, *counts[i] <= KB_BUFFERS_MAX, "a number of buffers");
        n += c->from.failed ? 0 : *counts[i];
    }
    expect(c, n <= c->from.left / BUFFER_SIZE, "a number of buffers");
    kb_buffer_spec *buffers = c->from.failed ? NULL : take(c, (size_t)n + 1, sizeof *buffers);
    for (uint32_t i = 0; i < n && !c->from.failed; i++) {
        buffers[i].dtype = (int32_t)kb_read_u32(&c->from);
        buffers[i].rank = (int32_t)kb_read_u32(&c->from);
        buffers[i].name = read_text(c);
        expect(c, kb_dtype_known(buffers[i].dtype), "a dtype");
        expect(c, buffers[i].rank >= 0 && buffers[i].rank <= KB_RANK_MAX, "a rank");
    }
    kernel->buffers = buffers;
}

static void read_places(host_code *c)
{
    kb_failures *failures = &c->contents->failures;
    uint32_t n = kb_read_count(&c->from, PLACE_SIZE);
    kb_failure_place *places = c->from.failed ? NULL : take(c, (size_t)n + 1, sizeof *places);
    for (uint32_t i = 0; i < n && !c->from.failed; i++) {
        places[i].status = (int32_t)kb_read_u32(&c->from);
        places[i].text = read_text(c);
        expect(c, places[i].status >= KB_NUMBA_USER_EXCEPTION, "the status of an exception");
    }
    *failures = (kb_failures){.n_places = n, .places = places};
}

static kb_status refuse_memory(kb_error *err)
{
    return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory to read a kernel's machine code");
}

static kb_status refuse_damaged(const char *what, kb_error *err)
{
    return kb_error_set(err, KB_INVALID_ARGUMENT,
                        "a kernel's machine code is damaged, or belongs to another kernel: %s does "
                        "not hold",
                        what);
}

/* Reads to the end, and leaves the code itself for later. */
static kb_status read_fields(host_code *c, kb_error *err)
{
    c->features = (uint64_t)kb_read_i64(&c->from);
    c->kernel->name = read_text(c);
    c->kernel->source = read_text(c);
    read_buffers(c);
    read_places(c);
    c->object.size = kb_read_count(&c->from, 1);
    c->object.data = kb_read_bytes(&c->from, c->object.size);
    expect(c, c->from.left == 0, "its end");
    if (!c->from.failed)
        return KB_OK;
    return c->no_memory ? refuse_memory(err)
                        : refuse_damaged(c->wrong ? c->wrong : "its length", err);
}

static kb_status check_header(host_code *c, kb_error *err)
{
    uint8_t computed[KB_SHA256_SIZE];
    const void *magic = kb_read_bytes(&c->from, MAGIC_SIZE);
    uint32_t version = kb_read_u32(&c->from);
    const void *digest = kb_read_bytes(&c->from, KB_SHA256_SIZE);
    if (!magic || memcmp(magic, KB_HOST_CODE_MAGIC, MAGIC_SIZE) != 0)
        return refuse_damaged("its first bytes", err);
    if (!c->from.failed && version != KB_HOST_CODE_VERSION)
        return kb_error_set(err, KB_FAILED_PRECONDITION,
                            "a kernel's machine code has format %u, and this kernbridge reads "
                            "format %d: export the program again with this version",
                            version, KB_HOST_CODE_VERSION);
    if (!digest)
        return refuse_damaged("its length", err);
    kb_sha256 h;
    kb_sha256_begin(&h);
    kb_sha256_add(&h, c->kernel->digest, KB_DIGEST_SIZE);
    kb_sha256_add(&h, c->from.at, c->from.left);
    kb_sha256_end(&h, computed);
    return memcmp(digest, computed, sizeof computed) == 0 ? KB_OK
                                                          : refuse_damaged("its digest", err);
}

/* Whether an error says that whole bytes cannot run in this process. */
static bool is_elsewhere(kb_status status)
{
    return status == KB_NOT_FOUND || status == KB_UNIMPLEMENTED || status == KB_FAILED_PRECONDITION;
}

static kb_status place_code(host_code *c, kb_error *err)
{
    contents *own = c->contents;
    kb_status s = kb_cpu_check(c->features, c->kernel->name, err);
    if (s == KB_OK)
        s = kb_object_load(c->object.data, c->object.size, c->kernel->name, kb_provided_find, NULL,
                           &own->object, err);
    if (is_elsewhere(s))
        return err->status = KB_FAILED_PRECONDITION;
    if (s != KB_OK)
        return s;
    void *entry = kb_object_find(own->object, KB_HOST_CODE_ENTRY);
    if (!entry)
        return refuse_damaged("its entry", err);
    own->step = (kb_step){
        .kind = KB_STEP_HOST,
        .host = {.entry = (kb_numba_entry *)(uintptr_t)entry, .failures = &own->failures},
    };
    c->kernel->plan = (kb_plan){.n_steps = 1, .steps = &own->step};
    c->kernel->bytes = kb_arena_bytes(own->arena) + kb_object_size(own->object);
    return KB_OK;
}

static void free_contents(void *owner)
{
    contents *own = owner;
    kb_object_free(own->object);
    kb_arena_free(own->arena);
}

kb_status kb_host_code_read(const void *bytes, size_t size, const uint8_t digest[KB_DIGEST_SIZE],
                            kb_kernel *kernel, kb_error *err)
{
    *kernel = (kb_kernel){.free_owner = free_contents};
    memcpy(kernel->digest, digest, KB_DIGEST_SIZE);
    host_code c = {.from = kb_reader_of(bytes, size), .kernel = kernel};
    kb_status s = check_header(&c, err);
    if (s != KB_OK)
        return s;
    kb_arena *arena = kb_arena_new();
    c.contents = arena ? kb_arena_take(arena, 1, sizeof *c.contents) : NULL;
    if (!c.contents) {
        if (arena)
            kb_arena_free(arena);
        return refuse_memory(err);
    }
    c.contents->arena = arena;
    kernel->owner = c.contents;
    s = read_fields(&c, err);
    if (s == KB_OK)
        s = place_code(&c, err);
    if (s != KB_OK)
        free_contents(c.contents);
    return s;
}

kb_status kb_host_code_register(const void *bytes, size_t size,
                                const uint8_t digest[KB_DIGEST_SIZE], bool *inserted, kb_error *err)
{
    *inserted = false;
    kb_kernel kernel;
    kb_status s = kb_host_code_read(bytes, size, digest, &kernel, err);
    return s == KB_OK ? kb_handler_register(&kernel, inserted, err) : s;
}

kb_status kb_host_code_load(const kb_xla_frame *frame, const uint8_t digest[KB_DIGEST_SIZE],
                            kb_error *err)
{
    const kb_xla_array *program = KB_ATTRS_FIND(&frame->attrs, "program", KB_XLA_ATTR_ARRAY);
    if (!program || program->dtype != KB_DTYPE_U8 || program->size < MAGIC_SIZE ||
        memcmp(program->data, KB_HOST_CODE_MAGIC, MAGIC_SIZE) != 0)
        return KB_NOT_FOUND;
    bool inserted;
    return kb_host_code_register(program->data, program->size, digest, &inserted, err);
}
