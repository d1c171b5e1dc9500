/* Owns the list of the extensions that are built: CMake defines a name for each. */
#include "core/kb_extension.h"

extern const kb_extension kb_emulator, kb_enzyme;

const kb_extension *const kb_extensions[] = {
#ifdef KB_EXTENSION_EMULATOR
    &kb_emulator,
#endif
#ifdef KB_EXTENSION_ENZYME
    &kb_enzyme,
#endif
    NULL,
};
