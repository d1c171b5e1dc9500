/* Owns the list of targets. */
#include "targets/kb_targets.h"

#include "core/kb_handler.h"
#include "core/kb_plan.h"
#include "cuda/kb_target.h"
#include "ext/emulator/kb_cuda_code.h"
#include "ext/emulator/kb_cuda_library.h"
#include "ext/emulator/kb_hostcuda.h"
#include "module/kb_library.h"
#include "object/kb_host_code.h"

const kb_target kb_targets[] = {
    {"kernbridge.host", KB_PLATFORM_CPU, kb_handler_host_instantiate, NULL,
     kb_handler_host_execute},
    {"kernbridge.host.carrier", KB_PLATFORM_CPU, kb_handler_host_instantiate, NULL,
     kb_handler_idle},
    {"kernbridge.cuda.host", KB_PLATFORM_CPU, kb_hosttarget_instantiate, NULL,
     kb_hosttarget_execute},
    {"kernbridge.cuda.host.carrier", KB_PLATFORM_CPU, kb_hosttarget_instantiate, NULL,
     kb_handler_idle},
    {"kernbridge.cuda", KB_PLATFORM_GPU, kb_target_instantiate, NULL, kb_target_execute},
    {"kernbridge.cuda.graph", KB_PLATFORM_GPU, kb_target_graph_instantiate, NULL,
     kb_target_graph_execute},
    {"kernbridge.cuda.carrier", KB_PLATFORM_GPU, kb_target_instantiate, kb_target_carrier_prepare,
     kb_handler_idle},
    {"kernbridge.together", KB_PLATFORM_CPU, NULL, NULL, kb_together_execute},
    {"kernbridge.absent", KB_PLATFORM_CPU | KB_PLATFORM_GPU, NULL, NULL, kb_absent_execute},
    {0},
};

/* A kb_hostcuda_loader. */
static kb_status load_code(const char digest[KB_HOSTCUDA_DIGEST], const void *bytes, size_t size,
                           const char *what, kb_error *err)
{
    if (kb_cuda_library_is(bytes, size))
        return kb_cuda_library_load(digest, bytes, size, what, NULL, err);
    return kb_cuda_code_load(digest, bytes, size, what, err);
}

void kb_targets_begin(void)
{
    static const kb_handler_format formats[] = {
        {KB_HOST_CODE_MAGIC, kb_host_code_register},
        {KB_LIBRARY_MAGIC, kb_library_register},
        {NULL, NULL},
    };
    kb_handler_set_formats(formats);
    kb_hostcuda_set_loader(load_code);
    kb_plan_set_concurrency(KB_STEP_LAUNCH, kb_hostcuda_concurrency);
}
