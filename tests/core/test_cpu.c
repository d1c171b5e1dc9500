/* Proves which bits of a processor are which features, for processors that are played, and what is
 * said of features that are missing. */
#include "kb_test.h"
#include "object/kb_cpu.h"

#if defined(__x86_64__)

enum { EAX, EBX, ECX, EDX, REGISTERS };
enum { LEAF_EXTENDED = (int)0x80000001, N = 37, ALL_STATE = 0xe7 };

/* After the manuals of the processors and LLVM's names; `needs` are the bits of XCR0. */
static const struct {
    const char *name;
    uint32_t leaf, subleaf;
    int reg, bit;
    uint32_t needs;
} features[N] = {
    {"sse3", 1, 0, ECX, 0, 0},
    {"pclmul", 1, 0, ECX, 1, 0},
    {"ssse3", 1, 0, ECX, 9, 0},
    {"fma", 1, 0, ECX, 12, 6},
    {"cx16", 1, 0, ECX, 13, 0},
    {"sse4.1", 1, 0, ECX, 19, 0},
    {"sse4.2", 1, 0, ECX, 20, 0},
    {"movbe", 1, 0, ECX, 22, 0},
    {"popcnt", 1, 0, ECX, 23, 0},
    {"aes", 1, 0, ECX, 25, 0},
    {"avx", 1, 0, ECX, 28, 6},
    {"f16c", 1, 0, ECX, 29, 6},
    {"bmi", 7, 0, EBX, 3, 0},
    {"avx2", 7, 0, EBX, 5, 6},
    {"bmi2", 7, 0, EBX, 8, 0},
    {"avx512f", 7, 0, EBX, 16, 0xe6},
    {"avx512dq", 7, 0, EBX, 17, 0xe6},
    {"adx", 7, 0, EBX, 19, 0},
    {"avx512ifma", 7, 0, EBX, 21, 0xe6},
    {"avx512cd", 7, 0, EBX, 28, 0xe6},
    {"sha", 7, 0, EBX, 29, 0},
    {"avx512bw", 7, 0, EBX, 30, 0xe6},
    {"avx512vl", 7, 0, EBX, 31, 0xe6},
    {"avx512vbmi", 7, 0, ECX, 1, 0xe6},
    {"avx512vbmi2", 7, 0, ECX, 6, 0xe6},
    {"gfni", 7, 0, ECX, 8, 0},
    {"vaes", 7, 0, ECX, 9, 6},
    {"vpclmulqdq", 7, 0, ECX, 10, 6},
    {"avx512vnni", 7, 0, ECX, 11, 0xe6},
    {"avx512bitalg", 7, 0, ECX, 12, 0xe6},
    {"avx512vpopcntdq", 7, 0, ECX, 14, 0xe6},
    {"avx512fp16", 7, 0, EDX, 23, 0xe6},
    {"avxvnni", 7, 1, EAX, 4, 6},
    {"avx512bf16", 7, 1, EAX, 5, 0xe6},
    {"avxifma", 7, 1, EAX, 23, 6},
    {"sahf", (uint32_t)LEAF_EXTENDED, 0, ECX, 0, 0},
    {"lzcnt", (uint32_t)LEAF_EXTENDED, 0, ECX, 5, 0},
};

/* A processor that has one feature, or none, and the switch of its operating system. */
static struct {
    int has;
    uint32_t xcr0;
    bool osxsave, answers;
    int n_kept;
} played;

static bool ask(uint32_t leaf, uint32_t subleaf, uint32_t registers[REGISTERS])
{
    if (!played.answers) {
        memset(registers, 0xff, REGISTERS * sizeof *registers);
        return false;
    }
    memset(registers, 0, REGISTERS * sizeof *registers);
    if (leaf == 1 && subleaf == 0 && played.osxsave)
        registers[ECX] = UINT32_C(1) << 27;
    if (played.has < N && features[played.has].leaf == leaf &&
        features[played.has].subleaf == subleaf)
        registers[features[played.has].reg] |= UINT32_C(1) << features[played.has].bit;
    return true;
}

