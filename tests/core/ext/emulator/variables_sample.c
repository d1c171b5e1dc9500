/* A library of CUDA C++ for the CPU as test_variables.c opens it, with a variable or without. Its
 * function `count` writes how often it was called to its output, and fails as a launch does when
 * that is a multiple of 3. */
#include "kernbridge/cuda_host.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT extern kb_cuda_host_slot_type kb_cuda_host_slot;
EXPORT int sample_count(const kb_call *call);
EXPORT int sample_last_error(const char **name);

kb_cuda_host_slot_type kb_cuda_host_slot = {.version = KB_CUDA_HOST_VERSION};

#ifdef VARIABLES_SAMPLE
static int counted;
#else
static int kb_counted; /* has the name of a variable of ours */
#define counted kb_counted
#endif

int sample_count(const kb_call *call)
{
    *(int32_t *)call->outputs[0].data = ++counted;
    return 0;
}

int sample_last_error(const char **name)
{
    *name = "an error";
    return counted % 3 == 0 ? counted : 0;
}
