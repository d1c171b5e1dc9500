/* Owns what the core gets of derivatives by Enzyme: the functions that their machine code calls. */
#include "core/kb_extension.h"
#include "ext/enzyme/kb_thrown.h"

static const kb_symbol symbols[] = {
    KB_SYMBOL("kb_landing", kb_landing),
    KB_SYMBOL("kb_landed", kb_landed),
    KB_SYMBOL("kb_thrown", kb_thrown),
    KB_SYMBOL("kb_failed", kb_failed),
    KB_SYMBOL("kb_failure", kb_failure),
    KB_SYMBOL("kb_resize", kb_resize),
    KB_SYMBOL("kb_malloc", kb_malloc_or_fail),
    KB_SYMBOL("kb_realloc", kb_realloc_or_fail),
    KB_SYMBOL("_Znwm", kb_new),
    KB_SYMBOL("_Znam", kb_new),
    KB_SYMBOL("_ZdlPv", kb_delete),
    KB_SYMBOL("_ZdaPv", kb_delete),
    KB_SYMBOL("_ZdlPvm", kb_delete),
    KB_SYMBOL("_ZdaPvm", kb_delete),
    {0},
};

extern const kb_extension kb_enzyme;

const kb_extension kb_enzyme = {.symbols = symbols};
