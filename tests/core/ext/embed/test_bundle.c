/* Proves that a bundle is read as it was written, and that damage of any byte of any file, a file
 * that is missing or cut, and a manifest that asks for what is not there are refused with a reason,
 * as is every allocation that fails. */
#include "bundle.h"
#include "kb_test.h"
#include "kernbridge/host.h"
#include "torture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static kb_host_error error;

/* Says what there is to an array, but where its data is. */
static const char *told(const kb_host_array *a)
{
    static char text[256];
    size_t n = (size_t)snprintf(text, sizeof text, "'%s' %s %d, donated %d, %zu bytes [", a->name,
                                a->dtype, a->type, a->donated, a->size);
    for (size_t i = 0; i < a->n_dims; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %lld", (long long)a->dims[i]);
    (void)snprintf(text + n, sizeof text - n, "]");
    return text;
}

static void check_contents(const kb_bundle *bundle)
{
    const kb_host_program *p;
    if (!CHECK_INT(kb_bundle_program(bundle, "CPU and more", 3, &p, &error), KB_OK))
        return;
    CHECK_TEXT(p->platform, "cpu");
    CHECK_TEXT(p->format, "mlir");
    CHECK_INT(p->code_size, BUNDLE_CODE);
    CHECK(memcmp(p->code, bundle_code, p->code_size) == 0);
    CHECK_INT((uintptr_t)p->code % 64, 0);
    CHECK_INT(p->options_size, 6);
    CHECK(memcmp(p->options, "\x1a\x04\x20\x01\x28\x01", 6) == 0);
    CHECK_INT(p->n_inputs, 3);
    CHECK_INT(p->n_outputs, 2);
    CHECK_TEXT(told(p->inputs[0]), "'state.v' float32 11, donated 1, 16 bytes [ 4]");
    CHECK_TEXT(told(p->inputs[1]), "'state of two words' int64 5, donated 0, 64 bytes [ 2 4]");
    CHECK_TEXT(told(p->inputs[2]), "'flag' bool 1, donated 0, 1 bytes []");
    CHECK_TEXT(told(p->outputs[0]), "'result[0]' float32 11, donated 0, 16 bytes [ 4]");
    CHECK_TEXT(told(p->outputs[1]), "'result[1]' complex128 15, donated 0, 16 bytes []");
    const uint8_t *v = p->inputs[0]->data, *words = p->inputs[1]->data;
    CHECK_INT((uintptr_t)v % 64, 0);
    for (int i = 0; i < 16; i++)
        CHECK_INT(v[i], i);
    CHECK_PTR(words, v + 64);
    for (int i = 0; i < 64; i++)
        CHECK_INT(words[i], 64 + i);
    CHECK_PTR(p->inputs[2]->data, NULL);
    CHECK_PTR(p->outputs[0]->data, NULL);
    CHECK_PTR(p->outputs[1]->data, NULL);
}

/* The number that the next file gets. */
static int next_file(void)
{
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0);
    (void)close(file);
    return file;
}

static void test_contents(void)
{
    char text[BUNDLE_TEXT], folder[BUNDLE_PATH];
    kb_bundle *bundle;
    bundle_make(folder, text, bundle_text(bundle_lines, text));
    int next = next_file();
    kb_status s = kb_bundle_open(folder, &bundle, &error);
    bundle_remove(folder); /* before anybody looks at the bundle */
    if (!CHECK_INT(s, KB_OK))
        return;
    CHECK_INT(next_file(), next); /* each is closed */
    check_contents(bundle);
    const kb_host_program other = {.platform = "cpu"}, *p = &other;
    CHECK_INT(kb_bundle_program(bundle, "cuda", 4, &p, &error), KB_NOT_FOUND);
    CHECK_PTR(p, NULL);
    CHECK_TEXT(error.message, "the bundle has no program for the platform cuda, only for cpu: "
                              "export it with platforms=(\"cuda\", ...) [KB5108]");
    static const char *const others[] = {"cp", "cpux", "gpu", "cp ", ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        p = &other;
        CHECK_INT(kb_bundle_program(bundle, others[i], strlen(others[i]), &p, NULL), KB_NOT_FOUND);
        CHECK_PTR(p, NULL);
    }
    kb_bundle_close(bundle);
    kb_bundle_close(NULL);
}

