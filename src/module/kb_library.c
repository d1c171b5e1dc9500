/* Owns the libraries that programs carry: one open copy for each content. */
#include "module/kb_library.h"

#include "core/kb_checksum.h"
#include "core/kb_dtype.h"
#include "core/kb_fields.h"
#include "module/kb_module.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct carried {
    kb_fields fields;
    kb_kernel kernel;
    const char *function;
    bool zeroed;
    uint32_t n_values;
    const void *values[KB_ATTRIBUTES_MAX];
    size_t sizes[KB_ATTRIBUTES_MAX];
    kb_xla_bytes library;
} carried;

typedef struct opened {
    struct opened *next;
    uint8_t sha[KB_SHA256_SIZE];
    void *library;
} opened;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held while a library is opened */
static opened *all;                                      /* under it; never freed */

static void read_values(carried *c)
{
    kb_fields *f = &c->fields;
    c->n_values = kb_read_u32(&f->from);
    kb_fields_expect(f, c->n_values <= KB_ATTRIBUTES_MAX, "a number of attributes");
    for (uint32_t i = 0; i < c->n_values && !f->from.failed; i++) {
        c->sizes[i] = kb_read_u32(&f->from);
        kb_fields_expect(f, c->sizes[i] > 0 && c->sizes[i] <= KB_ATTRIBUTE_SIZE_MAX,
                         "the size of an attribute");
        c->values[i] = kb_read_bytes(&f->from, c->sizes[i]);
    }
}

static kb_status read_fields(carried *c, kb_error *err)
{
    kb_fields *f = &c->fields;
    c->kernel.name = kb_fields_text(f);
    c->kernel.source = kb_fields_text(f);
    kb_fields_buffers(f, &c->kernel);
    kb_fields_expect(f, c->kernel.n_hidden == 0, "a number of buffers");
    for (uint32_t i = 0; !f->from.failed && i < kb_kernel_n_buffers(&c->kernel); i++)
        kb_fields_expect(f, kb_dtype_known(c->kernel.buffers[i].dtype), "a dtype");
    c->function = kb_fields_text(f);
    uint32_t zeroed = kb_read_u32(&f->from);
    kb_fields_expect(f, zeroed <= 1, "whether outputs are zeroed");
    c->zeroed = zeroed;
    read_values(c);
    c->library = kb_fields_bytes(f);
    kb_fields_expect(f, f->from.left == 0, "its end");
    return kb_fields_check(f, err);
}

kb_status kb_library_open(const kb_xla_bytes *bytes, void **library, kb_error *err)
{
    opened *o = calloc(1, sizeof *o);
    if (!o)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory to open a library");
    kb_sha256 h;
    kb_sha256_begin(&h);
    kb_sha256_add(&h, bytes->data, bytes->size);
    kb_sha256_end(&h, o->sha);
    pthread_mutex_lock(&lock);
    const opened *known = all;
    while (known && memcmp(known->sha, o->sha, sizeof o->sha) != 0)
        known = known->next;
    kb_status s = known ? KB_OK : kb_module_open_bytes(bytes, &o->library, err);
    if (!known && s == KB_OK) {
        o->next = all;
        known = all = o;
    }
    if (known)
        *library = known->library;
    pthread_mutex_unlock(&lock);
    if (known != o)
        free(o);
    return s;
}

static kb_status find_function(const carried *c, kb_source_step *step, kb_error *err)
{
    void *library = NULL;
    const kb_module *module = NULL;
    kb_status s = kb_library_open(&c->library, &library, err);
    if (s == KB_OK)
        s = kb_module_describe(library, &module, err);
    for (int32_t i = 0; s == KB_OK && module && i < module->n_exports; i++)
        if (strcmp(module->exports[i].name, c->function) == 0) {
            step->run = module->exports[i].run;
            step->last_error = module->last_error;
            return KB_OK;
        }
    if (s == KB_OK)
        return kb_fields_refuse(&c->fields, "what it defines", err);
    kb_error_append(err, " (in %s, which the program carries)", c->kernel.name);
    return s == KB_RESOURCE_EXHAUSTED ? s : (err->status = KB_FAILED_PRECONDITION);
}

static kb_status read_and_register(carried *c, const kb_source_step *function, bool *inserted,
                                   kb_error *err)
{
    kb_source_step step = {.n_attributes = 0};
    kb_step plan_step;
    kb_status s = read_fields(c, err);
    if (s == KB_OK && function)
        step = *function;
    else if (s == KB_OK)
        s = find_function(c, &step, err);
    if (s != KB_OK)
        return s;
    step.zeroed = c->zeroed;
    step.n_attributes = c->n_values;
    step.attributes = c->values;
    s = kb_source_plan(&step, c->sizes, &c->kernel, &plan_step, err);
    return s == KB_OK ? kb_handler_register(&c->kernel, inserted, err) : s;
}

kb_status kb_library_register(const void *bytes, size_t size, const uint8_t digest[KB_DIGEST_SIZE],
                              const void *local, bool *inserted, kb_error *err)
{
    *inserted = false;
    carried c = {.fields = {.from = kb_reader_of(bytes, size),
                            .what = "the library of a kernel",
                            .whole = "belongs to another kernel"}};
    kb_status s =
        kb_fields_begin(&c.fields, KB_LIBRARY_MAGIC, KB_LIBRARY_VERSION, digest, 0, &c.kernel, err);
    if (s != KB_OK)
        return s;
    s = read_and_register(&c, local, inserted, err);
    kb_arena_free(c.fields.arena); /* the registry has copies */
    return s;
}
