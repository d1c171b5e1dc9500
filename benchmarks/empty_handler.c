/* The floor: an XLA handler that does nothing. Compiled by benchmarks/floor.py against src/. */
#include "abi/kb_xla.h"

kb_xla_handler empty_handler;

kb_xla_error *empty_handler(kb_xla_frame *frame)
{
    for (kb_xla_extension *e = frame->extension_start; e; e = e->next) {
        if (e->type != KB_XLA_EXTENSION_METADATA)
            continue;
        kb_xla_metadata *metadata = ((kb_xla_metadata_extension *)e)->metadata;
        metadata->api_version.major_version = 0;
        metadata->api_version.minor_version = 1;
        metadata->traits = 0;
    }
    return NULL;
}
