/* Describes the types of a kernel's parameters by numbers: the arguments of the template `kept`,
 * see nvrtc.py. NVRTC reads it before the source, so that no macro of the source changes it.
 * Enumerators, unlike static members, leave no variables in the code. */
struct __half;
struct __nv_bfloat16;
struct float2;
struct double2;
namespace kernbridge_signature
{
enum { pointer = 64, constant = 128, strange = 256 };

template <typename T> struct scalar;

/* A class counts as a complex number if it has `value_type` and `real()`, as those of thrust and of
 * cuda::std do. */
template <typename T> __device__ T &made();
template <typename T, typename V = typename T::value_type, decltype(made<T>().real()) * = nullptr>
__device__ char (&complex_of(T *))[scalar<V>::value == 10 && sizeof(T) == 8    ? 15
                                   : scalar<V>::value == 11 && sizeof(T) == 16 ? 16
                                                                               : 1];
__device__ char (&complex_of(...))[1];

/* The place of a type's dtype in _DTYPES of nvrtc.py; 0 for any other type. */
template <typename T> struct scalar {
    enum { value = sizeof(complex_of((T *)nullptr)) - 1 };
};
#define KERNBRIDGE_VALUE(type, number)                                                             \
    struct type {                                                                                  \
        enum { value = number };                                                                   \
    };
#define KERNBRIDGE_SCALAR(T, number) template <> KERNBRIDGE_VALUE(scalar<T>, number)
KERNBRIDGE_SCALAR(bool, 1)
KERNBRIDGE_SCALAR(char, 2)
KERNBRIDGE_SCALAR(signed char, 2)
KERNBRIDGE_SCALAR(unsigned char, 3)
KERNBRIDGE_SCALAR(short, 4)
KERNBRIDGE_SCALAR(unsigned short, 5)
KERNBRIDGE_SCALAR(int, 6)
KERNBRIDGE_SCALAR(unsigned int, 7)
KERNBRIDGE_SCALAR(long, 8)
KERNBRIDGE_SCALAR(long long, 8)
KERNBRIDGE_SCALAR(unsigned long, 9)
KERNBRIDGE_SCALAR(unsigned long long, 9)
KERNBRIDGE_SCALAR(float, 10)
KERNBRIDGE_SCALAR(double, 11)
KERNBRIDGE_SCALAR(::__half, 12)
KERNBRIDGE_SCALAR(::__nv_bfloat16, 13)
KERNBRIDGE_SCALAR(::float2, 14)
KERNBRIDGE_SCALAR(::double2, 15)
#undef KERNBRIDGE_SCALAR

template <typename T> struct pointee : scalar<T> {
};
template <typename T> struct pointee<volatile T> : pointee<T> {
};
template <typename T> KERNBRIDGE_VALUE(pointee<const T>, pointee<T>::value | constant)
template <typename T> struct pointee<const volatile T> : pointee<const T> {
};
template <typename T> KERNBRIDGE_VALUE(pointee<T *>, strange)

template <typename T> struct code : scalar<T> {
};
template <typename T> KERNBRIDGE_VALUE(code<T &>, strange)
template <typename T> KERNBRIDGE_VALUE(code<T &&>, strange)
template <typename T> KERNBRIDGE_VALUE(code<T *>, pointee<T>::value | pointer)
#undef KERNBRIDGE_VALUE

template <int... codes> struct codes_of {
};
template <typename F> struct parameters;
template <typename R, typename... P> struct parameters<R (*)(P...)> {
    typedef codes_of<code<P>::value...> type;
};
#if __cpp_noexcept_function_type
template <typename R, typename... P>
struct parameters<R (*)(P...) noexcept> : parameters<R (*)(P...)> {
};
#endif

/* A parameter by its place. */
template <int k, typename F> struct parameter;
template <typename R, typename P, typename... More> struct parameter<0, R (*)(P, More...)> {
    typedef P type;
};
template <int k, typename R, typename P, typename... More>
struct parameter<k, R (*)(P, More...)> : parameter<k - 1, R (*)(More...)> {
};

#if __cplusplus >= 201402L
template <typename Codes, int... members> __device__ char kept;
#else
template <typename Codes, int... members> __global__ void kept()
{
}
#endif
} // namespace kernbridge_signature
