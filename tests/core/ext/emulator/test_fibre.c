/* Proves that a switch of stacks keeps what a function keeps over a call: integers and floating
 * point numbers in registers that the callee must preserve, of each fibre its own; and that a fibre
 * begins with its data on an aligned stack. */
#include "ext/emulator/kb_fibre.h"
#include "kb_test.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

enum { N_FIBRES = 3, N_ROUNDS = 6, STACK_SIZE = 64 * 1024, ALIGNMENT = 16 };

typedef struct turn {
    kb_fibre fibre;
    struct turn *next;
    uint64_t seed;
    uint64_t result;
    bool aligned;
} turn;

static uint64_t rotated(uint64_t x)
{
    return x << 7 | x >> 57;
}

/* What many variables hold after some rounds, which depends on each of them. With `t`, another
 * fibre runs in every round: the variables are more than a processor has registers to preserve, so
 * that each of these holds one; and with memory of a size that is not constant, it needs the frame
 * pointer. */
static __attribute__((noinline)) uint64_t compute(uint64_t seed, turn *t)
{
    uint64_t a = seed, b = seed * 3, c = seed * 5, d = seed * 7, e = seed * 11, f = seed * 13;
    uint64_t g = seed * 17, h = seed * 19, i = seed * 23, j = seed * 29, k = seed * 31;
    double p = (double)seed, q = p + 1, r = p + 2, s = p + 3, u = p + 4, v = p + 5, w = p + 6;
    double x = p + 7, y = p + 8, z = p + 9;
    volatile char *room = __builtin_alloca(1 + seed % ALIGNMENT);
    for (int round = 0; round < N_ROUNDS; round++) {
        room[0] = (char)round;
        if (t)
            kb_fibre_switch(&t->fibre, &t->next->fibre);
        uint64_t first = rotated(a);
        a = b + first, b = rotated(c) ^ a, c = d + 1, d = rotated(e), e = f ^ d, f = g + e;
        g = rotated(h), h = i + g, i = j ^ h, j = k + i, k = first + j;
        double last = z;
        z = y + 1, y = x * 2, x = w + 3, w = v * 0.5, v = u + 5, u = s + 6, s = r + 7;
        r = q * 0.25, q = p + 9, p = last;
    }
    uint64_t whole = a + 3 * b + 5 * c + 7 * d + 11 * e + 13 * f + 17 * g + 19 * h + 23 * i;
    double part = p + 3 * q + 5 * r + 7 * s + 11 * u + 13 * v + 17 * w + 19 * x + 23 * y + 29 * z;
    return (whole + 29 * j + 31 * k) ^ (uint64_t)(part * 1024);
}

static void run(void *data)
{
    turn *t = data;
    kb_fibre_begun(&t->fibre);
    t->aligned = (uintptr_t)__builtin_frame_address(0) % ALIGNMENT == 0;
    t->result = compute(t->seed, t);
    kb_fibre_switch(&t->fibre, &t->next->fibre);
    abort();
}

static void test_registers(void)
{
    static turn turns[N_FIBRES + 1]; /* the first is this thread's own */
    static alignas(64) char stacks[N_FIBRES][STACK_SIZE];
    for (int n = 0; n <= N_FIBRES; n++) {
        turns[n].seed = UINT64_C(0x9E3779B9) * (uint64_t)(n + 1);
        turns[n].next = &turns[(n + 1) % (N_FIBRES + 1)];
        if (n == 0)
            kb_fibre_adopt(&turns[n].fibre);
        else
            kb_fibre_init(&turns[n].fibre, stacks[n - 1], STACK_SIZE, run, &turns[n]);
    }
    turns[0].result = compute(turns[0].seed, &turns[0]);
    kb_fibre_switch(&turns[0].fibre, &turns[1].fibre); /* the others come to their ends */
    for (int n = 0; n <= N_FIBRES; n++) {
        CHECK_INT(turns[n].result, (long long)compute(turns[n].seed, NULL));
        CHECK(n == 0 || turns[n].aligned);
        if (n > 0)
            kb_fibre_drop(&turns[n].fibre);
    }
}

int main(void)
{
    test_registers();
    return kb_test_end("test_fibre");
}