/* Programs without data, and with no inputs; none is left out, nor any of their arrays. */
static void test_two_programs(void)
{
    static const char *const platforms[] = {"cpu", "cuda"};
    static const char *const lines[] = {
        "kernbridge-bundle 1",  "program %P cpu program.cpu.mlirbc",
        "output float32 1 4 a", "output int8 1 5 b",
        "output bool 0 c",      "program %P cuda program.cpu.mlirbc",
        "output float32 1 6 a", "output int8 1 7 b",
        "output bool 0 c",      NULL};
    char text[BUNDLE_TEXT], folder[BUNDLE_PATH];
    kb_bundle *bundle;
    const kb_host_program *p;
    bundle_make(folder, text, bundle_text(lines, text));
    bundle_drop(folder, "arguments.bin");
    kb_status s = kb_bundle_open(folder, &bundle, &error);
    bundle_remove(folder);
    if (!CHECK_INT(s, KB_OK))
        return;
    for (int i = 0; i < 2; i++) {
        CHECK_INT(kb_bundle_program(bundle, platforms[i], strlen(platforms[i]), &p, &error), KB_OK);
        CHECK_TEXT(p->platform, platforms[i]);
        CHECK_INT(p->n_inputs, 0);
        CHECK_INT(p->n_outputs, 3);
        CHECK_INT(p->code_size, BUNDLE_CODE);
        CHECK(memcmp(p->code, bundle_code, p->code_size) == 0);
        CHECK_TEXT(told(p->outputs[0]), i ? "'a' float32 11, donated 0, 24 bytes [ 6]"
                                          : "'a' float32 11, donated 0, 16 bytes [ 4]");
        CHECK_TEXT(told(p->outputs[1]), i ? "'b' int8 2, donated 0, 7 bytes [ 7]"
                                          : "'b' int8 2, donated 0, 5 bytes [ 5]");
        CHECK_TEXT(told(p->outputs[2]), "'c' bool 1, donated 0, 1 bytes []");
    }
    CHECK_INT(kb_bundle_program(bundle, "rocm and more", 4, &p, &error), KB_NOT_FOUND);
    CHECK_TEXT(error.message, "the bundle has no program for the platform rocm, only for cpu, "
                              "cuda: export it with platforms=(\"rocm\", ...) [KB5108]");
    kb_bundle_close(bundle);
}

/* Opens a folder that is to be refused; the message. */
static const char *refused(const char *folder, kb_status expected)
{
    kb_bundle *bundle = (kb_bundle *)&error;
    error.message[0] = '\0';
    CHECK_INT(kb_bundle_open(folder, &bundle, &error), expected);
    CHECK_INT(error.status, expected);
    CHECK_PTR(bundle, NULL);
    if (bundle)
        kb_bundle_close(bundle);
    return error.message;
}

static void test_missing(void)
{
    char text[BUNDLE_TEXT], folder[BUNDLE_PATH];
    size_t size = bundle_text(bundle_lines, text);
    CHECK_HAS(refused("/no/such/folder", KB_NOT_FOUND), "cannot read /no/such/folder/manifest.txt");
    static const char *const names[] = {"manifest.txt", "arguments.bin", "program.cpu.mlirbc"};
    for (int i = 0; i < 3; i++) {
        bundle_make(folder, text, size);
        bundle_drop(folder, names[i]);
        CHECK_HAS(refused(folder, KB_NOT_FOUND), names[i]);
        CHECK_HAS(error.message, "No such file");
        bundle_remove(folder);
    }
}

/* A pipe has a name, and no place that could be sought. */
static void test_pipe(void)
{
    char text[BUNDLE_TEXT], folder[BUNDLE_PATH], path[2 * BUNDLE_PATH], expected[3 * BUNDLE_PATH];
    bundle_make(folder, text, bundle_text(bundle_lines, text));
    bundle_drop(folder, "manifest.txt");
    (void)snprintf(path, sizeof path, "%s/manifest.txt", folder);
    (void)snprintf(expected, sizeof expected, "cannot read %s: Illegal seek [KB5108]", path);
    CHECK_INT(mkfifo(path, 0600), 0);
    int held = open(path, O_RDWR | O_CLOEXEC); /* so that nobody waits for a writer */
    CHECK(held >= 0);
    CHECK_TEXT(refused(folder, KB_NOT_FOUND), expected);
    (void)close(held);
    bundle_remove(folder);
}

