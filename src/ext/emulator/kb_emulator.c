/* Owns what the core gets of CUDA on the CPU. */
#include "core/kb_extension.h"
#include "core/kb_handler.h"
#include "core/kb_plan.h"
#include "ext/emulator/kb_cuda_code.h"
#include "ext/emulator/kb_hostcuda.h"

static const kb_target targets[] = {
    {"kernbridge.cuda.host", KB_PLATFORM_CPU, kb_hosttarget_instantiate, NULL,
     kb_hosttarget_execute},
    {"kernbridge.cuda.host.carrier", KB_PLATFORM_CPU, kb_hosttarget_instantiate, NULL,
     kb_handler_idle},
    {0},
};

static void begin(void)
{
    kb_hostcuda_set_loader(kb_cuda_code_load);
    kb_plan_set_concurrency(KB_STEP_LAUNCH, kb_hostcuda_concurrency);
}

extern const kb_extension kb_emulator;

const kb_extension kb_emulator = {
    .targets = targets,
    .begin = begin,
    .connect = kb_cuda_host_connect,
    .variables_of = kb_variables_of,
    .fault = kb_fault_end,
};