static uint32_t kept(void)
{
    played.n_kept++;
    return played.xcr0;
}

static uint64_t features_with(int has, uint32_t xcr0)
{
    played.has = has;
    played.xcr0 = xcr0;
    return kb_cpu_features_of(&(kb_cpu){ask, kept});
}

/* Each bit is one feature, if the operating system keeps each part of the state that it needs. */
static void test_bits(void)
{
    played.osxsave = played.answers = true;
    for (int i = 0; i < N; i++) {
        uint64_t one = UINT64_C(1) << i;
        CHECK_TEXT(kb_cpu_feature((unsigned)i), features[i].name);
        CHECK(features_with(i, ALL_STATE) == one);
        CHECK(features_with(i, features[i].needs) == one);
        for (int bit = 0; bit < 8; bit++)
            if (features[i].needs >> bit & 1)
                CHECK(features_with(i, ALL_STATE & ~(1u << bit)) == 0);
    }
    CHECK_PTR(kb_cpu_feature(N), NULL);
    CHECK(features_with(N, ALL_STATE) == 0);
}

/* Without the switch, xgetbv is an invalid instruction. */
static void test_old(void)
{
    played.n_kept = 0;
    played.osxsave = false;
    played.answers = true;
    CHECK(features_with(0, ALL_STATE) == 1);
    CHECK(features_with(3, ALL_STATE) == 0);
    played.answers = false;
    CHECK(features_with(0, ALL_STATE) == 0);
    CHECK_INT(played.n_kept, 0);
    played.osxsave = played.answers = true;
    CHECK(features_with(3, ALL_STATE) == 1 << 3);
    CHECK_INT(played.n_kept, 1);
}

/* What the kernel says of this processor; its names are others, or the same. */
static void test_this_processor(void)
{
    static const struct {
        int i;
        const char *flag;
    } flags[] = {{0, " pni"},   {3, " fma"},      {5, " sse4_1"},      {10, " avx"}, {12, " bmi1"},
                 {13, " avx2"}, {15, " avx512f"}, {23, " avx512vbmi"}, {36, " abm"}};
    char line[8192] = "";
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && strncmp(line, "flags", 5) != 0 && fgets(line, sizeof line, file))
        ;
    if (file)
        fclose(file);
    if (strncmp(line, "flags", 5) != 0)
        return; /* another kernel */
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const char *at = strstr(line, flags[i].flag);
        while (at && at[strlen(flags[i].flag)] != ' ' && at[strlen(flags[i].flag)] != '\n')
            at = strstr(at + 1, flags[i].flag);
        CHECK_INT(kb_cpu_features() >> flags[i].i & 1, at != NULL);
    }
}

#endif

static void test_missing(void)
{
    kb_error err;
    uint64_t present = kb_cpu_features();
    CHECK_INT(kb_cpu_check(0, "op", &err), KB_OK);
    CHECK_INT(kb_cpu_check(present, "op", &err), KB_OK);
    CHECK_INT(kb_cpu_check(present | UINT64_C(1) << 63 | UINT64_C(1) << 62, "op", &err),
              KB_FAILED_PRECONDITION);
    CHECK_INT(err.status, KB_FAILED_PRECONDITION);
    CHECK_TEXT(err.message,
               "op: the machine code needs what this processor does not have: feature 62 of a "
               "later kernbridge, feature 63 of a later kernbridge");
    for (unsigned i = 0; kb_cpu_feature(i); i++) {
        bool missing = !(present >> i & 1);
        CHECK_INT(kb_cpu_check(UINT64_C(1) << i, "op", &err),
                  missing ? KB_FAILED_PRECONDITION : KB_OK);
        if (missing)
            CHECK_HAS(err.message, kb_cpu_feature(i));
    }
    CHECK_PTR(kb_cpu_feature(64), NULL);
}

int main(void)
{
#if defined(__x86_64__)
    test_bits();
    test_old();
    test_this_processor();
#endif
    test_missing();
    return kb_test_end("test_cpu");
}
