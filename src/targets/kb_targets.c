/* Owns the list of targets. */
#include "targets/kb_targets.h"

#include "core/kb_handler.h"
#include "cuda/kb_program.h"
#include "cuda/kb_target.h"
#include "module/kb_library.h"
#include "object/kb_host_code.h"

static const kb_target own[] = {
    {"kernbridge.host", KB_PLATFORM_CPU, kb_handler_host_instantiate, NULL,
     kb_handler_host_execute},
    {"kernbridge.host.carrier", KB_PLATFORM_CPU, kb_handler_host_instantiate, NULL,
     kb_handler_idle},
    {"kernbridge.cuda", KB_PLATFORM_GPU, kb_target_instantiate, NULL, kb_target_execute},
    {"kernbridge.cuda.graph", KB_PLATFORM_GPU, kb_target_graph_instantiate, NULL,
     kb_target_graph_execute},
    {"kernbridge.cuda.carrier", KB_PLATFORM_GPU, kb_target_instantiate, kb_target_carrier_prepare,
     kb_handler_idle},
    {"kernbridge.together", KB_PLATFORM_CPU, NULL, NULL, kb_together_execute},
    {"kernbridge.absent", KB_PLATFORM_CPU | KB_PLATFORM_GPU, NULL, NULL, kb_absent_execute},
};

const kb_target *kb_targets_get(size_t index)
{
    size_t n = sizeof own / sizeof *own;
    if (index < n)
        return &own[index];
    for (const kb_extension *const *e = kb_extensions; *e; e++)
        for (const kb_target *t = (*e)->targets; t && t->name; t++)
            if (n++ == index)
                return t;
    return NULL;
}

void kb_targets_begin(void)
{
    static const kb_handler_format formats[] = {
        {KB_HOST_CODE_MAGIC, kb_host_code_register},
        {KB_LIBRARY_MAGIC, kb_library_register},
        {KB_PROGRAM_MAGIC, kb_target_register},
        {NULL, NULL},
    };
    kb_handler_formats = formats;
    for (const kb_extension *const *e = kb_extensions; *e; e++)
        if ((*e)->begin)
            (*e)->begin();
}
