/* Turns a failed assertion of the C++ library (_GLIBCXX_ASSERTIONS) into an error of the call, in a
 * module that is built with check=True; the library itself would end the process. Included by
 * check.hpp if KB_CHECKED is defined. */
#ifndef KERNBRIDGE_ASSERTION_HPP
#define KERNBRIDGE_ASSERTION_HPP

#include <exception> /* the library's own definition of the macro comes with it */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

namespace kernbridge
{
namespace detail
{

/* Where a thread goes on after a failed assertion of the C++ library. That may be in a function
 * that must not throw, so no exception can leave it, and what lies between is not destroyed. */
struct Landing {
    jmp_buf place;
    char text[512];
    Landing *before;

    Landing() : before(current())
    {
        current() = this;
    }
    ~Landing()
    {
        current() = before;
    }
    Landing(const Landing &) = delete;
    Landing &operator=(const Landing &) = delete;

    static Landing *&current()
    {
        static thread_local Landing *landing = nullptr;
        return landing;
    }
};

[[noreturn]] inline void fail_assertion(const char *condition, const char *function) noexcept
{
    Landing *landing = Landing::current();
    if (!landing)
        abort();
    snprintf(landing->text, sizeof landing->text,
             "an assertion of the C++ library failed: %s in %s", condition, function);
    longjmp(landing->place, 1);
}

} // namespace detail
} // namespace kernbridge

#ifdef __glibcxx_assert
#undef __glibcxx_assert
#define __glibcxx_assert(condition)                                                                \
    do {                                                                                           \
        if (!static_cast<bool>(condition))                                                         \
            ::kernbridge::detail::fail_assertion(#condition, __PRETTY_FUNCTION__);                 \
    } while (0)
#endif

#endif
