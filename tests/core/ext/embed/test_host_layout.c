/* Proves that the structures of kernbridge/host.h lie in memory as programs that were compiled with
 * KB_HOST_API 1 expect them: fields may be added at the end alone. docs/versioning.md promises
 * that. */
#include "kb_test.h"
#include "kernbridge/host.h"

#include <stddef.h>

#define AT(type, field, offset) CHECK_INT(offsetof(type, field), offset)
#define SIZE(type, size)        CHECK_INT(sizeof(type), size)

static void test_hosts(void)
{
    AT(kb_host_error, status, 0);
    AT(kb_host_error, message, 4);
    SIZE(kb_host_error, 2052);
    AT(kb_host_array, name, 0);
    AT(kb_host_array, dtype, 8);
    AT(kb_host_array, type, 16);
    AT(kb_host_array, donated, 20);
    AT(kb_host_array, n_dims, 24);
    AT(kb_host_array, dims, 32);
    AT(kb_host_array, size, 40);
    AT(kb_host_array, data, 48);
    AT(kb_host_program, platform, 0);
    AT(kb_host_program, format, 8);
    AT(kb_host_program, code, 16);
    AT(kb_host_program, code_size, 24);
    AT(kb_host_program, options, 32);
    AT(kb_host_program, options_size, 40);
    AT(kb_host_program, n_inputs, 48);
    AT(kb_host_program, inputs, 56);
    AT(kb_host_program, n_outputs, 64);
    AT(kb_host_program, outputs, 72);
}

int main(void)
{
    CHECK_INT(KB_HOST_API, 1);
    test_hosts();
    return kb_test_end("test_host_layout");
}