/* Every bit of the files, one byte at a time, and every length that is too short. */
static void test_damage(void)
{
    char text[BUNDLE_TEXT], folder[BUNDLE_PATH];
    size_t size = bundle_text(bundle_lines, text);
    bundle_make(folder, text, size);
    for (size_t i = 0; i < size; i++) {
        text[i] ^= (char)(1 << i % 8);
        bundle_put(folder, "manifest.txt", text, size);
        text[i] ^= (char)(1 << i % 8);
        kb_bundle *bundle;
        kb_status s = kb_bundle_open(folder, &bundle, &error);
        CHECK(s == KB_INVALID_ARGUMENT || s == KB_FAILED_PRECONDITION);
        bundle_put(folder, "manifest.txt", text, i);
        CHECK_HAS(refused(folder, KB_INVALID_ARGUMENT), "manifest.txt is damaged: ");
    }
    bundle_put(folder, "manifest.txt", text, size);
    char code[BUNDLE_CODE];
    memcpy(code, bundle_code, sizeof code);
    code[4] ^= 1;
    bundle_put(folder, "program.cpu.mlirbc", code, sizeof code);
    CHECK_HAS(refused(folder, KB_INVALID_ARGUMENT), "program.cpu.mlirbc is damaged: it is not the "
                                                    "file that the manifest describes. Copy the "
                                                    "bundle again, or export it again");
    bundle_put(folder, "program.cpu.mlirbc", bundle_code, BUNDLE_CODE - 1);
    CHECK_HAS(refused(folder, KB_INVALID_ARGUMENT), "program.cpu.mlirbc is damaged");
    bundle_put(folder, "program.cpu.mlirbc", bundle_code, BUNDLE_CODE + 1);
    CHECK_HAS(refused(folder, KB_INVALID_ARGUMENT), "program.cpu.mlirbc is damaged");
    bundle_put(folder, "program.cpu.mlirbc", bundle_code, BUNDLE_CODE);
    bundle_put(folder, "arguments.bin", text, BUNDLE_DATA);
    CHECK_HAS(refused(folder, KB_INVALID_ARGUMENT), "arguments.bin is damaged");
    bundle_remove(folder);
}

/* A line in place of the one of that number. */
static const struct {
    int at;
    const char *line, *words;
} bad_lines[] = {
    {0, "kernbridge", "it is not the manifest of a bundle"},
    {0, "kernbridge-bundle 1 2", "it is not the manifest of a bundle"},
    {1, "maker kernbridge", "line 2 is damaged"},
    {1, "", "line 2 is damaged"},
    {1, "data %D arguments.bin", "line 3 is damaged"}, /* a second time */
    {2, "data %D ../arguments.bin", "line 3 is damaged"},
    {2, "data %D .hidden", "line 3 is damaged"},
    {2, "data %D", "line 3 is damaged"},
    {2, "data %D arguments.bin more", "line 3 is damaged"},
    {2, "data -128 00 arguments.bin", "line 3 is damaged"},
    {2, "data 128 000000000000000000000000000000000000000000000000000000000000000g arguments.bin",
     "line 3 is damaged"},
    {2,
     "data 9223372036854775808 "
     "0000000000000000000000000000000000000000000000000000000000000000 arguments.bin",
     "line 3 is damaged"},
    {3, "program %P cpu", "line 4 is damaged"},
    {3, "made-by nobody", "line 5 is damaged"}, /* arrays without a program */
    {4, "input float33 1 0 1 4 state.v", "line 5 is damaged"},
    {4, "input int4 1 0 1 4 state.v", "line 5 is damaged"},
    {4, "input float32 2 0 1 4 state.v", "line 5 is damaged"},
    {4, "input float32 1 1 1 4 state.v", "line 5 is damaged"},
    {4, "input float32 1 128 1 4 state.v", "line 5 is damaged"},
    {4, "input float32 1 192 0 state.v", "line 5 is damaged"},
    {4, "input float32 1 0 1 33 state.v", "line 5 is damaged"},
    {4, "input float32 1 0 65 4 state.v", "line 5 is damaged"},
    {4, "input float32 1 0 2 4", "line 5 is damaged"},
    {4, "input float32 1 0 1 -4 state.v", "line 5 is damaged"},
    {4, "input float32 1 - 3 4294967296 4294967296 1 v", "line 5 is damaged"},
    {4, "input float32 1 - 1 9223372036854775808 v", "line 5 is damaged"},
    {4, "input  float32 1 0 1 4 state.v", "line 5 is damaged"},
    {7, "output float32 1", "line 8 is damaged"},
    {7, "data %D arguments.bin", "line 8 is damaged"},
};

