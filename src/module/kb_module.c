/* Owns the opening of shared libraries of kernels. */
#include "module/kb_module.h"

#include <dlfcn.h>
#include <fenv.h>
#include <stdbool.h>

/* What a static constructor threw; NULL if none did. */
static const char *start_failure(void *library)
{
    const kb_module *module = dlsym(library, "kb_module_description");
    bool says =
        module && module->abi == KB_ABI && module->struct_size > offsetof(kb_module, start_failure);
    return says && module->start_failure && *module->start_failure ? module->start_failure : NULL;
}

/* What -ffast-math links to a library flushes subnormal numbers from then on, in the thread that
 * opens it: that is undone. */
kb_status kb_module_open(const char *path, void **library, kb_error *err)
{
    fenv_t before;
    bool kept = fegetenv(&before) == 0;
    *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (kept)
        (void)fesetenv(&before);
    const char *why = *library ? start_failure(*library) : dlerror();
    if (*library && !why)
        return KB_OK;
    kb_error_set(err, KB_NOT_FOUND, "%s%s", *library ? "a static constructor threw: " : "",
                 why ? why : "the library cannot be opened");
    if (*library)
        (void)dlclose(*library);
    *library = NULL;
    return err->status;
}

kb_status kb_module_symbol(void *library, const char *name, void **address, kb_error *err)
{
    *address = dlsym(library, name);
    return *address ? KB_OK
                    : kb_error_set(err, KB_NOT_FOUND, "the library exports no function %s", name);
}

kb_status kb_module_describe(void *library, const kb_module **module, kb_error *err)
{
    *module = dlsym(library, "kb_module_description");
    if (!*module)
        return KB_OK;
    if ((*module)->abi != KB_ABI || (*module)->struct_size < offsetof(kb_module, types))
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "the module speaks version %u of kernbridge's interface, expected %d: "
                            "build it again",
                            (*module)->abi, KB_ABI);
    bool says = (*module)->struct_size > offsetof(kb_module, start_failure);
    const char *failure = says ? (*module)->start_failure : NULL;
    if (failure && *failure)
        return kb_error_set(err, KB_FAILED_PRECONDITION, "a static constructor threw: %s", failure);
    return KB_OK;
}
