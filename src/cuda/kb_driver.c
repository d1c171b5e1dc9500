/* Owns the opening of libcuda and the wording of its failures. */
#define _POSIX_C_SOURCE 200809L

#include "cuda/kb_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { FORM = 12000 }; /* the version whose form of each function we declare */

typedef kb_cu_result get_proc_address(const char *name, void **function, int version,
                                      uint64_t flags, int *status);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static kb_driver driver;
static kb_error failure; /* why there is no driver; KB_OK if there is one */

typedef struct entry {
    const char *name;
    size_t slot; /* of the table */
    int version;
} entry;

static const entry entries[] = {
#define KB_DRIVER_ENTRY(name, parameters) {#name, offsetof(kb_driver, name), FORM},
    KB_DRIVER_LIST(KB_DRIVER_ENTRY)
#undef KB_DRIVER_ENTRY
#define KB_DRIVER_ENTRY(name, version, parameters) {#name, offsetof(kb_driver, name), version},
        KB_DRIVER_OPTIONAL_LIST(KB_DRIVER_ENTRY)
#undef KB_DRIVER_ENTRY
};

static kb_status fill(get_proc_address *get)
{
    for (const entry *e = entries; e < entries + sizeof entries / sizeof *entries; e++) {
        void *function = NULL;
        if (get(e->name, &function, e->version, 0, NULL) == KB_CU_SUCCESS && function)
            memcpy((char *)&driver + e->slot, &function, sizeof function);
        else if (e->version == FORM) /* not one of the newer ones */
            return kb_error_set(&failure, KB_FAILED_PRECONDITION,
                                "the CUDA driver has no %s; kernbridge needs CUDA 12.0 or newer",
                                e->name);
    }
    return KB_OK;
}

static void open_driver(void)
{
    const char *path = getenv("KERNBRIDGE_LIBCUDA");
    void *library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        kb_error_set(&failure, KB_NOT_FOUND, "no CUDA driver: %s", dlerror());
        return;
    }
    get_proc_address *get;
    void *symbol = dlsym(library, "cuGetProcAddress_v2");
    if (!symbol) {
        kb_error_set(&failure, KB_FAILED_PRECONDITION,
                     "the CUDA driver is older than CUDA 12.0, which kernbridge needs");
        return;
    }
    memcpy(&get, &symbol, sizeof get);
    if (fill(get) != KB_OK)
        return;
    kb_cu_result code = driver.cuInit(0);
    if (code != KB_CU_SUCCESS)
        kb_driver_fail(&failure, &driver, code, "cuInit", "no GPU can be used");
}

const kb_driver *kb_driver_get(kb_error *err)
{
    pthread_once(&once, open_driver);
    if (failure.status == KB_OK)
        return &driver;
    *err = failure;
    return NULL;
}

int kb_driver_device_count(kb_error *err)
{
    const kb_driver *cu = kb_driver_get(err);
    if (!cu)
        return 0;
    int n = 0;
    kb_cu_result code = cu->cuDeviceGetCount(&n);
    if (code != KB_CU_SUCCESS)
        kb_driver_fail(err, cu, code, "cuDeviceGetCount", "no GPU can be used");
    else if (n == 0)
        kb_error_set(err, KB_NOT_FOUND, "the CUDA driver shows no GPU");
    return n;
}

/* Codes that a launch does not earn by itself: a kernel that ran before did. */
static bool is_fault(kb_cu_result code)
{
    switch (code) {
    case KB_CU_ECC_UNCORRECTABLE:
    case KB_CU_ILLEGAL_ADDRESS:
    case KB_CU_LAUNCH_TIMEOUT:
    case KB_CU_ASSERT:
    case KB_CU_HARDWARE_STACK_ERROR:
    case KB_CU_ILLEGAL_INSTRUCTION:
    case KB_CU_MISALIGNED_ADDRESS:
    case KB_CU_INVALID_ADDRESS_SPACE:
    case KB_CU_INVALID_PC:
    case KB_CU_LAUNCH_FAILED:
        return true;
    default:
        return false;
    }
}

kb_status kb_driver_fail(kb_error *err, const kb_driver *cu, kb_cu_result code, const char *call,
                         const char *what)
{
    const char *name = NULL, *text = NULL;
    if (cu->cuGetErrorName(code, &name) != KB_CU_SUCCESS || !name)
        name = "an unknown error";
    if (cu->cuGetErrorString(code, &text) != KB_CU_SUCCESS || !text)
        text = "no description";
    if (!*name) /* the CPU's driver: no call of CUDA failed */
        return kb_error_set(err, KB_INTERNAL, "%s: %s", what, text);
    kb_error_set(err, KB_INTERNAL, "%s: %s failed: %s (%s, code %d)", what, call, name, text,
                 (int)code);
    if (is_fault(code) && strcmp(call, "cuStreamSynchronize") != 0)
        kb_error_append(err,
                        ". A kernel did this while it ran: possibly an earlier one, of this "
                        "operation or of another. The CUDA context is lost, and every later call "
                        "fails: restart the process. KERNBRIDGE_DEBUG=sync reports the launch");
    else if (is_fault(code))
        kb_error_append(err, ". The CUDA context is lost: restart the process");
    return err->status;
}