static void test_bad_lines(void)
{
    char text[BUNDLE_TEXT], folder[BUNDLE_PATH];
    const char *lines[16];
    memcpy(lines, bundle_lines, 10 * sizeof *lines);
    bundle_make(folder, text, bundle_text(lines, text));
    for (size_t i = 0; i < sizeof bad_lines / sizeof *bad_lines; i++) {
        const char *before = lines[bad_lines[i].at];
        lines[bad_lines[i].at] = bad_lines[i].line;
        bundle_put(folder, "manifest.txt", text, bundle_text(lines, text));
        CHECK_HAS(refused(folder, KB_INVALID_ARGUMENT), bad_lines[i].words);
        lines[bad_lines[i].at] = before;
    }
    lines[0] = "kernbridge-bundle 2";
    bundle_put(folder, "manifest.txt", text, bundle_text(lines, text));
    CHECK_HAS(refused(folder, KB_FAILED_PRECONDITION),
              "the bundle has format 2, and this libkernbridge reads format 1");
    lines[0] = bundle_lines[0];
    lines[3] = NULL;
    bundle_put(folder, "manifest.txt", text, bundle_text(lines, text));
    CHECK_HAS(refused(folder, KB_INVALID_ARGUMENT), "there is no program");
    bundle_remove(folder);
}

/* Of a bundle with so many arrays that each list of them takes a block of its own. */
static void test_no_memory(void)
{
    enum { MANY = 180, FRONT = 4 };
    char text[BUNDLE_TEXT], folder[BUNDLE_PATH];
    const char *lines[FRONT + MANY + 1] = {NULL};
    memcpy(lines, bundle_lines, FRONT * sizeof *lines);
    for (int i = 0; i < MANY; i++)
        lines[FRONT + i] = i % 2 ? "output bool 0 r" : "input bool 0 - 0 x";
    bundle_make(folder, text, bundle_text(lines, text));
    kb_bundle *bundle;
    int n = 0;
    for (kb_status s = KB_RESOURCE_EXHAUSTED; s != KB_OK && n < 1000; n++) {
        torture_fail_nth(n + 1);
        s = kb_bundle_open(folder, &bundle, &error);
        torture_fail_nth(0);
        if (s != KB_OK) {
            CHECK_INT(s, KB_RESOURCE_EXHAUSTED);
            CHECK_HAS(error.message, "no memory");
        }
    }
    CHECK(n > 3 && n < 1000);
    kb_bundle_close(bundle);
    bundle_remove(folder);
}

/* A file of which the end is cut off while it is read: just before the given request for memory. */
static char cut_file[2 * BUNDLE_PATH];
static int cut_after;

static void cut(void)
{
    if (--cut_after > 0)
        torture_meanwhile(cut);
    else
        CHECK_INT(truncate(cut_file, BUNDLE_DATA), 0);
}

/* In one of the moments its size is known already. Larger than what the C library reads at once, it
 * is damaged before and behind that. */
static void test_cut_off(void)
{
    static uint8_t data[1 << 16];
    char text[BUNDLE_TEXT], folder[BUNDLE_PATH], expected[3 * BUNDLE_PATH];
    int n_cut = 0;
    bundle_make(folder, text, bundle_text(bundle_lines, text));
    (void)snprintf(cut_file, sizeof cut_file, "%s/arguments.bin", folder);
    (void)snprintf(expected, sizeof expected, "cannot read %s: %s", cut_file, strerror(EIO));
    for (int n = 1; n < 64 && cut_after <= 0; n++) {
        kb_bundle *bundle;
        bundle_put(folder, "arguments.bin", data, sizeof data);
        cut_after = n;
        torture_meanwhile(cut);
        kb_status s = kb_bundle_open(folder, &bundle, &error);
        torture_meanwhile(NULL);
        CHECK(s == KB_INVALID_ARGUMENT || s == KB_NOT_FOUND);
        if (s == KB_NOT_FOUND && CHECK_HAS(error.message, expected))
            n_cut++;
    }
    CHECK_INT(n_cut, 1);
    CHECK(cut_after > 0); /* there was no such request any more */
    bundle_remove(folder);
}

int main(void)
{
    test_contents();
    test_two_programs();
    test_missing();
    test_pipe();
    test_damage();
    test_bad_lines();
    test_cut_off();
    test_no_memory();
    CHECK_INT(kb_host_api(), KB_HOST_API);
    return kb_test_end("test_bundle");
}
