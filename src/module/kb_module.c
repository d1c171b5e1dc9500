/* Owns the opening of shared libraries of kernels. */
#include "module/kb_module.h"

#include "ext/emulator/kb_cuda_host.h"

#include <dlfcn.h>
#include <fenv.h>
#include <stdbool.h>

/* What -ffast-math links to a library flushes subnormal numbers from then on, in the thread that
 * opens it: that is undone. */
kb_status kb_module_open(const char *path, void **library, kb_error *err)
{
    fenv_t before;
    bool kept = fegetenv(&before) == 0;
    *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (kept)
        (void)fesetenv(&before);
    if (*library)
        return KB_OK;
    const char *why = dlerror();
    return kb_error_set(err, KB_NOT_FOUND, "%s", why ? why : "the library cannot be opened");
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
    if ((*module)->abi != KB_ABI || (*module)->struct_size < sizeof **module)
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "the module speaks version %u of kernbridge's interface, expected %d: "
                            "build it again",
                            (*module)->abi, KB_ABI);
    const char *failure = (*module)->start_failure;
    if (failure && *failure)
        return kb_error_set(err, KB_FAILED_PRECONDITION, "a static constructor threw: %s", failure);
    return kb_cuda_host_connect(library, err);
}
