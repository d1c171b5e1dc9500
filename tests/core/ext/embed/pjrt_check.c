/* Proves, by compiling, that src/abi/kb_pjrt.h declares what a pjrt_c_api.h does, and that types of
 * arrays in manifests have its numbers. */
#include "abi/kb_pjrt.h"
#include "abi/kb_xla.h"
#include "core/kb_dtype.h"

#include "pjrt_c_api.h"

#include <stdio.h>

#define SAME(ours, theirs, what) _Static_assert((long long)(ours) == (long long)(theirs), what)
#define FIELD(our_type, our_field, their_type, their_field)                                        \
    SAME(offsetof(our_type, our_field), offsetof(their_type, their_field),                         \
         "offset of " #our_type "." #our_field);                                                   \
    SAME(sizeof(((our_type *)0)->our_field), sizeof(((their_type *)0)->their_field),               \
         "size of " #our_type "." #our_field)

SAME(KB_PJRT_EXTENSION_FFI, PJRT_Extension_Type_FFI, "extension");
SAME(sizeof(kb_pjrt_extension), sizeof(PJRT_Extension_Base), "size of kb_pjrt_extension");
FIELD(kb_pjrt_extension, struct_size, PJRT_Extension_Base, struct_size);
FIELD(kb_pjrt_extension, type, PJRT_Extension_Base, type);
FIELD(kb_pjrt_extension, next, PJRT_Extension_Base, next);

SAME(sizeof(kb_pjrt_version), sizeof(PJRT_Api_Version), "size of kb_pjrt_version");
FIELD(kb_pjrt_version, major_version, PJRT_Api_Version, major_version);
FIELD(kb_pjrt_version, minor_version, PJRT_Api_Version, minor_version);

FIELD(kb_pjrt_error_destroy, error, PJRT_Error_Destroy_Args, error);
SAME(KB_XLA_SIZE(kb_pjrt_error_destroy, error), PJRT_Error_Destroy_Args_STRUCT_SIZE, "size");
FIELD(kb_pjrt_error_message, error, PJRT_Error_Message_Args, error);
FIELD(kb_pjrt_error_message, message, PJRT_Error_Message_Args, message);
FIELD(kb_pjrt_error_message, message_size, PJRT_Error_Message_Args, message_size);
SAME(KB_XLA_SIZE(kb_pjrt_error_message, message_size), PJRT_Error_Message_Args_STRUCT_SIZE, "size");

FIELD(kb_pjrt_api, struct_size, PJRT_Api, struct_size);
FIELD(kb_pjrt_api, extension_start, PJRT_Api, extension_start);
FIELD(kb_pjrt_api, version, PJRT_Api, pjrt_api_version);
FIELD(kb_pjrt_api, error_destroy, PJRT_Api, PJRT_Error_Destroy);
FIELD(kb_pjrt_api, error_message, PJRT_Api, PJRT_Error_Message);

#define SAME_TYPE(NAME, code, bits, name, OURS, dlpack, pjrt)                                      \
    SAME(pjrt, PJRT_Buffer_Type_##NAME, "type " name);
KB_DTYPE_WHOLE_LIST(SAME_TYPE)

int main(void)
{
    printf("pjrt_check: kb_pjrt.h agrees with the header of PJRT %d.%d\n", PJRT_API_MAJOR,
           PJRT_API_MINOR);
    return 0;
}
