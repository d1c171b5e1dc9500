/* The network of examples/coba.py in a program without Python: steps of a bundle that export.py
 * wrote, run by a PJRT plugin.
 *
 *     coba PLUGIN BUNDLE [STEPS]
 *
 * PLUGIN is a shared library with GetPjrtApi, for the CPU or for a GPU. Prints how many spikes the
 * network had in STEPS (10,000) steps, and what a step took. The program of the bundle takes a
 * state and constant arrays; it returns the next state and, as its last result, who spikes. */
#include "pjrt_c_api.h"

#include <kernbridge/host.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ARRAYS_MAX = 16, STEPS = 10000 };

typedef struct host {
    const PJRT_Api *api;
    PJRT_Client *client;
    PJRT_Device *device;
    const kb_host_program *program;
    PJRT_LoadedExecutable *step;
    PJRT_Buffer *inputs[ARRAYS_MAX];
    PJRT_Buffer *outputs[ARRAYS_MAX];
    size_t n_state; /* the first outputs, which are the first inputs of the next step */
} host;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "coba: %s: %s\n", what, why);
    exit(1);
}

/* Ends the program with the message of an error, which holds that of a kernel's exception, too. */
static void check(const host *h, PJRT_Error *error, const char *what)
{
    if (!error)
        return;
    PJRT_Error_Message_Args args = {.struct_size = PJRT_Error_Message_Args_STRUCT_SIZE,
                                    .error = error};
    h->api->PJRT_Error_Message(&args);
    fprintf(stderr, "coba: %s: %.*s\n", what, (int)args.message_size, args.message);
    exit(1);
}

/* Waits for an event and destroys it. */
static void await(const host *h, PJRT_Event *event, const char *what)
{
    PJRT_Event_Await_Args args = {.struct_size = PJRT_Event_Await_Args_STRUCT_SIZE, .event = event};
    check(h, h->api->PJRT_Event_Await(&args), what);
    PJRT_Event_Destroy_Args destroy = {.struct_size = PJRT_Event_Destroy_Args_STRUCT_SIZE,
                                       .event = event};
    check(h, h->api->PJRT_Event_Destroy(&destroy), what);
}

static void destroy(const host *h, PJRT_Buffer *buffer)
{
    PJRT_Buffer_Destroy_Args args = {.struct_size = PJRT_Buffer_Destroy_Args_STRUCT_SIZE,
                                     .buffer = buffer};
    check(h, h->api->PJRT_Buffer_Destroy(&args), "destroying a buffer");
}

/* Opens the plugin, hands it kernbridge's handlers, and starts its client. */
static void start(host *h, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail("opening the plugin", dlerror());
    const PJRT_Api *(*get)(void) = (const PJRT_Api *(*)(void))dlsym(library, "GetPjrtApi");
    if (!get)
        fail(path, "no PJRT plugin, since it has no GetPjrtApi");
    h->api = get();
    PJRT_Plugin_Initialize_Args plugin = {.struct_size = PJRT_Plugin_Initialize_Args_STRUCT_SIZE};
    check(h, h->api->PJRT_Plugin_Initialize(&plugin), "initialising the plugin");

    kb_host_error error;
    if (kb_host_register(h->api, &error) != KB_OK)
        fail("registering kernbridge", error.message);

    PJRT_Client_Create_Args client = {.struct_size = PJRT_Client_Create_Args_STRUCT_SIZE};
    check(h, h->api->PJRT_Client_Create(&client), "creating a client");
    h->client = client.client;
    PJRT_Client_AddressableDevices_Args devices = {
        .struct_size = PJRT_Client_AddressableDevices_Args_STRUCT_SIZE, .client = h->client};
    check(h, h->api->PJRT_Client_AddressableDevices(&devices), "listing devices");
    if (devices.num_addressable_devices == 0)
        fail(path, "the plugin has no device");
    h->device = devices.addressable_devices[0];
}

