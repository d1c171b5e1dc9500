/* Scalar types of C, C++ and CUDA by their names. Constant tables; any thread may enter. */
#ifndef KB_BUILTIN_H
#define KB_BUILTIN_H

#include "source/kb_attr_type.h"

enum { KB_BUILTIN_WORDS = 8 }; /* no type has more */

/* True for int, unsigned, float... */
bool kb_builtin_is_word(kb_text word);

/* The type that words spell in any order; leaves both alone if they do not. `scalar` is set where
 * every compiler gives one width, `element` also where 64-bit Linux does. */
void kb_builtin_words(const kb_text *words, size_t n, kb_attr_type *scalar, kb_attr_type *element);

/* The same for one name: int32_t, size_t; `global`: it stands in no namespace, as float2 must. */
void kb_builtin_name(kb_text name, bool global, kb_attr_type *scalar, kb_attr_type *element);

#endif
