/* Proves, by compiling, that src/abi/kb_xla.h declares what the installed jaxlib's own header does:
 * every size, offset and constant that we use. */
#include "abi/kb_xla.h"
#include "core/kb_dtype.h"
#include "core/kb_error.h"
#include "fake_xla.h"

#include "xla/ffi/api/c_api.h"

#include <stdio.h>

/* Its name changed between API 0.3 and 0.5. */
typedef __typeof__(((XLA_FFI_Metadata_Extension *)0)->extension_base) xla_extension;

#define SAME(ours, theirs, what) _Static_assert((long long)(ours) == (long long)(theirs), what)

/* A field of ours lies where theirs does, and is as wide. */
#define FIELD(our_type, our_field, their_type, their_field)                                        \
    SAME(offsetof(our_type, our_field), offsetof(their_type, their_field),                         \
         "offset of " #our_type "." #our_field);                                                   \
    SAME(sizeof(((our_type *)0)->our_field), sizeof(((their_type *)0)->their_field),               \
         "size of " #our_type "." #our_field)

#define SIZE(our_type, their_type)                                                                 \
    SAME(sizeof(our_type), sizeof(their_type), "size of " #our_type);                              \
    SAME(_Alignof(our_type), _Alignof(their_type), "alignment of " #our_type)

/* What every structure that crosses begins with. */
#define HEAD(our_type, their_type)                                                                 \
    FIELD(our_type, struct_size, their_type, struct_size);                                         \
    FIELD(our_type, extension_start, their_type, extension_start)

/* Arguments of an API function: struct_size is up to and with this last field. */
#define ARGS_SIZE(our_type, last, their_type)                                                      \
    SAME(KB_XLA_SIZE(our_type, last), their_type##_STRUCT_SIZE, "KB_XLA_SIZE of " #our_type)

SAME(KB_XLA_API_MAJOR, XLA_FFI_API_MAJOR, "major version");
SAME(KB_XLA_EXTENSION_METADATA, XLA_FFI_Extension_Metadata, "metadata extension");
SAME(KB_XLA_TRAIT_COMMAND_BUFFER, XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE, "trait");
SAME(KB_XLA_BUFFER, XLA_FFI_ArgType_BUFFER, "operand type");
SAME(KB_XLA_BUFFER, XLA_FFI_RetType_BUFFER, "result type");
SAME(KB_XLA_ATTR_ARRAY, XLA_FFI_AttrType_ARRAY, "array attribute");
SAME(KB_XLA_ATTR_DICTIONARY, XLA_FFI_AttrType_DICTIONARY, "dictionary attribute");
SAME(KB_XLA_ATTR_SCALAR, XLA_FFI_AttrType_SCALAR, "scalar attribute");
SAME(KB_XLA_ATTR_STRING, XLA_FFI_AttrType_STRING, "string attribute");
SAME(KB_XLA_STAGE_INSTANTIATE, XLA_FFI_ExecutionStage_INSTANTIATE, "instantiate stage");
SAME(KB_XLA_STAGE_PREPARE, XLA_FFI_ExecutionStage_PREPARE, "prepare stage");
SAME(KB_XLA_STAGE_INITIALIZE, XLA_FFI_ExecutionStage_INITIALIZE, "initialize stage");
SAME(KB_XLA_STAGE_EXECUTE, XLA_FFI_ExecutionStage_EXECUTE, "execute stage");

#define SAME_DTYPE(NAME, code, bits, name, OURS, dlpack, pjrt)                                     \
    SAME(KB_DTYPE_##NAME, XLA_FFI_DataType_##NAME, "dtype " name);
KB_DTYPE_LIST(SAME_DTYPE)

#define SAME_STATUS(name, number) SAME(KB_##name, XLA_FFI_Error_Code_##name, "status " #name);
KB_STATUS_LIST(SAME_STATUS)

SAME(sizeof(XLA_FFI_DataType), sizeof(int32_t), "width of an enumeration");
SAME(sizeof(XLA_FFI_ArgType), sizeof(int32_t), "width of an enumeration");
SAME(sizeof(XLA_FFI_AttrType), sizeof(int32_t), "width of an enumeration");

SIZE(kb_xla_extension, xla_extension);
FIELD(kb_xla_extension, struct_size, xla_extension, struct_size);
FIELD(kb_xla_extension, type, xla_extension, type);
FIELD(kb_xla_extension, next, xla_extension, next);

SIZE(kb_xla_api_version, XLA_FFI_Api_Version);
HEAD(kb_xla_api_version, XLA_FFI_Api_Version);
FIELD(kb_xla_api_version, major_version, XLA_FFI_Api_Version, major_version);
FIELD(kb_xla_api_version, minor_version, XLA_FFI_Api_Version, minor_version);
ARGS_SIZE(kb_xla_api_version, minor_version, XLA_FFI_Api_Version);

/* Theirs goes on behind `traits`. */
_Static_assert(sizeof(kb_xla_metadata) <= sizeof(XLA_FFI_Metadata), "size of kb_xla_metadata");
FIELD(kb_xla_metadata, struct_size, XLA_FFI_Metadata, struct_size);
FIELD(kb_xla_metadata, api_version, XLA_FFI_Metadata, api_version);
FIELD(kb_xla_metadata, traits, XLA_FFI_Metadata, traits);
ARGS_SIZE(kb_xla_metadata, traits, XLA_FFI_Metadata);

SIZE(kb_xla_metadata_extension, XLA_FFI_Metadata_Extension);
FIELD(kb_xla_metadata_extension, base, XLA_FFI_Metadata_Extension, extension_base);
FIELD(kb_xla_metadata_extension, metadata, XLA_FFI_Metadata_Extension, metadata);
ARGS_SIZE(kb_xla_metadata_extension, metadata, XLA_FFI_Metadata_Extension);

SIZE(kb_xla_buffer, XLA_FFI_Buffer);
HEAD(kb_xla_buffer, XLA_FFI_Buffer);
FIELD(kb_xla_buffer, dtype, XLA_FFI_Buffer, dtype);
FIELD(kb_xla_buffer, data, XLA_FFI_Buffer, data);
FIELD(kb_xla_buffer, rank, XLA_FFI_Buffer, rank);
FIELD(kb_xla_buffer, dims, XLA_FFI_Buffer, dims);
ARGS_SIZE(kb_xla_buffer, dims, XLA_FFI_Buffer);

SIZE(kb_xla_buffers, XLA_FFI_Args);
HEAD(kb_xla_buffers, XLA_FFI_Args);
FIELD(kb_xla_buffers, size, XLA_FFI_Args, size);
FIELD(kb_xla_buffers, types, XLA_FFI_Args, types);
FIELD(kb_xla_buffers, buffers, XLA_FFI_Args, args);
ARGS_SIZE(kb_xla_buffers, buffers, XLA_FFI_Args);

SIZE(kb_xla_buffers, XLA_FFI_Rets);
HEAD(kb_xla_buffers, XLA_FFI_Rets);
FIELD(kb_xla_buffers, size, XLA_FFI_Rets, size);
FIELD(kb_xla_buffers, types, XLA_FFI_Rets, types);
FIELD(kb_xla_buffers, buffers, XLA_FFI_Rets, rets);
ARGS_SIZE(kb_xla_buffers, buffers, XLA_FFI_Rets);

SIZE(kb_xla_bytes, XLA_FFI_ByteSpan);
FIELD(kb_xla_bytes, data, XLA_FFI_ByteSpan, ptr);
FIELD(kb_xla_bytes, size, XLA_FFI_ByteSpan, len);

SIZE(kb_xla_scalar, XLA_FFI_Scalar);
FIELD(kb_xla_scalar, dtype, XLA_FFI_Scalar, dtype);
FIELD(kb_xla_scalar, value, XLA_FFI_Scalar, value);

SIZE(kb_xla_array, XLA_FFI_Array);
FIELD(kb_xla_array, dtype, XLA_FFI_Array, dtype);
FIELD(kb_xla_array, size, XLA_FFI_Array, size);
FIELD(kb_xla_array, data, XLA_FFI_Array, data);

SIZE(kb_xla_attrs, XLA_FFI_Attrs);
HEAD(kb_xla_attrs, XLA_FFI_Attrs);
FIELD(kb_xla_attrs, size, XLA_FFI_Attrs, size);
FIELD(kb_xla_attrs, types, XLA_FFI_Attrs, types);
FIELD(kb_xla_attrs, names, XLA_FFI_Attrs, names);
FIELD(kb_xla_attrs, values, XLA_FFI_Attrs, attrs);
ARGS_SIZE(kb_xla_attrs, values, XLA_FFI_Attrs);

/* Theirs goes on behind `attrs`, with a future that we never answer by. */
HEAD(kb_xla_frame, XLA_FFI_CallFrame);
FIELD(kb_xla_frame, api, XLA_FFI_CallFrame, api);
FIELD(kb_xla_frame, context, XLA_FFI_CallFrame, ctx);
FIELD(kb_xla_frame, stage, XLA_FFI_CallFrame, stage);
FIELD(kb_xla_frame, args, XLA_FFI_CallFrame, args);
FIELD(kb_xla_frame, rets, XLA_FFI_CallFrame, rets);
FIELD(kb_xla_frame, attrs, XLA_FFI_CallFrame, attrs);
ARGS_SIZE(kb_xla_frame, attrs, XLA_FFI_CallFrame);

SIZE(kb_xla_error_create, XLA_FFI_Error_Create_Args);
HEAD(kb_xla_error_create, XLA_FFI_Error_Create_Args);
FIELD(kb_xla_error_create, message, XLA_FFI_Error_Create_Args, message);
FIELD(kb_xla_error_create, code, XLA_FFI_Error_Create_Args, errc);
ARGS_SIZE(kb_xla_error_create, code, XLA_FFI_Error_Create_Args);

SIZE(kb_xla_error_destroy, XLA_FFI_Error_Destroy_Args);
HEAD(kb_xla_error_destroy, XLA_FFI_Error_Destroy_Args);
FIELD(kb_xla_error_destroy, error, XLA_FFI_Error_Destroy_Args, error);
ARGS_SIZE(kb_xla_error_destroy, error, XLA_FFI_Error_Destroy_Args);

SIZE(kb_xla_schedule, XLA_FFI_ThreadPool_Schedule_Args);
HEAD(kb_xla_schedule, XLA_FFI_ThreadPool_Schedule_Args);
FIELD(kb_xla_schedule, context, XLA_FFI_ThreadPool_Schedule_Args, ctx);
FIELD(kb_xla_schedule, task, XLA_FFI_ThreadPool_Schedule_Args, task);
FIELD(kb_xla_schedule, data, XLA_FFI_ThreadPool_Schedule_Args, data);
ARGS_SIZE(kb_xla_schedule, data, XLA_FFI_ThreadPool_Schedule_Args);

SIZE(kb_xla_num_threads, XLA_FFI_ThreadPool_NumThreads_Args);
HEAD(kb_xla_num_threads, XLA_FFI_ThreadPool_NumThreads_Args);
FIELD(kb_xla_num_threads, context, XLA_FFI_ThreadPool_NumThreads_Args, ctx);
FIELD(kb_xla_num_threads, num_threads, XLA_FFI_ThreadPool_NumThreads_Args, num_threads);
ARGS_SIZE(kb_xla_num_threads, num_threads, XLA_FFI_ThreadPool_NumThreads_Args);

SIZE(kb_xla_run_id_get, XLA_FFI_RunId_Get_Args);
HEAD(kb_xla_run_id_get, XLA_FFI_RunId_Get_Args);
FIELD(kb_xla_run_id_get, context, XLA_FFI_RunId_Get_Args, ctx);
FIELD(kb_xla_run_id_get, run_id, XLA_FFI_RunId_Get_Args, run_id);
ARGS_SIZE(kb_xla_run_id_get, run_id, XLA_FFI_RunId_Get_Args);

SIZE(kb_xla_device_ordinal, XLA_FFI_DeviceOrdinal_Get_Args);
HEAD(kb_xla_device_ordinal, XLA_FFI_DeviceOrdinal_Get_Args);
FIELD(kb_xla_device_ordinal, context, XLA_FFI_DeviceOrdinal_Get_Args, ctx);
FIELD(kb_xla_device_ordinal, device_ordinal, XLA_FFI_DeviceOrdinal_Get_Args, device_ordinal);
ARGS_SIZE(kb_xla_device_ordinal, device_ordinal, XLA_FFI_DeviceOrdinal_Get_Args);

FIELD(kb_xla_stages, instantiate, XLA_FFI_Handler_Bundle, instantiate);
FIELD(kb_xla_stages, prepare, XLA_FFI_Handler_Bundle, prepare);
FIELD(kb_xla_stages, initialize, XLA_FFI_Handler_Bundle, initialize);
FIELD(kb_xla_stages, execute, XLA_FFI_Handler_Bundle, execute);

#if XLA_FFI_API_MINOR >= 5
typedef kb_xla_register_recorded registration;
SAME(KB_XLA_API_RECORDS, 5, "version that records");
SAME(offsetof(kb_xla_register_recorded, record) - offsetof(kb_xla_register_recorded, stages),
     offsetof(XLA_FFI_Handler_Bundle, record), "offset of kb_xla_register_recorded.record");
#else
typedef kb_xla_register registration;
SIZE(kb_xla_stages, XLA_FFI_Handler_Bundle);
#endif
SIZE(registration, XLA_FFI_Handler_Register_Args);
HEAD(registration, XLA_FFI_Handler_Register_Args);
FIELD(registration, name, XLA_FFI_Handler_Register_Args, name);
FIELD(registration, platform, XLA_FFI_Handler_Register_Args, platform);
SAME(offsetof(registration, stages), offsetof(XLA_FFI_Handler_Register_Args, bundle),
     "offset of the stages of a registration");
FIELD(registration, traits, XLA_FFI_Handler_Register_Args, traits);
ARGS_SIZE(registration, traits, XLA_FFI_Handler_Register_Args);

/* The table grows at its end; entries that XLA renamed are held by their neighbours. */
_Static_assert(sizeof(kb_xla_api) <= sizeof(XLA_FFI_Api), "size of kb_xla_api");
HEAD(kb_xla_api, XLA_FFI_Api);
FIELD(kb_xla_api, api_version, XLA_FFI_Api, api_version);
FIELD(kb_xla_api, internal_api, XLA_FFI_Api, internal_api);
FIELD(kb_xla_api, error_create, XLA_FFI_Api, XLA_FFI_Error_Create);
FIELD(kb_xla_api, error_destroy, XLA_FFI_Api, XLA_FFI_Error_Destroy);
FIELD(kb_xla_api, handler_register, XLA_FFI_Api, XLA_FFI_Handler_Register);
FIELD(kb_xla_api, stream_get, XLA_FFI_Api, XLA_FFI_Stream_Get);
FIELD(kb_xla_api, state_set, XLA_FFI_Api, XLA_FFI_State_Set);
FIELD(kb_xla_api, state_get, XLA_FFI_Api, XLA_FFI_State_Get);
FIELD(kb_xla_api, device_memory_allocate, XLA_FFI_Api, XLA_FFI_DeviceMemory_Allocate);
FIELD(kb_xla_api, device_memory_free, XLA_FFI_Api, XLA_FFI_DeviceMemory_Free);
FIELD(kb_xla_api, thread_pool_schedule, XLA_FFI_Api, XLA_FFI_ThreadPool_Schedule);
FIELD(kb_xla_api, thread_pool_num_threads, XLA_FFI_Api, XLA_FFI_ThreadPool_NumThreads);
FIELD(kb_xla_api, run_id_get, XLA_FFI_Api, XLA_FFI_RunId_Get);
FIELD(kb_xla_api, device_ordinal_get, XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get);
#if XLA_FFI_API_MINOR >= 5
FIELD(kb_xla_api, error_get_message, XLA_FFI_Api, XLA_FFI_Error_GetDetails);
FIELD(kb_xla_api, execution_context_get, XLA_FFI_Api, XLA_FFI_InvokeContext_Get);
#endif

int main(void)
{
    printf("abi_check: kb_xla.h (API %d.%d) agrees with the installed jaxlib (API %d.%d)\n",
           KB_XLA_API_MAJOR, KB_XLA_API_MINOR, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR);
    return 0;
}
