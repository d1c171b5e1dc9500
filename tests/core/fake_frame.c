/* Owns the building of call frames. */
#include "fake_xla.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy of `size` bytes in a block of exactly that size, freed with the frame. */
static void *keep(fake_frame *f, const void *data, size_t size)
{
    void **blocks = realloc(f->blocks, (f->n_blocks + 1) * sizeof *blocks);
    void *block = malloc(size);
    if (!blocks || (!block && size)) {
        fputs("fake_frame: no memory\n", stderr);
        abort();
    }
    if (size)
        memcpy(block, data, size);
    f->blocks = blocks;
    f->blocks[f->n_blocks++] = block;
    return block;
}

/* A copy of an array of `n` elements with one more at the place `at`. */
static void *grown(fake_frame *f, const void *old, size_t n, size_t element, size_t at,
                   const void *value)
{
    char *block = malloc((n + 1) * element);
    if (!block)
        abort();
    if (at)
        memcpy(block, old, at * element);
    memcpy(block + at * element, value, element);
    if (n > at)
        memcpy(block + (at + 1) * element, (const char *)old + at * element, (n - at) * element);
    void *kept = keep(f, block, (n + 1) * element);
    free(block);
    return kept;
}

void fake_frame_init(fake_frame *f, const kb_xla_api *api, int32_t stage)
{
    *f = (fake_frame){
        .frame = {.struct_size = KB_XLA_SIZE(kb_xla_frame, attrs),
                  .api = api,
                  .stage = stage,
                  .args = {.struct_size = KB_XLA_SIZE(kb_xla_buffers, buffers)},
                  .rets = {.struct_size = KB_XLA_SIZE(kb_xla_buffers, buffers)},
                  .attrs = {.struct_size = KB_XLA_SIZE(kb_xla_attrs, values)}},
    };
}

void fake_frame_free(fake_frame *f)
{
    for (size_t i = 0; i < f->n_blocks; i++)
        free(f->blocks[i]);
    free(f->blocks);
    *f = (fake_frame){0};
}

static kb_xla_buffer *add_buffer(fake_frame *f, kb_xla_buffers *list, kb_xla_buffer buffer)
{
    buffer.struct_size = KB_XLA_SIZE(kb_xla_buffer, dims);
    buffer.dims = keep(f, buffer.dims, (size_t)buffer.rank * sizeof *buffer.dims);
    kb_xla_buffer *kept = keep(f, &buffer, sizeof buffer);
    void *pointer = kept;
    int32_t type = KB_XLA_BUFFER;
    size_t n = (size_t)list->size;
    list->buffers = grown(f, list->buffers, n, sizeof pointer, n, &pointer);
    list->types = grown(f, list->types, n, sizeof type, n, &type);
    list->size++;
    return kept;
}

kb_xla_buffer *fake_arg(fake_frame *f, int32_t dtype, void *data, int64_t rank, const int64_t *dims)
{
    kb_xla_buffer buffer = {.dtype = dtype, .data = data, .rank = rank, .dims = (int64_t *)dims};
    return add_buffer(f, &f->frame.args, buffer);
}

kb_xla_buffer *fake_ret(fake_frame *f, int32_t dtype, void *data, int64_t rank, const int64_t *dims)
{
    kb_xla_buffer buffer = {.dtype = dtype, .data = data, .rank = rank, .dims = (int64_t *)dims};
    return add_buffer(f, &f->frame.rets, buffer);
}

static int compare_name(const kb_xla_bytes *span, const char *name)
{
    size_t size = strlen(name), least = span->size < size ? span->size : size;
    int order = memcmp(span->data, name, least);
    return order ? order : (span->size > size) - (span->size < size);
}

void fake_attr(fake_frame *f, const char *name, int32_t type, void *value)
{
    fake_attr_remove(f, name);
    kb_xla_attrs *attrs = &f->frame.attrs;
    size_t n = (size_t)attrs->size, at = 0;
    while (at < n && compare_name(attrs->names[at], name) < 0)
        at++;
    kb_xla_bytes span = {.data = keep(f, name, strlen(name)), .size = strlen(name)};
    void *kept = keep(f, &span, sizeof span);
    attrs->names = grown(f, attrs->names, n, sizeof kept, at, &kept);
    attrs->types = grown(f, attrs->types, n, sizeof type, at, &type);
    attrs->values = grown(f, attrs->values, n, sizeof value, at, &value);
    attrs->size++;
}

void fake_attr_remove(fake_frame *f, const char *name)
{
    kb_xla_attrs *attrs = &f->frame.attrs;
    for (int64_t i = 0; i < attrs->size; i++) {
        if (compare_name(attrs->names[i], name) != 0)
            continue;
        size_t rest = (size_t)(attrs->size - i - 1);
        memmove(&attrs->names[i], &attrs->names[i + 1], rest * sizeof *attrs->names);
        memmove(&attrs->types[i], &attrs->types[i + 1], rest * sizeof *attrs->types);
        memmove(&attrs->values[i], &attrs->values[i + 1], rest * sizeof *attrs->values);
        attrs->size--;
        return;
    }
}

kb_xla_scalar *fake_attr_scalar(fake_frame *f, const char *name, int32_t dtype, const void *value,
                                size_t value_size)
{
    kb_xla_scalar scalar = {.dtype = dtype, .value = keep(f, value, value_size)};
    kb_xla_scalar *kept = keep(f, &scalar, sizeof scalar);
    fake_attr(f, name, KB_XLA_ATTR_SCALAR, kept);
    return kept;
}

kb_xla_array *fake_attr_array(fake_frame *f, const char *name, int32_t dtype, size_t size,
                              const void *data, size_t n_bytes)
{
    kb_xla_array array = {.dtype = dtype, .size = size, .data = keep(f, data, n_bytes)};
    kb_xla_array *kept = keep(f, &array, sizeof array);
    fake_attr(f, name, KB_XLA_ATTR_ARRAY, kept);
    return kept;
}

kb_xla_bytes *fake_attr_string(fake_frame *f, const char *name, const char *data, size_t size)
{
    kb_xla_bytes span = {.data = keep(f, data, size), .size = size};
    kb_xla_bytes *kept = keep(f, &span, sizeof span);
    fake_attr(f, name, KB_XLA_ATTR_STRING, kept);
    return kept;
}

void fake_ask_metadata(fake_frame *f)
{
    f->metadata = (kb_xla_metadata){
        .struct_size = KB_XLA_SIZE(kb_xla_metadata, traits),
        .api_version = {.struct_size = KB_XLA_SIZE(kb_xla_api_version, minor_version),
                        .major_version = -1,
                        .minor_version = -1},
        .traits = UINT32_MAX,
    };
    f->extension = (kb_xla_metadata_extension){
        .base = {.struct_size = KB_XLA_SIZE(kb_xla_metadata_extension, metadata),
                 .type = KB_XLA_EXTENSION_METADATA},
        .metadata = &f->metadata,
    };
    f->frame.extension_start = &f->extension.base;
}