/* Compiles the bundle's program for the client's platform. */
static void compile(host *h, const kb_bundle *bundle)
{
    PJRT_Client_PlatformName_Args name = {.struct_size = PJRT_Client_PlatformName_Args_STRUCT_SIZE,
                                          .client = h->client};
    check(h, h->api->PJRT_Client_PlatformName(&name), "asking for the platform");
    kb_host_error error;
    if (kb_bundle_program(bundle, name.platform_name, name.platform_name_size, &h->program,
                          &error) != KB_OK)
        fail("choosing a program", error.message);
    PJRT_Program program = {
        .struct_size = PJRT_Program_STRUCT_SIZE,
        .code = (char *)(uintptr_t)h->program->code,
        .code_size = h->program->code_size,
        .format = h->program->format,
        .format_size = strlen(h->program->format),
    };
    PJRT_Client_Compile_Args args = {
        .struct_size = PJRT_Client_Compile_Args_STRUCT_SIZE,
        .client = h->client,
        .program = &program,
        .compile_options = h->program->options,
        .compile_options_size = h->program->options_size,
    };
    check(h, h->api->PJRT_Client_Compile(&args), "compiling the program");
    h->step = args.executable;
    printf("program for %s of %zu bytes is compiled\n", h->program->platform,
           h->program->code_size);
    fflush(stdout);
}

/* The buffer of an argument, with the values that came with the bundle. */
static PJRT_Buffer *upload(const host *h, const kb_host_array *array)
{
    if (!array->data)
        fail(array->name, "the bundle has no values of it; export it with with_values=True");
    PJRT_Client_BufferFromHostBuffer_Args args = {
        .struct_size = PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE,
        .client = h->client,
        .data = array->data,
        .type = (PJRT_Buffer_Type)array->type,
        .dims = array->dims,
        .num_dims = array->n_dims,
        .host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes,
        .device = h->device,
    };
    check(h, h->api->PJRT_Client_BufferFromHostBuffer(&args), array->name);
    await(h, args.done_with_host_buffer, array->name);
    return args.buffer;
}

/* One step: the state of `inputs` becomes the next one. */
static void advance(host *h)
{
    PJRT_ExecuteOptions options = {.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE};
    PJRT_Buffer *const *inputs = h->inputs;
    PJRT_Buffer **outputs = h->outputs;
    PJRT_Event *done = NULL;
    PJRT_LoadedExecutable_Execute_Args args = {
        .struct_size = PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE,
        .executable = h->step,
        .options = &options,
        .argument_lists = &inputs,
        .num_devices = 1,
        .num_args = h->program->n_inputs,
        .output_lists = &outputs,
        .device_complete_events = &done,
    };
    check(h, h->api->PJRT_LoadedExecutable_Execute(&args), "a step");
    await(h, done, "a step");
    for (size_t i = 0; i < h->n_state; i++) { /* the old memory is the new state's */
        destroy(h, h->inputs[i]);
        h->inputs[i] = h->outputs[i];
    }
}

static bool is_on_cpu(const host *h, PJRT_Buffer *buffer)
{
    PJRT_Buffer_IsOnCpu_Args args = {.struct_size = PJRT_Buffer_IsOnCpu_Args_STRUCT_SIZE,
                                     .buffer = buffer};
    check(h, h->api->PJRT_Buffer_IsOnCpu(&args), "asking where a buffer is");
    return args.is_on_cpu;
}

/* The bytes of a buffer of the CPU, which stay there until let_go. No thread copies them. */
static const uint8_t *hold(const host *h, PJRT_Buffer *buffer)
{
    PJRT_Buffer_IncreaseExternalReferenceCount_Args held = {
        .struct_size = PJRT_Buffer_IncreaseExternalReferenceCount_Args_STRUCT_SIZE,
        .buffer = buffer};
    check(h, h->api->PJRT_Buffer_IncreaseExternalReferenceCount(&held), "holding a buffer");
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args args = {
        .struct_size = PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args_STRUCT_SIZE,
        .buffer = buffer};
    check(h, h->api->PJRT_Buffer_OpaqueDeviceMemoryDataPointer(&args), "looking into a buffer");
    return args.device_memory_ptr;
}

