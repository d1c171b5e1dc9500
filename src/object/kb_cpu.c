/* Owns the questions to the processor. */
#include "object/kb_cpu.h"

#include <stddef.h>

#if defined(__x86_64__)

#include <cpuid.h>

enum { EAX, EBX, ECX, EDX, REGISTERS };

/* Parts of a thread's state that the operating system must keep, as bits of XCR0. */
enum { BASE = 0, YMM = 0x6, ZMM = 0xe6 };

enum { OSXSAVE_BIT = 27 };

typedef struct feature {
    const char *name;
    uint32_t leaf, subleaf;
    uint8_t reg, bit, state;
} feature;

static const uint32_t EXTENDED = 0x80000001;

/* Only ever appended to. */
static const feature FEATURES[] = {
    {"sse3", 1, 0, ECX, 0, BASE},
    {"pclmul", 1, 0, ECX, 1, BASE},
    {"ssse3", 1, 0, ECX, 9, BASE},
    {"fma", 1, 0, ECX, 12, YMM},
    {"cx16", 1, 0, ECX, 13, BASE},
    {"sse4.1", 1, 0, ECX, 19, BASE},
    {"sse4.2", 1, 0, ECX, 20, BASE},
    {"movbe", 1, 0, ECX, 22, BASE},
    {"popcnt", 1, 0, ECX, 23, BASE},
    {"aes", 1, 0, ECX, 25, BASE},
    {"avx", 1, 0, ECX, 28, YMM},
    {"f16c", 1, 0, ECX, 29, YMM},
    {"bmi", 7, 0, EBX, 3, BASE},
    {"avx2", 7, 0, EBX, 5, YMM},
    {"bmi2", 7, 0, EBX, 8, BASE},
    {"avx512f", 7, 0, EBX, 16, ZMM},
    {"avx512dq", 7, 0, EBX, 17, ZMM},
    {"adx", 7, 0, EBX, 19, BASE},
    {"avx512ifma", 7, 0, EBX, 21, ZMM},
    {"avx512cd", 7, 0, EBX, 28, ZMM},
    {"sha", 7, 0, EBX, 29, BASE},
    {"avx512bw", 7, 0, EBX, 30, ZMM},
    {"avx512vl", 7, 0, EBX, 31, ZMM},
    {"avx512vbmi", 7, 0, ECX, 1, ZMM},
    {"avx512vbmi2", 7, 0, ECX, 6, ZMM},
    {"gfni", 7, 0, ECX, 8, BASE},
    {"vaes", 7, 0, ECX, 9, YMM},
    {"vpclmulqdq", 7, 0, ECX, 10, YMM},
    {"avx512vnni", 7, 0, ECX, 11, ZMM},
    {"avx512bitalg", 7, 0, ECX, 12, ZMM},
    {"avx512vpopcntdq", 7, 0, ECX, 14, ZMM},
    {"avx512fp16", 7, 0, EDX, 23, ZMM},
    {"avxvnni", 7, 1, EAX, 4, YMM},
    {"avx512bf16", 7, 1, EAX, 5, ZMM},
    {"avxifma", 7, 1, EAX, 23, YMM},
    {"sahf", EXTENDED, 0, ECX, 0, BASE},
    {"lzcnt", EXTENDED, 0, ECX, 5, BASE},
};

static bool ask(uint32_t leaf, uint32_t subleaf, uint32_t out[REGISTERS])
{
    return __get_cpuid_count(leaf, subleaf, &out[EAX], &out[EBX], &out[ECX], &out[EDX]) != 0;
}

static uint32_t kept(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool has(const kb_cpu *cpu, const feature *f, uint32_t state)
{
    uint32_t registers[REGISTERS];
    return (state & f->state) == f->state && cpu->ask(f->leaf, f->subleaf, registers) &&
           registers[f->reg] >> f->bit & 1;
}

uint64_t kb_cpu_features_of(const kb_cpu *cpu)
{
    uint32_t registers[REGISTERS];
    bool can_ask = cpu->ask(1, 0, registers) && registers[ECX] >> OSXSAVE_BIT & 1;
    uint32_t state = can_ask ? cpu->kept() : 0; /* that is kept when threads are switched */
    uint64_t features = 0;
    for (unsigned i = 0; i < sizeof FEATURES / sizeof *FEATURES; i++)
        if (has(cpu, &FEATURES[i], state))
            features |= UINT64_C(1) << i;
    return features;
}

uint64_t kb_cpu_features(void)
{
    return kb_cpu_features_of(&(kb_cpu){ask, kept});
}

#elif defined(__aarch64__)

#include <sys/auxv.h>

typedef struct feature {
    const char *name;
    uint8_t word, bit; /* 0: AT_HWCAP, 1: AT_HWCAP2 */
} feature;

/* Only ever appended to. */
static const feature FEATURES[] = {
    {"aes", 0, 3},       {"sha2", 0, 6},  {"crc", 0, 7},      {"lse", 0, 8},
    {"fullfp16", 0, 10}, {"rdm", 0, 12},  {"jsconv", 0, 13},  {"complxnum", 0, 14},
    {"rcpc", 0, 15},     {"sha3", 0, 17}, {"dotprod", 0, 20}, {"sve", 0, 22},
    {"sve2", 1, 1},      {"i8mm", 1, 13}, {"bf16", 1, 14},
};

uint64_t kb_cpu_features(void)
{
    uint64_t features = 0;
    for (unsigned i = 0; i < sizeof FEATURES / sizeof *FEATURES; i++) {
        const feature *f = &FEATURES[i];
        if (getauxval(f->word ? AT_HWCAP2 : AT_HWCAP) >> f->bit & 1)
            features |= UINT64_C(1) << i;
    }
    return features;
}

#endif

enum { N_FEATURES = sizeof FEATURES / sizeof *FEATURES };

_Static_assert(N_FEATURES <= 64, "a feature without a bit");

const char *kb_cpu_feature(unsigned bit)
{
    return bit < N_FEATURES ? FEATURES[bit].name : NULL;
}

kb_status kb_cpu_check(uint64_t needed, const char *what, kb_error *err)
{
    uint64_t missing = needed & ~kb_cpu_features();
    if (!missing)
        return KB_OK;
    kb_error_set(err, KB_FAILED_PRECONDITION,
                 "%s: the machine code needs what this processor does not have:", what);
    const char *separator = " ";
    for (unsigned i; missing; missing ^= UINT64_C(1) << i) {
        i = (unsigned)__builtin_ctzll(missing);
        const char *name = kb_cpu_feature(i);
        if (name)
            kb_error_append(err, "%s%s", separator, name);
        else
            kb_error_append(err, "%sfeature %u of a later kernbridge", separator, i);
        separator = ", ";
    }
    return KB_FAILED_PRECONDITION;
}
