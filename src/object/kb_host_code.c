/* Owns the reading of kernels that come as machine code. */
#include "object/kb_host_code.h"

#include "core/kb_arena.h"
#include "core/kb_checksum.h"
#include "core/kb_dtype.h"
#include "core/kb_fields.h"
#include "core/kb_handler.h"
#include "core/kb_host.h"
#include "object/kb_object.h"
#include "object/kb_provided.h"

#include <string.h>

enum { PLACE_SIZE = 8 }; /* the least that it takes on the wire: bounds the count */

/* What a kernel's step points to. It lies in its own arena. */
typedef struct contents {
    kb_arena *arena;
    kb_object *object;
    kb_failures failures;
    kb_step step;
} contents;

typedef struct host_code {
    kb_fields fields;
    kb_kernel *kernel;
    contents *contents;
    uint64_t features;
    kb_xla_bytes object;
} host_code;

static void read_places(host_code *c)
{
    kb_fields *f = &c->fields;
    uint32_t n = kb_read_count(&f->from, PLACE_SIZE);
    kb_failure_place *places = f->from.failed ? NULL : kb_fields_take(f, n, sizeof *places);
    for (uint32_t i = 0; i < n && !f->from.failed; i++) {
        places[i].status = (int32_t)kb_read_u32(&f->from);
        places[i].text = kb_fields_text(f);
        kb_fields_expect(f, places[i].status >= KB_NUMBA_USER_EXCEPTION,
                         "the status of an exception");
    }
    c->contents->failures = (kb_failures){.n_places = n, .places = places};
}

/* Reads to the end, and leaves the code itself for later. */
static kb_status read_fields(host_code *c, kb_error *err)
{
    kb_fields *f = &c->fields;
    c->features = (uint64_t)kb_read_i64(&f->from);
    c->kernel->name = kb_fields_text(f);
    c->kernel->source = kb_fields_text(f);
    kb_fields_buffers(f, c->kernel);
    for (uint32_t i = 0; !f->from.failed && i < kb_kernel_n_buffers(c->kernel); i++)
        kb_fields_expect(f, kb_dtype_known(c->kernel->buffers[i].dtype), "a dtype");
    read_places(c);
    c->object = kb_fields_bytes(f);
    kb_fields_expect(f, f->from.left == 0, "its end");
    return kb_fields_check(f, err);
}

static kb_status place_code(host_code *c, kb_error *err)
{
    contents *own = c->contents;
    kb_status s = kb_object_place(c->features, c->object.data, c->object.size, c->kernel->name,
                                  kb_provided_find, &own->object, err);
    if (s != KB_OK)
        return s;
    void *entry = kb_object_find(own->object, KB_HOST_CODE_ENTRY);
    if (!entry)
        return kb_fields_refuse(&c->fields, "its entry", err);
    own->step = (kb_step){
        .kind = KB_STEP_HOST,
        .host = {.entry = (kb_numba_entry *)(uintptr_t)entry,
                 .concurrent = !kb_object_has_variables(own->object),
                 .failures = &own->failures},
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
                            const kb_host_step *step, kb_kernel *kernel, kb_error *err)
{
    *kernel = (kb_kernel){.free_owner = free_contents};
    host_code c = {
        .fields = {.from = kb_reader_of(bytes, size),
                   .what = "a kernel's machine code",
                   .whole = "belongs to another kernel"},
        .kernel = kernel,
    };
    kb_status s = kb_fields_begin(&c.fields, KB_HOST_CODE_MAGIC, KB_HOST_CODE_VERSION, digest,
                                  sizeof *c.contents, kernel, err);
    if (s != KB_OK)
        return s;
    c.contents = kernel->owner;
    c.contents->arena = c.fields.arena;
    s = read_fields(&c, err);
    if (s == KB_OK && step) {
        c.contents->step = (kb_step){.kind = KB_STEP_HOST, .host = *step};
        kernel->plan = (kb_plan){.n_steps = 1, .steps = &c.contents->step};
        kernel->bytes = kb_arena_bytes(c.fields.arena);
    } else if (s == KB_OK) {
        s = place_code(&c, err);
    }
    if (s != KB_OK)
        free_contents(c.contents);
    return s;
}

kb_status kb_host_code_register(const void *bytes, size_t size,
                                const uint8_t digest[KB_DIGEST_SIZE], const void *local,
                                bool *inserted, kb_error *err)
{
    *inserted = false;
    kb_kernel kernel;
    kb_status s = kb_host_code_read(bytes, size, digest, local, &kernel, err);
    return s == KB_OK ? kb_handler_register(&kernel, inserted, err) : s;
}
