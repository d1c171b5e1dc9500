/* A fake libnvrtc: it compiles nothing, keeps what it was given, and fails where a test says so.
 * Tests link it for its controls, and have the core open the same file. One thread, except where it
 * fails to make programs. */
#ifndef FAKE_NVRTC_H
#define FAKE_NVRTC_H

#include <stdbool.h>
#include <stddef.h>

enum { FAKE_NVRTC_TEXT = 256 };

typedef struct fake_nvrtc_state {
    const char *fails; /* the function that fails with `code`, or NULL */
    int code;
    const char *log;   /* what GetProgramLog hands out; "" has the size 1, NULL the size 0 */
    const char *cubin; /* NULL: none */
    const char *ptx;
    bool unended;                /* what is handed out lacks its end */
    void (*during)(void);        /* called while it compiles, and has taken SIGINT and SIGTERM */
    int n_programs;              /* created and not destroyed */
    char given[FAKE_NVRTC_TEXT]; /* the source, its name, "<name>header" each, "-option" each */
} fake_nvrtc_state;

extern fake_nvrtc_state fake_nvrtc;

#endif
