/* Owns a library that takes SIGINT while it works, and calls no other function than `signal`; with
 * FAKE_NVRTC_BUILTINS it has data alone. */
#define _DEFAULT_SOURCE /* signal itself; the strict one has another name */
#include <signal.h>

#ifdef FAKE_NVRTC_BUILTINS
extern const char builtins[];
const char builtins[] = "builtins";
#else
void compile_bare(void (*during)(void));

static void stop(int number)
{
    for (volatile int i = number; i;)
        ;
}

__attribute__((visibility("default"))) void compile_bare(void (*during)(void))
{
    void (*interrupted)(int) = signal(SIGINT, stop);
    during();
    signal(SIGINT, interrupted);
}
#endif
