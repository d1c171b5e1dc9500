/* The interface between a module that kernbridge built and kernbridge. Only the generated glue of a
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
    const char *start_failure; /* what a static constructor threw; NULL or empty if none did */
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

#ifdef KB_DERIVATIVE
#ifdef __cplusplus
#include "kernbridge/runner.hpp"
namespace kernbridge
{
namespace detail
{
template <typename F> inline int guard(const kb_call *, const F &body)
{
    return body();
}
} // namespace detail
} // namespace kernbridge
#else
#include "kernbridge/runner.h"
#endif
#define KB_START_FAILURE 0

#elif defined __cplusplus
#include "kernbridge/runner.hpp"

#include <sys/mman.h>
#include <unistd.h>
#ifdef KB_STRINGS
#include <string>
#endif

namespace kernbridge
{
namespace detail
{

/* Runs a body; fail(code, text) gets what it throws. */
template <typename F, typename Fail> inline int caught(const F &body, const Fail &fail)
{
#ifdef KB_CHECKED
    Landing landing;
    if (setjmp(landing.place))
        return fail(KB_INVALID_ARGUMENT, landing.text);
#endif
    try {
        return body();
    } catch (const Error &e) {
        return fail(e.code(), e.what());
    } catch (const std::exception &e) {
        return fail(KB_INTERNAL, e.what());
    } catch (const char *text) {
        return fail(KB_INTERNAL, text ? text : "(null)");
#ifdef KB_STRINGS
    } catch (const std::string &text) {
        return fail(KB_INTERNAL, text.c_str());
#endif
    } catch (...) {
        return fail(KB_INTERNAL, "an exception that is no std::exception");
    }
}

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
    (void)cudaGetLastError();                   /* of somebody else's making */
#endif
#ifdef KERNBRIDGE_CUDA_ON_CPU_RUNTIME_H
    kernbridge::cuda_on_cpu::threads = nullptr; /* which a fault may have left behind */
#endif
#ifdef KB_CUDA_CHECKED
    struct Entered {
        const kb_call *call;
        void *what = kernbridge::cuda_on_cpu::host().enter(call);
        ~Entered()
        {
            kernbridge::cuda_on_cpu::host().leave(call, what);
        }
    } entered{call};
#endif
    return caught(body,
                  [&](int code, const char *text) { return kb_fail(call, code, "%s", text); });
}

} // namespace detail
} // namespace kernbridge

/* An exception cannot pass through the loader, which calls the static constructors of a library.
 * kb_start is the first of them, calls all others itself, and keeps the text of what one throws.
 * What it reads is named by the linker, and described here, since <link.h> takes 10 ms to compile.
 */
typedef void kb_constructor(int, char **, char **);
struct kb_dynamic {
    int64_t tag; /* 0 at the end */
    uint64_t value;
};
struct kb_segment {
    uint32_t type, flags;
    uint64_t other[6];
};
struct kb_header {
    char begin[32];
    uint64_t segments;
    char middle[16];
    uint16_t n_segments;
};
enum { KB_INIT_ARRAY = 25, KB_INIT_ARRAY_SIZE = 27, KB_RELRO = 0x6474e552 };
extern const kb_dynamic kb_dynamics[] __asm__("_DYNAMIC") __attribute__((visibility("hidden")));
extern const kb_header kb_file __asm__("__ehdr_start") __attribute__((visibility("hidden")));
static char kb_start_failure[512];
#define KB_START_FAILURE kb_start_failure

static void kb_start_nothing(int, char **, char **)
{
}

__attribute__((constructor(101), cold)) static void kb_start()
{
    uintptr_t file = reinterpret_cast<uintptr_t>(&kb_file), first = 0, size = 0;
    for (const kb_dynamic *d = kb_dynamics; d->tag; d++)
        if (d->tag == KB_INIT_ARRAY)
            first = file + d->value;
        else if (d->tag == KB_INIT_ARRAY_SIZE)
            size = d->value;
    kb_constructor **at = reinterpret_cast<kb_constructor **>(first),
                   **end = at + size / sizeof *at;
    while (at < end && *at++ != reinterpret_cast<kb_constructor *>(kb_start))
        continue;
    /* The loader finds nothing to call after this one. The pages are read-only as a rule. */
    uintptr_t page = first & ~(static_cast<uintptr_t>(getpagesize()) - 1);
    void *pages = reinterpret_cast<void *>(page);
    if (at == end || mprotect(pages, first + size - page, PROT_READ | PROT_WRITE) != 0)
        return;
    auto next = [&] {
        kb_constructor *f = *at;
        *at++ = kb_start_nothing;
        return f;
    };
    (void)kernbridge::detail::caught(
        [&] {
            while (at < end)
                next()(0, nullptr, environ);
            return 0;
        },
        [](int, const char *text) {
            return snprintf(kb_start_failure, sizeof kb_start_failure, "%s", *text ? text : "?");
        });
    while (at < end)
        (void)next();
    const kb_segment *s = reinterpret_cast<const kb_segment *>(file + kb_file.segments);
    for (int i = 0; i < kb_file.n_segments; i++)
        if (s[i].type == KB_RELRO)
            (void)mprotect(pages, first + size - page, PROT_READ);
}

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
#define KB_START_FAILURE 0
#endif

#endif
