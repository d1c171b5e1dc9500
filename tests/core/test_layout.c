/* Proves that the structures of the public headers lie in memory as modules that were
 * compiled with KB_ABI 1 expect them: fields may be added at the end alone.
 * docs/versioning.md promises that. */
#include "kb_test.h"
#include "kernbridge/kernbridge.h"
#include "kernbridge/module.h"

#define AT(type, field, offset) CHECK_INT(offsetof(type, field), offset)
#define SIZE(type, size)        CHECK_INT(sizeof(type), size)

static void test_calls(void)
{
    AT(kb_tensor, data, 0);
    AT(kb_tensor, device, 8);
    AT(kb_tensor, ndim, 16);
    AT(kb_tensor, dl_dtype, 20);
    AT(kb_tensor, shape, 24);
    AT(kb_tensor, strides, 32);
    AT(kb_tensor, byte_offset, 40);
    AT(kb_tensor, type, 48);
    AT(kb_tensor, size, 56);
    SIZE(kb_tensor, 64);
    AT(kb_services, struct_size, 0);
    AT(kb_services, abi, 4);
    AT(kb_services, fail, 8);
    AT(kb_services, scratch, 16);
    AT(kb_services, parallel_for, 24);
    AT(kb_call, struct_size, 0);
    AT(kb_call, abi, 4);
    AT(kb_call, services, 8);
    AT(kb_call, context, 16);
    AT(kb_call, stream, 24);
    AT(kb_call, device, 32);
    AT(kb_call, n_inputs, 36);
    AT(kb_call, n_outputs, 40);
    AT(kb_call, n_attributes, 44);
    AT(kb_call, inputs, 48);
    AT(kb_call, outputs, 56);
    AT(kb_call, attributes, 64);
}

static void test_modules(void)
{
    AT(kb_slot, handle, 0);
    AT(kb_slot, target, 8);
    SIZE(kb_slot, 16);
    AT(kb_export, name, 0);
    AT(kb_export, tokens, 8);
    AT(kb_export, run, 16);
    AT(kb_export, handler, 24);
    AT(kb_export, slot, 32);
    SIZE(kb_export, 40);
    AT(kb_module, struct_size, 0);
    AT(kb_module, abi, 4);
    AT(kb_module, n_exports, 8);
    AT(kb_module, exports, 16);
    AT(kb_module, last_error, 24);
    AT(kb_module, types, 32);
}

int main(void)
{
    CHECK_INT(KB_ABI, 1);
    test_calls();
    test_modules();
    return kb_test_end("test_layout");
}
