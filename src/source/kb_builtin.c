/* Owns the tables of scalar types. */
#include "source/kb_builtin.h"

/* The count of one word is kept in four bits of a key, so that order does not matter. */
#define WORD_LIST(X)                                                                               \
    X(SIGNED, "signed")                                                                            \
    X(UNSIGNED, "unsigned")                                                                        \
    X(SHORT, "short")                                                                              \
    X(LONG, "long")                                                                                \
    X(CHAR, "char")                                                                                \
    X(INT, "int")                                                                                  \
    X(FLOAT, "float")                                                                              \
    X(DOUBLE, "double")                                                                            \
    X(BOOL, "bool")                                                                                \
    X(C_BOOL, "_Bool")                                                                             \
    X(C_COMPLEX, "_Complex")                                                                       \
    X(COMPLEX, "complex")                                                                          \
    X(SIGNED_, "__signed__")                                                                       \
    X(VOID, "void")

enum {
#define WORD_INDEX(NAME, word) INDEX_##NAME,
    WORD_LIST(WORD_INDEX)
#undef WORD_INDEX
};

#define KEY(NAME) (UINT64_C(1) << (4 * INDEX_##NAME))

static const char *const words_known[] = {
#define WORD_TEXT(NAME, word) word,
    WORD_LIST(WORD_TEXT)
#undef WORD_TEXT
        NULL};

static const struct {
    uint64_t key;
    kb_attr_type scalar;
    kb_attr_type element;
} spelled[] = {
    {KEY(BOOL), KB_ATTR_BOOL, 0},
    {KEY(C_BOOL), KB_ATTR_BOOL, 0},
    {KEY(CHAR), KB_ATTR_INT8, 0},
    {KEY(SIGNED) + KEY(CHAR), KB_ATTR_INT8, 0},
    {KEY(UNSIGNED) + KEY(CHAR), KB_ATTR_UINT8, 0},
    {KEY(SHORT), KB_ATTR_INT16, 0},
    {KEY(UNSIGNED) + KEY(SHORT), KB_ATTR_UINT16, 0},
    {0, KB_ATTR_INT32, 0}, /* int or signed, which are left out of a key */
    {KEY(UNSIGNED), KB_ATTR_UINT32, 0},
    {KEY(LONG), KB_ATTR_NONE, KB_ATTR_INT64},
    {KEY(UNSIGNED) + KEY(LONG), KB_ATTR_NONE, KB_ATTR_UINT64},
    {2 * KEY(LONG), KB_ATTR_INT64, 0},
    {KEY(UNSIGNED) + 2 * KEY(LONG), KB_ATTR_UINT64, 0},
    {KEY(FLOAT), KB_ATTR_FLOAT32, 0},
    {KEY(DOUBLE), KB_ATTR_FLOAT64, 0},
    {KEY(FLOAT) + KEY(C_COMPLEX), KB_ATTR_COMPLEX64, 0},
    {KEY(FLOAT) + KEY(COMPLEX), KB_ATTR_COMPLEX64, 0},
    {KEY(DOUBLE) + KEY(C_COMPLEX), KB_ATTR_COMPLEX128, 0},
    {KEY(DOUBLE) + KEY(COMPLEX), KB_ATTR_COMPLEX128, 0},
};

static const struct {
    const char *name;
    bool everywhere; /* also in std */
    kb_attr_type scalar;
    kb_attr_type element;
} named[] = {
    {"int8_t", true, KB_ATTR_INT8, 0},
    {"uint8_t", true, KB_ATTR_UINT8, 0},
    {"int16_t", true, KB_ATTR_INT16, 0},
    {"uint16_t", true, KB_ATTR_UINT16, 0},
    {"int32_t", true, KB_ATTR_INT32, 0},
    {"uint32_t", true, KB_ATTR_UINT32, 0},
    {"int64_t", true, KB_ATTR_INT64, 0},
    {"uint64_t", true, KB_ATTR_UINT64, 0},
    {"size_t", true, KB_ATTR_NONE, KB_ATTR_UINT64},
    {"ptrdiff_t", true, KB_ATTR_NONE, KB_ATTR_INT64},
    {"cuFloatComplex", false, KB_ATTR_COMPLEX64, 0},
    {"cuComplex", false, KB_ATTR_COMPLEX64, 0},
    {"float2", false, KB_ATTR_COMPLEX64, 0},
    {"cuDoubleComplex", false, KB_ATTR_COMPLEX128, 0},
    {"double2", false, KB_ATTR_COMPLEX128, 0},
};

static int index_of(kb_text word)
{
    for (int i = 0; words_known[i]; i++)
        if (kb_text_is(word, words_known[i]))
            return i == INDEX_SIGNED_ ? INDEX_SIGNED : i;
    return -1;
}

/* `complex` is also the name of a template. */
bool kb_builtin_is_word(kb_text word)
{
    int i = index_of(word);
    return i >= 0 && i != INDEX_COMPLEX;
}

/* int says nothing beside other words, and signed only beside char. */
static uint64_t without_filler(uint64_t key)
{
    uint64_t rest = key & ~(KEY(INT) | KEY(SIGNED));
    if (key & KEY(INT) && rest & ~(KEY(SHORT) | 15 * KEY(LONG) | KEY(UNSIGNED)))
        return key;
    if (key & KEY(SIGNED) && rest & ~(KEY(SHORT) | 15 * KEY(LONG)))
        return key;
    return rest;
}

void kb_builtin_words(const kb_text *words, size_t n, kb_attr_type *scalar, kb_attr_type *element)
{
    uint64_t key = 0;
    for (size_t i = 0; i < n; i++) {
        int index = index_of(words[i]);
        if (index < 0)
            return;
        key += UINT64_C(1) << (4 * index);
    }
    key = without_filler(key);
    for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++)
        if (spelled[i].key == key) {
            *scalar = spelled[i].scalar;
            *element = spelled[i].element;
        }
}

void kb_builtin_name(kb_text name, bool global, kb_attr_type *scalar, kb_attr_type *element)
{
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if ((global || named[i].everywhere) && kb_text_is(name, named[i].name)) {
            *scalar = named[i].scalar;
            *element = named[i].element;
        }
}
