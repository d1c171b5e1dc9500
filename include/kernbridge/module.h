/* Between a module that kernbridge built and kernbridge: for the generated tail alone. */
#ifndef KERNBRIDGE_MODULE_H
#define KERNBRIDGE_MODULE_H

#include "kernbridge/kernbridge.h"

/* Behind an XLA target, which is a function without data: what the function belongs to. kernbridge
 * fills it when the target is registered, and anew when the target is replaced. */
typedef struct kb_slot {
    void *(*handle)(struct kb_slot *slot, void *frame);
    const void *target;
} kb_slot;

/* One function of a module. */
typedef struct kb_export {
    const char *name;
    const char *tokens; /* of its annotation, with every type */
    int (*run)(const kb_call *call);
    void *(*handler)(void *frame); /* XLA's, which hands its frame to the slot */
    kb_slot *slot;
} kb_export;

typedef struct kb_module {
    uint32_t struct_size;
    uint32_t abi;
    int32_t n_exports;
    const kb_export *exports;
    int (*last_error)(const char **name); /* takes CUDA's error of this thread; NULL on the CPU */
} kb_module;

#define KB_HANDLER(i)                                                                              \
    static kb_slot kb_slot_##i;                                                                    \
    static void *kb_handler_##i(void *frame)                                                       \
    {                                                                                              \
        return kb_slot_##i.handle(&kb_slot_##i, frame);                                            \
    }

#ifdef __cplusplus
extern "C" {
#endif
extern const kb_module kb_module_description __attribute__((visibility("default")));
#ifdef __cplusplus
}
#endif
#define KB_MODULE_DESCRIPTION const kb_module kb_module_description

#ifdef __cplusplus
#include "kernbridge/kernbridge.hpp"

namespace kernbridge
{
namespace detail
{

/* An attribute on its way into a parameter. Exactly: of a type that the scanner has read. */
template <typename T> inline const T &attribute(const kb_call *call, int i)
{
    return *static_cast<const T *>(call->attributes[i]);
}

/* Into a parameter whose type only the compiler knows: it must be T. */
template <typename T> struct Exactly {
    T value;
    template <typename U> operator U() const
    {
        static_assert(type_of<U>::number == type_of<T>::number,
                      "kernbridge: the annotation gives this attribute another type than C++ does");
        return value;
    }
};

/* Into a parameter that is laid out so: a complex number, or 16 bits. */
template <size_t size> struct Bytes {
    const void *data;
    template <typename U> operator U() const
    {
        static_assert(sizeof(U) == size,
                      "kernbridge: the annotation gives this attribute another type than C++ does");
        U value;
        memcpy(static_cast<void *>(&value), data, size);
        return value;
    }
};

/* Into a parameter for the stream whose type only the compiler knows. */
struct Stream {
    void *stream;
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
};

/* Runs a body; what it throws becomes a failure of the call. */
template <typename F> inline int guard(const kb_call *call, const F &body)
{
    struct Current {
        const kb_call *before = current();
        ~Current()
        {
            current() = before;
        }
    } restore;
    current() = call;
#ifdef KB_SHARED_RUNTIME
    (void)cudaGetLastError(); /* of somebody else's making */
#endif
#ifdef KB_CHECKED
    Landing landing;
    if (setjmp(landing.place))
        return kb_fail(call, KB_INVALID_ARGUMENT, "%s", landing.text);
#endif
    try {
        return body();
    } catch (const Error &e) {
        return kb_fail(call, e.code(), "%s", e.what());
    } catch (const std::exception &e) {
        return kb_fail(call, KB_INTERNAL, "%s", e.what());
    } catch (...) {
        return kb_fail(call, KB_INTERNAL, "an exception that is no std::exception");
    }
}

/* Of a function that returns nothing, or 0 for success: call it with 0. */
template <typename F> inline auto status_of(const F &f, int) -> decltype(static_cast<int>(f()))
{
    return f();
}
template <typename F> inline int status_of(const F &f, long)
{
    f();
    return 0;
}

} // namespace detail
} // namespace kernbridge

#ifdef __CUDACC__
static int kb_last_error(const char **name)
{
    cudaError_t code = cudaGetLastError();
    *name = code == cudaSuccess ? nullptr : cudaGetErrorString(code);
    return static_cast<int>(code);
}
#endif
#endif

#endif
