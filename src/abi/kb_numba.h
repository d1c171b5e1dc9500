/* What crosses between kernbridge and native code that Numba made for a CPU.
 *
 * An entry is a function that we generate around the user's kernel
 * (python/kernbridge/_src/numba_cpu/entry.py). It reads the address and the extents of each of its
 * parameters from XLA's own buffers, and returns Numba's status; on a user exception `*exception`
 * points to Numba's description of it, which the decoder in src/python turns into text.
 */
#ifndef KB_NUMBA_H
#define KB_NUMBA_H

#include <stdint.h>

/* `inputs` and `outputs` hold pointers to kb_xla_buffer, in the order of the call. */
typedef int32_t kb_numba_entry(void **result, void **exception, void *const *inputs,
                               void *const *outputs);

enum {
    KB_NUMBA_OK = 0,
    KB_NUMBA_USER_EXCEPTION = 1,    /* this and above: described by *exception */
    KB_NUMBA_PYTHON_EXCEPTION = -1, /* the thread's Python error indicator is set */
};

/* Numba's exception record (0.60 to 0.68). `dynamic` > 0: arguments were computed at run time, lie
 * behind `payload`, become a tuple through `unwrap`, and the record itself is freed by its reader.
 * Otherwise `payload` is a 20-byte hash and the record is constant. */
typedef struct kb_numba_exception {
    const char *pickle;
    int32_t pickle_size;
    void *payload;
    void *unwrap;
    int32_t dynamic;
} kb_numba_exception;

#endif
