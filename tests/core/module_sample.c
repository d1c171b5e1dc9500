/* A library with a description of a module, or with another one. As what -ffast-math links does, it
 * changes how the thread that opens it computes. */
#include "kernbridge/module.h"

#include <fenv.h>

#define EXPORT __attribute__((visibility("default")))

#ifndef MODULE_SIZE
#define MODULE_SIZE sizeof(kb_module)
#endif
#ifndef MODULE_FAILURE
#define MODULE_FAILURE ""
#endif
#ifndef MODULE_ABI
#define MODULE_ABI KB_ABI
#endif

__attribute__((constructor)) static void round_down(void)
{
    (void)fesetround(FE_DOWNWARD);
}

extern EXPORT const kb_module kb_module_description;

const kb_module kb_module_description = {
    .struct_size = MODULE_SIZE, .abi = MODULE_ABI, .start_failure = MODULE_FAILURE};
