/* Calls a function of a C++ or CUDA module, after comparing the types of its parameters with those
 * that its annotation needs. Only the generated glue of a module uses it. */
#ifndef KERNBRIDGE_RUNNER_HPP
#define KERNBRIDGE_RUNNER_HPP

#include "kernbridge/kernbridge.hpp"

#include <type_traits>

namespace kernbridge
{
namespace detail
{

template <typename... T> struct List {
};

/* The types of a function: what it returns, then its parameters. */
template <typename R, typename... P> List<R, P...> signature_of(R (*)(P...));

/* The kb_type of a parameter by value; -1 for one that is no number. */
template <typename T, typename = void> struct number_of {
    enum { number = type_of<T>::number };
};
#define KB_NUMBER_OF(type, value)                                                                  \
    __extension__ template <> struct number_of<type> {                                             \
        enum { number = value };                                                                   \
    };
KB_NUMBER_OF(char, KB_TYPE_INT8)
#ifdef __CUDACC__
KB_NUMBER_OF(float2, KB_TYPE_COMPLEX64)
KB_NUMBER_OF(double2, KB_TYPE_COMPLEX128)
#else
KB_NUMBER_OF(__complex__ float, KB_TYPE_COMPLEX64)
KB_NUMBER_OF(__complex__ double, KB_TYPE_COMPLEX128)
#endif
#undef KB_NUMBER_OF
/* Those of std, of cuda::std and of thrust have both. */
template <typename T>
struct number_of<T, decltype(static_cast<void>(static_cast<const T *>(nullptr)->real()),
                             static_cast<void>(sizeof(typename T::value_type)))> {
    enum {
        part = static_cast<int>(type_of<typename T::value_type>::number),
        number = static_cast<int>(part) == KB_TYPE_FLOAT32   ? static_cast<int>(KB_TYPE_COMPLEX64)
                 : static_cast<int>(part) == KB_TYPE_FLOAT64 ? static_cast<int>(KB_TYPE_COMPLEX128)
                                                             : -1
    };
};

/* One letter for the type of a parameter or a result, by which messages tell it: 'A' and its
 * kb_type for a number. */
template <typename T> struct letter {
    enum { value = static_cast<int>(number_of<T>::number) >= 0 ? 'A' + number_of<T>::number : '?' };
};
template <char c> struct letter_is {
    enum { value = c };
};
template <typename T> struct letter<const T> : letter<T> {
};
template <typename T> struct letter<const T &> : letter<T> {
};
template <typename T> struct letter<T &> : letter_is<'r'> {
};
template <typename T> struct letter<T &&> : letter_is<'r'> {
};
template <typename T> struct letter<T *> : letter_is<'p'> {
};
template <> struct letter<void> : letter_is<'v'> {
};
template <> struct letter<Tensor> : letter_is<'t'> {
};
template <> struct letter<Tensor &> : letter_is<'t'> {
};
template <> struct letter<kb_tensor *> : letter_is<'t'> {
};
template <> struct letter<const kb_tensor *> : letter_is<'t'> {
};

template <typename T> using bare = std::remove_cv_t<std::remove_reference_t<T>>;

/* What a call has for a parameter. `fits`: whether that can be of type P; get: it as one. */
struct Input {
    Tensor tensor;
    const kb_tensor *plain;

    Input(const kb_tensor &t, const char *name) : tensor(t, name), plain(&t)
    {
    }
    template <typename P> struct fits {
        enum {
            value = (std::is_same<bare<P>, Tensor>::value && !std::is_rvalue_reference<P>::value) ||
                    std::is_same<P, kb_tensor *>::value || std::is_same<P, const kb_tensor *>::value
        };
    };
    operator Tensor &()
    {
        return tensor;
    }
    operator kb_tensor *() const
    {
        return const_cast<kb_tensor *>(plain);
    }
    template <typename P> P get()
    {
        return static_cast<P>(*this);
    }
};

struct Output : Input {
    using Input::Input;

    template <typename P> struct fits {
        enum {
            value = std::is_same<P, Tensor>::value || std::is_same<P, Tensor &>::value ||
                    std::is_same<P, kb_tensor *>::value
        };
    };
};

struct Stream {
    void *stream;

    template <typename P> struct fits {
        enum {
            value = static_cast<int>(number_of<bare<P>>::number) == KB_TYPE_INT64
#ifdef __CUDACC__
                    || std::is_same<bare<P>, cudaStream_t>::value
#endif
        };
    };
    operator int64_t() const
    {
        return reinterpret_cast<int64_t>(stream);
    }
#ifdef __CUDACC__
    operator cudaStream_t() const
    {
        return static_cast<cudaStream_t>(stream);
    }
#endif
    template <typename P> bare<P> get()
    {
        return static_cast<bare<P>>(*this);
    }
};

struct WholeCall {
    const kb_call *call;

