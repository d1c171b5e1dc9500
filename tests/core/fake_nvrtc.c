/* Owns a library that takes signals while it works, as NVRTC does up to 13.0, and calls one other
 * function than `signal`; with FAKE_NVRTC_BUILTINS it has data alone. */
#define _DEFAULT_SOURCE /* signal itself; the strict one has another name */
#include <signal.h>
#include <unistd.h>

#ifdef FAKE_NVRTC_BUILTINS
extern const char builtins[];
const char builtins[] = "builtins";
#else
void fake_nvrtc_compile(void (*during)(void));
int fake_nvrtc_is_refused(int number);
int fake_nvrtc_group(int process);

static void stop(int number)
{
    for (volatile int i = number; i;)
        ;
}

/* A signal that was ignored stays so. */
__attribute__((visibility("default"))) void fake_nvrtc_compile(void (*during)(void))
{
    void (*interrupted)(int) = signal(SIGINT, SIG_IGN);
    if (interrupted != SIG_IGN)
        signal(SIGINT, stop);
    void (*terminated)(int) = signal(SIGTERM, stop);
    during();
    signal(SIGINT, interrupted);
    signal(SIGTERM, terminated);
}

/* Whether a handler of this signal is refused. */
__attribute__((visibility("default"))) int fake_nvrtc_is_refused(int number)
{
    return signal(number, stop) == SIG_ERR;
}

__attribute__((visibility("default"))) int fake_nvrtc_group(int process)
{
    return getpgid(process);
}
#endif
