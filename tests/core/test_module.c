/* Proves how libraries of kernels are opened, that the thread computes then as before, and which
 * descriptions of modules are accepted. */
#include "kb_test.h"
#include "module/kb_module.h"

#include <dlfcn.h>
#include <fenv.h>

static void *opened(const char *path)
{
    void *library = NULL;
    kb_error err;
    fesetround(FE_UPWARD);
    if (!CHECK_INT(kb_module_open(path, &library, &err), KB_OK))
        fprintf(stderr, "%s\n", err.message);
    CHECK_INT(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    return library;
}

/* That is what a library does, where nobody undoes it. */
static void test_change(void)
{
    fesetround(FE_UPWARD);
    void *library = dlopen(MODULE_SHORT, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    CHECK_INT(fegetround(), FE_DOWNWARD);
    fesetround(FE_TONEAREST);
    (void)dlclose(library);
}

static void test_open(void)
{
    void *library = opened(MODULE_GOOD);
    kb_error err;
    CHECK_INT(kb_module_open("/nowhere/lib.so", &library, &err), KB_NOT_FOUND);
    CHECK_PTR(library, NULL);
    CHECK_HAS(err.message, "/nowhere/lib.so: cannot open");
}

static void test_failure(void)
{
    const kb_module *module = NULL;
    kb_error err;
    CHECK_INT(kb_module_describe(opened(MODULE_FAILED), &module, &err), KB_FAILED_PRECONDITION);
    CHECK_TEXT(err.message, "a static constructor threw: no file");
}

static void test_descriptions(void)
{
    static const struct {
        const char *path;
        bool good;
    } cases[] = {{MODULE_GOOD, true}, {MODULE_SHORT, false}, {MODULE_OTHER_ABI, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kb_module *module = NULL;
        kb_error err;
        kb_status s = kb_module_describe(opened(cases[i].path), &module, &err);
        CHECK_INT(s, cases[i].good ? KB_OK : KB_INVALID_ARGUMENT);
        CHECK(module != NULL);
        if (s != KB_OK)
            CHECK_HAS(err.message, "build it again");
        if (i == 2) {
            char text[128];
            snprintf(text, sizeof text,
                     "the module speaks version %d of kernbridge's interface, "
                     "expected %d",
                     KB_ABI + 1, KB_ABI);
            CHECK_HAS(err.message, text);
        }
    }
    const kb_module *none = NULL;
    kb_error err;
    CHECK_INT(kb_module_describe(opened("libm.so.6"), &none, &err), KB_OK);
    CHECK_PTR(none, NULL);
}

int main(void)
{
    test_change();
    test_open();
    test_failure();
    test_descriptions();
    return kb_test_end("test_module");
}
