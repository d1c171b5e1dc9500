/* Calls functions of pointers and numbers, which signatures describe. Only the generated glue of a
 * module uses it, after module.h. T is the type of a parameter, `number` a kb_type, or -1 for any.
 */
#ifndef KERNBRIDGE_PLAIN_H
#define KERNBRIDGE_PLAIN_H

#include "kernbridge/module.h"

#include <string.h>

/* Whether an integer of type T can hold an extent. */
#define KB_HOLDS(T, value) ((int64_t)(T)(value) == (value) && ((T)(value) < (T)0) == ((value) < 0))

static inline size_t kb_bytes(const kb_tensor *t)
{
    return ((size_t)t->size * t->dl_dtype.bits + 7) / 8;
}

/* What a function may write to that must not change an input; NULL if there is no memory. */
static inline void *kb_copy(const kb_call *call, const kb_tensor *t)
{
    size_t bytes = kb_bytes(t);
    void *copy = bytes ? kb_scratch(call, bytes) : t->data;
    return copy && bytes ? memcpy(copy, t->data, bytes) : copy;
}

/* What a function returned, 0 for success; `text_of` has texts for codes. */
static inline int kb_coded(const kb_call *call, int code, const char *(*text_of)(int))
{
    const char *text = code ? text_of(code) : 0;
    return text ? kb_fail(call, KB_INTERNAL, "%s (the function returned %d)", text, code) : code;
}

/* What a function returned, NULL for success. */
static inline int kb_worded(const kb_call *call, const char *text, const char *(*text_of)(int))
{
    (void)text_of;
    return text ? kb_fail(call, KB_INTERNAL, "%s", text) : 0;
}

#define KB_SAME_PARTS(letter, number)                                                              \
    (((number) == KB_TYPE_COMPLEX64 && (letter) == 'A' + KB_TYPE_FLOAT32) ||                       \
     ((number) == KB_TYPE_COMPLEX128 && (letter) == 'A' + KB_TYPE_FLOAT64) ||                      \
     (((number) == KB_TYPE_FLOAT16 || (number) == KB_TYPE_BFLOAT16) &&                             \
      (letter) == 'A' + KB_TYPE_UINT16))
/* Complex numbers may be pairs of numbers, and halves their bits. */
#define KB_FITS_ARRAY(T, number)                                                                   \
    (KB_POINTER_LETTER(T) == 'A' + (number) || KB_POINTER_LETTER(T) == 'v' ||                      \
     KB_POINTER_LETTER(T) == 't' || KB_SAME_PARTS(KB_POINTER_LETTER(T), number))
/* Whether two members of a structure do not overlap. */
#define KB_END(T, member) (__builtin_offsetof(T, member) + sizeof(((T *)0)->member))
#define KB_APART(T, a, b)                                                                          \
    (KB_END(T, a) <= __builtin_offsetof(T, b) || KB_END(T, b) <= __builtin_offsetof(T, a))
#define KB_IS_INTEGER(letter) ((letter) >= 'A' + KB_TYPE_INT8 && (letter) <= 'A' + KB_TYPE_UINT64)

#ifdef __cplusplus
namespace kernbridge
{
namespace detail
{

template <int i, typename Signature> struct parameter;
template <int i, typename R, typename P, typename... More>
struct parameter<i, List<R, P, More...>> : parameter<i - 1, List<R, More...>> {
};
template <typename R, typename P, typename... More> struct parameter<0, List<R, P, More...>> {
    typedef P type;
};
template <typename Signature> struct returned;
template <typename R, typename... P> struct returned<List<R, P...>> {
    typedef R type;
    enum { n_parameters = sizeof...(P) };
};

template <typename T> struct pointer_letter : letter_is<'?'> {
};
template <typename T>
struct pointer_letter<T *>
    : letter_is<std::is_void<T>::value
                    ? 'v'
                    : static_cast<char>(letter<bare<std::remove_all_extents_t<T>>>::value)> {
};
template <> struct pointer_letter<kb_tensor *> : letter_is<'t'> {
};
template <> struct pointer_letter<const kb_tensor *> : letter_is<'t'> {
};
template <> struct pointer_letter<Tensor> : letter_is<'t'> {
};
template <> struct pointer_letter<const Tensor &> : letter_is<'t'> {
};

/* Whether a function can write to what it receives. */
template <typename P>
constexpr bool may_write =
    std::is_pointer<P>::value && !std::is_const<std::remove_pointer_t<P>>::value &&
    !std::is_same<P, kb_tensor *>::value;

template <typename P> struct Given { /* a number or a tensor by value */
    static bare<P> array(const kb_tensor *t, void *, const char *name, std::true_type)
    {
        return Tensor(*t, name);
    }
    static bare<P> array(const kb_tensor *t, void *, const char *, std::false_type)
    {
        bare<P> value;
        memcpy(static_cast<void *>(&value), t->data, sizeof value);
        return value;
    }
    static bare<P> array(const kb_tensor *t, void *data, const char *name)
    {
        return array(t, data, name, std::is_same<bare<P>, Tensor>());
    }
    static bare<P> &extent(bare<P> &value)
    {
        return value;
    }
    typedef bare<P> integer;
};
template <typename T> struct Given<T *> {
    static T *array(const kb_tensor *, void *data, const char *)
    {
        return static_cast<T *>(data);
    }
    template <typename U> static T *extent(U &value)
    {
        return &value;
    }
    typedef bare<T> integer;
};
template <> struct Given<kb_tensor *> {
    static kb_tensor *array(const kb_tensor *t, void *, const char *)
    {
        return const_cast<kb_tensor *>(t);
    }
};
template <> struct Given<const kb_tensor *> : Given<kb_tensor *> {
};

template <typename R>
constexpr bool is_status = std::is_same<R, int>::value || std::is_enum<R>::value ||
                           std::is_same<R, const char *>::value || std::is_same<R, char *>::value;
template <typename R> int status(const kb_call *call, R code, const char *(*text_of)(int))
{
    return kb_coded(call, static_cast<int>(code), text_of);
}
inline int status(const kb_call *call, const char *text, const char *(*text_of)(int))
{
    return kb_worded(call, text, text_of);
}
inline int status(const kb_call *call, char *text, const char *(*text_of)(int))
{
    return kb_worded(call, text, text_of);
}

} // namespace detail
} // namespace kernbridge