static void let_go(const host *h, PJRT_Buffer *buffer)
{
    PJRT_Buffer_DecreaseExternalReferenceCount_Args args = {
        .struct_size = PJRT_Buffer_DecreaseExternalReferenceCount_Args_STRUCT_SIZE,
        .buffer = buffer};
    check(h, h->api->PJRT_Buffer_DecreaseExternalReferenceCount(&args), "releasing a buffer");
}

/* Copies a buffer of any device. */
static void download(const host *h, PJRT_Buffer *buffer, uint8_t *bytes, size_t size)
{
    PJRT_Buffer_ToHostBuffer_Args args = {
        .struct_size = PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE,
        .src = buffer,
        .dst = bytes,
        .dst_size = size,
    };
    check(h, h->api->PJRT_Buffer_ToHostBuffer(&args), "reading a buffer");
    await(h, args.event, "reading a buffer");
}

static long sum(const uint8_t *bytes, size_t size)
{
    long n = 0;
    for (size_t i = 0; i < size; i++)
        n += bytes[i];
    return n;
}

/* Counts who spiked, in the last output, and destroys it. */
static long count_spikes(const host *h, uint8_t *room)
{
    PJRT_Buffer *buffer = h->outputs[h->n_state];
    size_t size = h->program->outputs[h->n_state]->size;
    long n;
    if (is_on_cpu(h, buffer)) {
        n = sum(hold(h, buffer), size);
        let_go(h, buffer);
    } else {
        download(h, buffer, room, size);
        n = sum(room, size);
    }
    destroy(h, buffer);
    return n;
}

static double seconds(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void release(const host *h)
{
    for (size_t i = 0; i < h->program->n_inputs; i++)
        destroy(h, h->inputs[i]);
    PJRT_LoadedExecutable_Destroy_Args step = {
        .struct_size = PJRT_LoadedExecutable_Destroy_Args_STRUCT_SIZE, .executable = h->step};
    check(h, h->api->PJRT_LoadedExecutable_Destroy(&step), "destroying the program");
    PJRT_Client_Destroy_Args client = {.struct_size = PJRT_Client_Destroy_Args_STRUCT_SIZE,
                                       .client = h->client};
    check(h, h->api->PJRT_Client_Destroy(&client), "destroying the client");
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: coba PLUGIN BUNDLE [STEPS]\n");
        return 2;
    }
    host h = {0};
    start(&h, argv[1]);
    kb_bundle *bundle;
    kb_host_error error;
    if (kb_bundle_open(argv[2], &bundle, &error) != KB_OK)
        fail("opening the bundle", error.message);
    compile(&h, bundle);

    const kb_host_program *p = h.program;
    if (p->n_inputs > ARRAYS_MAX || p->n_outputs == 0 || p->n_outputs > ARRAYS_MAX ||
        p->n_outputs - 1 > p->n_inputs)
        fail(argv[2], "its results are not a state and who spikes");
    h.n_state = p->n_outputs - 1;
    for (size_t i = 0; i < p->n_inputs; i++)
        h.inputs[i] = upload(&h, p->inputs[i]);
    uint8_t *room = malloc(p->outputs[h.n_state]->size);
    if (!room)
        fail("spikes", "no memory");

    long steps = argc > 3 ? strtol(argv[3], NULL, 10) : STEPS, spikes = 0;
    double begin = seconds();
    for (long i = 0; i < steps; i++) {
        advance(&h);
        spikes += count_spikes(&h, room);
    }
    double took = seconds() - begin;
    printf("%ld spikes in %ld steps, %.1f us a step\n", spikes, steps,
           steps > 0 ? 1e6 * took / (double)steps : 0.0);

    free(room);
    release(&h);
    kb_bundle_close(bundle);
    return 0;
}