    template <typename P> struct fits : std::is_same<P, const kb_call *> {
    };
    template <typename P> const kb_call *get()
    {
        return call;
    }
};

/* Of the kb_type that the annotation names, which T holds; of any, if that is -1. Another type that
 * T converts to will do, and one of the same size for numbers that C++ lacks. */
template <int named, typename T> struct Attribute {
    const void *data;

    template <typename U> struct fits_value {
        enum {
            given = static_cast<int>(number_of<U>::number),
            bits = named == KB_TYPE_FLOAT16 || named == KB_TYPE_BFLOAT16 ||
                   named == KB_TYPE_COMPLEX64 || named == KB_TYPE_COMPLEX128,
            same_bits = sizeof(U) == sizeof(T) && std::is_trivially_copyable<U>::value &&
                        !std::is_pointer<U>::value,
            open = bits ? same_bits != 0 : std::is_convertible<T, U>::value,
            value = given >= 0 ? named < 0 || given == named ||
                                     (bits && sizeof(T) == 2 && given == KB_TYPE_UINT16)
                               : named >= 0 && open != 0
        };
    };
    template <typename P>
    struct fits : std::conditional_t<std::is_object<std::remove_reference_t<P>>::value &&
                                         (!std::is_reference<P>::value ||
                                          std::is_same<P, const bare<P> &>::value),
                                     fits_value<bare<P>>, std::false_type> {
    };
    /* The bytes are those of a U. */
    template <typename U> U read(std::true_type) const
    {
        U value;
        memcpy(static_cast<void *>(&value), data, sizeof value);
        return value;
    }
    template <typename U> U read(std::false_type) const
    {
        return static_cast<U>(*static_cast<const T *>(data));
    }
    template <typename P> bare<P> get()
    {
        enum { bits = fits_value<bare<P>>::given >= 0 || fits_value<bare<P>>::bits != 0 };
        return read<bare<P>>(std::integral_constant<bool, bits != 0>());
    }
};

template <bool... values> struct All : std::is_same<All<true, values...>, All<values..., true>> {
};

/* `types`: the letter of the result, then that of each parameter, negative if it does not fit. */
template <bool same_number, typename Signature, typename Roles> struct Agreement {
};
template <typename R, typename... P, typename... A>
struct Agreement<true, List<R, P...>, List<A...>> {
    enum {
        value = (std::is_void<R>::value || std::is_same<R, int>::value) &&
                All<A::template fits<P>::value != 0 ...>::value
    };
    static constexpr signed char types[] = {
        letter<R>::value,
        (A::template fits<P>::value != 0 ? letter<P>::value : -letter<P>::value)..., 0};
};
template <typename R, typename... P, typename A> struct Agreement<false, List<R, P...>, A> {
    enum { value = 0 };
    static constexpr signed char types[] = {letter<R>::value, -letter<P>::value..., 0};
};
template <typename R, typename... P, typename... A>
constexpr signed char Agreement<true, List<R, P...>, List<A...>>::types[];
template <typename R, typename... P, typename A>
constexpr signed char Agreement<false, List<R, P...>, A>::types[];

/* Calls a function with what has the roles A. */
template <typename Signature, typename... A> struct Runner;
template <typename R, typename... P, typename... A> struct Runner<List<R, P...>, A...> {
    using agreement = Agreement<sizeof...(P) == sizeof...(A), List<R, P...>, List<A...>>;

    static int run(const kb_call *call, R (*f)(P...), A &...roles)
    {
        return run_if(std::integral_constant<bool, agreement::value != 0>(), call, f, roles...);
    }

  private:
    template <typename F> static int run_if(std::false_type, const kb_call *call, F, A &...)
    {
        return kb_fail(call, KB_INTERNAL, "the function does not take what its annotation says");
    }
    template <typename F> static int run_if(std::true_type, const kb_call *, F f, A &...roles)
    {
        return status(std::is_void<R>(), f, roles...);
    }
    template <typename F> static int status(std::true_type, F f, A &...roles)
    {
        f(roles.template get<P>()...);
        return 0;
    }
    template <typename F> static int status(std::false_type, F f, A &...roles)
    {
        return f(roles.template get<P>()...);
    }
};

} // namespace detail
} // namespace kernbridge

#endif
