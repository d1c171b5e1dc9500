/* Compares the types of the parameters of a function in a C module with those that its annotation
 * needs. Only the generated glue of a module uses it. C code cannot derive the parameter types from
 * the type of a function, so T is the type of a parameter as the source spells it. */
#ifndef KERNBRIDGE_RUNNER_H
#define KERNBRIDGE_RUNNER_H

#include "kernbridge/kernbridge.h"

/* An item of _Generic for each type of a number, which ITEM makes of the type and its kb_type. */
#define KB_NUMBERS(ITEM)                                                                           \
    ITEM(_Bool, KB_TYPE_BOOL), ITEM(char, KB_TYPE_INT8), ITEM(signed char, KB_TYPE_INT8),          \
        ITEM(short, KB_TYPE_INT16), ITEM(int, KB_TYPE_INT32),                                      \
        ITEM(long, sizeof(long) == 8 ? KB_TYPE_INT64 : KB_TYPE_INT32),                             \
        ITEM(long long, KB_TYPE_INT64), ITEM(unsigned char, KB_TYPE_UINT8),                        \
        ITEM(unsigned short, KB_TYPE_UINT16), ITEM(unsigned, KB_TYPE_UINT32),                      \
        ITEM(unsigned long, sizeof(long) == 8 ? KB_TYPE_UINT64 : KB_TYPE_UINT32),                  \
        ITEM(unsigned long long, KB_TYPE_UINT64), ITEM(float, KB_TYPE_FLOAT32),                    \
        ITEM(double, KB_TYPE_FLOAT64), ITEM(float _Complex, KB_TYPE_COMPLEX64),                    \
        ITEM(double _Complex, KB_TYPE_COMPLEX128)
#define KB_NUMBER(T, number)                                                                       \
    T:                                                                                             \
    'A' + (number)
/* By which messages tell a type: 'A' and its kb_type for a number. */
#define KB_LETTER(T)                                                                               \
    _Generic(*(__typeof__(T) *)0,                                                                  \
        KB_NUMBERS(KB_NUMBER),                                                                     \
        kb_tensor *: 't',                                                                          \
        const kb_tensor *: 't',                                                                    \
        default: '?')

/* Negative if it does not fit. */
#define KB_FITS(fits, letter) ((fits) ? (letter) : -(letter))
#define KB_FITS_INPUT(T)      KB_FITS(KB_LETTER(T) == 't', KB_LETTER(T))
#define KB_FITS_OUTPUT(T)                                                                          \
    KB_FITS(_Generic(*(__typeof__(T) *)0, kb_tensor * : 1, default : 0), KB_LETTER(T))
#define KB_FITS_NUMBER(T)       KB_FITS(KB_LETTER(T) < 'a' && KB_LETTER(T) != '?', KB_LETTER(T))
#define KB_FITS_TYPE(T, number) KB_FITS(KB_LETTER(T) == 'A' + (number), KB_LETTER(T))
/* float16, bfloat16: of numbers uint16_t alone, and any other type of two bytes. */
#define KB_FITS_HALF(T)                                                                            \
    KB_FITS(sizeof(__typeof__(T)) == 2 &&                                                          \
                (KB_LETTER(T) == '?' || KB_LETTER(T) == 'A' + KB_TYPE_UINT16),                     \
            KB_LETTER(T))

/* An input may be writable. */
#define KB_INPUT(T)                                                                                \
    __typeof__(_Generic(*(__typeof__(T) *)0, kb_tensor *                                           \
                        : (kb_tensor *)0, default                                                  \
                        : (const kb_tensor *)0))

/* The letter of the result, if the function's type is one of these two. */
#define KB_RESULT(f, void_type, int_type)                                                          \
    _Generic(&(f), void_type * : 'v', int_type * : 'A' + KB_TYPE_INT32, default : '?')

#endif
