/* NVIDIA's run-time compiler: CUDA device code to a cubin, within the process, without a GPU. The
 * library is opened at the first use and stays. Any thread may enter. */
#ifndef KB_NVRTC_H
#define KB_NVRTC_H

#include "core/kb_error.h"

#include <stddef.h>

typedef struct kb_nvrtc_request {
    const char *library; /* path or name of libnvrtc */
    const char *source;
    const char *file; /* the name by which messages call the source */
    int n_options;
    const char *const *options;
    int n_headers;
    const char *const *headers; /* their contents */
    const char *const *header_names;
    const char *name;  /* of the kernel, as C++ writes it: "scale", "ns::scale<float, 4>" */
    const char *probe; /* another name expression, or NULL */
} kb_nvrtc_request;

/* Every block is freed with kb_free, and NULL where there is nothing. */
typedef struct kb_nvrtc_result {
    char *cubin;
    size_t cubin_size;
    char *ptx;
    char *entry; /* the kernel's name in the cubin */
    char *probe; /* the lowered name of the probe */
    char *log;   /* warnings and errors; set after a failure too */
} kb_nvrtc_result;

/* Compiles to a cubin (or, for a virtual architecture, to PTX). KB_INVALID_ARGUMENT if the compiler
 * refuses the source: why is in the log. KB_NOT_FOUND without the library. */
kb_status kb_nvrtc_compile(const kb_nvrtc_request *request, kb_nvrtc_result *result, kb_error *err);

void kb_nvrtc_free(kb_nvrtc_result *result);

/* From now on, calls of `signal` by the library with this address change nothing; with NULL, those
 * by every library that is loaded and whose file is called libnvrtc. Up to 13.0, NVRTC takes SIGINT
 * and SIGTERM while it compiles for the first time, and its handler ends the process with the
 * status 4, without a word, in whichever thread the signal arrives. */
void kb_nvrtc_keep_signals(const void *inside);

#endif
