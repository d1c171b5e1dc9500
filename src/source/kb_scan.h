/* Scans a source for functions and kernels that are to be called, and for the names and roles of
 * their parameters. Their types are left to the compiler. Not to be entered by two threads with one
 * result; nothing else is shared. */
#ifndef KB_SCAN_H
#define KB_SCAN_H

#include "source/kb_agree.h"

enum { KB_SCAN_FUNCTIONS = 4096 };

/* A function that the caller names. */
typedef struct kb_given {
    kb_text name;
    kb_text tokens; /* with blanks between them */
    bool infer;     /* there are none */
} kb_given;

/* Texts lie in the source, in what was given, and in the arena. */
typedef struct kb_scan {
    struct kb_arena *arena;
    kb_described *functions;
    uint32_t n;
} kb_scan;

/* The functions that the source annotates, in its order; if `given` is no NULL, those instead. On
 * KB_OK the scan is to be freed; a source that does not say what a function takes, or says two
 * things, is KB_INVALID_ARGUMENT. `bytes`: in C and in machine code, arrays must be declared. */
kb_status kb_scan_functions(kb_text source, kb_text file, const kb_given *given, uint32_t n_given,
                            bool bytes, kb_scan *scan, kb_error *err);

/* One kernel. Its name may be a name expression, such as ns::scale<float, 4>. What is inferred
 * where `kernel` has no tokens may be said by an annotation of its last identifier. */
kb_status kb_scan_kernel(kb_text source, kb_text file, const kb_given *kernel, bool bytes,
                         kb_scan *scan, kb_error *err);

void kb_scan_free(kb_scan *scan);

#endif
