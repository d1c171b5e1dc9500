/* Values that machine code hands over with an exception, where no Python is to make objects of
 * them: the code calls these functions in place of Python's of the same meaning. A value that could
 * not be made is NULL, which every function takes. Any thread may enter. */
#ifndef KB_BOXED_H
#define KB_BOXED_H

#include <stddef.h>
#include <stdint.h>

typedef struct kb_boxed kb_boxed;

/* PyLong_FromLongLong, PyLong_FromUnsignedLongLong, PyFloat_FromDouble, PyBool_FromLong. */
kb_boxed *kb_boxed_signed(long long value);
kb_boxed *kb_boxed_unsigned(unsigned long long value);
kb_boxed *kb_boxed_float(double value);
kb_boxed *kb_boxed_bool(long value);

/* PyUnicode_FromKindAndData: `size` characters of 1, 2 or 4 bytes, which are copied. */
kb_boxed *kb_boxed_text(int width, const void *characters, ptrdiff_t size);

/* PyTuple_New, PyTuple_SetItem, PyTuple_Pack: a tuple owns its items. */
kb_boxed *kb_boxed_tuple(ptrdiff_t size);
int kb_boxed_set(kb_boxed *tuple, ptrdiff_t index, kb_boxed *item);
kb_boxed *kb_boxed_pack(ptrdiff_t size, ...);

/* In place of hashes and of setting an error: nothing depends on them here. */
ptrdiff_t kb_boxed_hash(const kb_boxed *value);
void kb_boxed_ignore(void *type, const char *text);

/* The item of a tuple, or NULL. */
const kb_boxed *kb_boxed_item(const kb_boxed *tuple, size_t index);

/* Writes what Python's str() (`conversion` 's') or repr() ('r') returns, as far as it fits into
 * `capacity` > 0 bytes, with a NUL at the end. */
void kb_boxed_write(const kb_boxed *value, char conversion, char *to, size_t capacity);

void kb_boxed_free(kb_boxed *value);

#endif