#define KB_ASSERT            static_assert
#define KB_ASSERT_TEXT_OF(f) /* the compiler compares the types of what it returns */
#define KB_POINTER_LETTER(T) (kernbridge::detail::pointer_letter<T>::value + 0)
#define KB_VALUE_LETTER(T)   (kernbridge::detail::letter<kernbridge::detail::bare<T>>::value + 0)
#define KB_FITS_NUMBER_OF(T, number)                                                               \
    (KB_VALUE_LETTER(T) == 'A' + (number) || KB_POINTER_LETTER(T) == 'A' + (number) ||             \
     KB_SAME_PARTS(KB_VALUE_LETTER(T), number))
#define KB_FITS_EXTENT(T)                                                                          \
    (KB_IS_INTEGER(KB_VALUE_LETTER(T)) || KB_IS_INTEGER(KB_POINTER_LETTER(T)) ||                   \
     std::is_enum<kernbridge::detail::bare<T>>::value)
#define KB_IS_STATUS(R)           (kernbridge::detail::is_status<R>)
#define KB_STATUS(R, call, value) kernbridge::detail::status(call, value, kb_text_of)

#else
#define KB_ASSERT _Static_assert
#define KB_ASSERT_TEXT_OF(f)                                                                       \
    _Static_assert(_Generic((f)0, const char *(*)(int) : 1, char *(*)(int) : 1, default : 0),      \
                   "errors is not the name of a function const char *name(int)")
#define KB_POINTERS(T, number) T * : 'A' + (number), const T * : 'A' + (number)
#define KB_POINTER_LETTER(T)                                                                       \
    _Generic((__typeof__(T))0,                                                                     \
        KB_NUMBERS(KB_POINTERS),                                                                   \
        float(*)[2]: 'A' + KB_TYPE_FLOAT32,                                                      \
        const float(*)[2]: 'A' + KB_TYPE_FLOAT32,                                                \
        double(*)[2]: 'A' + KB_TYPE_FLOAT64,                                                    \
        const double(*)[2]: 'A' + KB_TYPE_FLOAT64,                                              \
        void *: 'v',                                                                               \
        const void *: 'v',                                                                         \
        kb_tensor *: 't',                                                                          \
        const kb_tensor *: 't',                                                                    \
        default: '?')
#define KB_MAY_WRITE(T) _Generic(1 ? (T)0 : (void *)1, void * : 1, default : 0)
#define KB_FITS_NUMBER_OF(T, number)                                                               \
    (KB_LETTER(T) == 'A' + (number) || KB_POINTER_LETTER(T) == 'A' + (number) ||                   \
     KB_SAME_PARTS(KB_LETTER(T), number))
#define KB_FITS_EXTENT(T) (KB_IS_INTEGER(KB_LETTER(T)) || KB_IS_INTEGER(KB_POINTER_LETTER(T)))
/* An enumeration is an int or an unsigned. */
#define KB_IS_STATUS(R)                                                                            \
    _Generic((__typeof__(R) *)0, int * : 1, unsigned * : 1, const char ** : 1, char ** : 1,        \
             default : 0)
#define KB_STATUS(R, call, value)                                                                  \
    _Generic((__typeof__(R) *)0, const char ** : kb_worded, char ** : kb_worded, default : kb_coded)(         \
        call, value, kb_text_of)
#endif

#endif
