/* A library with a description of a module, or with another one. */
#include "kernbridge/module.h"

#define EXPORT __attribute__((visibility("default")))

#ifndef MODULE_SIZE
#define MODULE_SIZE sizeof(kb_module)
#endif
#ifndef MODULE_ABI
#define MODULE_ABI KB_ABI
#endif

extern EXPORT const kb_module kb_module_description;

const kb_module kb_module_description = {.struct_size = MODULE_SIZE, .abi = MODULE_ABI};
