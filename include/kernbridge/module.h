/* The interface between a module that kernbridge built and kernbridge. Only the generated tail of a
 * module uses it. */
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
    const char *tokens; /* of its annotation */
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
    /* What the compiler knows of each export's types: the letter of the result, then of each
     * parameter that of its type, negative if it does not fit the annotation. */
    const signed char *const *types;
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
#include "kernbridge/runner.hpp"

namespace kernbridge
{
namespace detail
{

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

#else
#include "kernbridge/runner.h"
#endif

#endif
