/* Proves that a host without Python survives whatever the system refuses while a bundle is opened
 * and a plugin registered. See scenario.h. */
#include "abi/kb_pjrt.h"
#include "bundle.h"
#include "kb_test.h"
#include "kernbridge/host.h"
#include "scenario.h"

#include <stdlib.h>
#include <string.h>

static char folder[BUNDLE_PATH];

static kb_status answer(kb_status s, const kb_host_error *from, kb_error *err)
{
    return s == KB_OK ? s : kb_error_set(err, from->status, "%s", from->message);
}

static kb_status open_bundle(kb_error *err)
{
    kb_host_error error = {0};
    kb_bundle *bundle;
    kb_status s = kb_bundle_open(folder, &bundle, &error);
    if (s != KB_OK) {
        CHECK_PTR(bundle, NULL);
        return answer(s, &error, err);
    }
    const kb_host_program *p = NULL;
    CHECK_INT(kb_bundle_program(bundle, "CPU", 3, &p, &error), KB_OK);
    CHECK_INT(p->n_inputs, 3);
    CHECK_INT(p->code_size, BUNDLE_CODE);
    CHECK(memcmp(p->code, bundle_code, BUNDLE_CODE) == 0);
    CHECK_INT(((const uint8_t *)p->inputs[1]->data)[5], 64 + 5);
    kb_bundle_close(bundle);
    return KB_OK;
}

static kb_xla_api xla;
static int n_registered;

static kb_pjrt_error *register_handler(kb_pjrt_register *args)
{
    fake_frame f;
    fake_frame_init(&f, &xla, KB_XLA_STAGE_EXECUTE);
    fake_ask_metadata(&f);
    CHECK_PTR(((kb_xla_handler *)(uintptr_t)args->handler)(&f.frame), NULL);
    fake_frame_free(&f);
    return NULL;
}

static kb_xla_error *register_stages(void *given)
{
    (void)given;
    n_registered++;
    return NULL;
}

static kb_status register_plugin(kb_error *err)
{
    static kb_pjrt_ffi ffi;
    static kb_pjrt_api api;
    kb_host_error error = {0};
    n_registered = 0;
    xla = *fake_api(3);
    xla.handler_register = register_stages;
    ffi = (kb_pjrt_ffi){.base = {.struct_size = sizeof ffi, .type = KB_PJRT_EXTENSION_FFI},
                        .register_handler = register_handler};
    api = (kb_pjrt_api){.struct_size = sizeof api, .extension_start = &ffi.base};
    static bool is_done;
    kb_status s = kb_host_register((const struct PJRT_Api *)&api, &error);
    if (s == KB_OK) {
        CHECK(is_done ? n_registered == 0 : n_registered > 6);
        is_done = true;
    }
    return answer(s, &error, err);
}

int main(void)
{
    char text[BUNDLE_TEXT];
    bundle_make(folder, text, bundle_text(bundle_lines, text));
    scenario_torture(&(scenario){
        .name = "bundle",
        .run = open_bundle,
        .at_least = {[TORTURE_MEMORY] = 5, [TORTURE_FILE] = 3 * 5},
    });
    bundle_remove(folder);
    scenario_torture(
        &(scenario){.name = "plugin", .run = register_plugin, .at_least = {[TORTURE_MEMORY] = 1}});
    return kb_test_end("test_torture_embed");
}
