/* Proves which arrays in kernels change their shapes without a copy, and to which strides: every
 * element stays where it is in the order of the elements. */
#include "kb_test.h"
#include "object/kb_reshape.h"

#include <stdint.h>

enum { DIMS_MAX = 4, ITEM = 8 };

typedef struct shape {
    int64_t n, dims[DIMS_MAX];
} shape;

/* The place of the i-th element. */
static int64_t place(const shape *s, const int64_t *strides, int64_t i, int fortran)
{
    int64_t at = 0;
    for (int64_t k = 0; k < s->n; k++) {
        int64_t d = fortran ? k : s->n - 1 - k;
        at += i % s->dims[d] * strides[d];
        i /= s->dims[d];
    }
    return at;
}

static int64_t count(const shape *s)
{
    int64_t n = 1;
    for (int64_t d = 0; d < s->n; d++)
        n *= s->dims[d];
    return n;
}

/* Whether there are such strides: those of each axis follow from its first step. */
static int can(const shape *from, const int64_t *strides, const shape *to, int fortran)
{
    int64_t wanted[DIMS_MAX] = {0}, step = 1;
    for (int64_t k = 0; k < to->n; k++) {
        int64_t d = fortran ? k : to->n - 1 - k;
        if (to->dims[d] > 1)
            wanted[d] = place(from, strides, step, fortran);
        step *= to->dims[d];
    }
    for (int64_t i = 0; i < count(from); i++)
        if (place(from, strides, i, fortran) != place(to, wanted, i, fortran))
            return 0;
    return 1;
}

static void test_pair(const shape *from, const int64_t *strides, const shape *to, int fortran)
{
    int64_t got[DIMS_MAX] = {0};
    int done = kb_reshape(from->n, from->dims, strides, to->n, to->dims, got, ITEM, fortran);
    if (count(from) != count(to)) {
        CHECK_INT(done, 0);
        return;
    }
    if (count(from) == 0)
        return;
    CHECK_INT(done, can(from, strides, to, fortran));
    for (int64_t i = 0; done && i < count(from); i++)
        if (!CHECK_INT(place(to, got, i, fortran), place(from, strides, i, fortran)))
            return;
}

static const shape shapes[] = {
    {0, {0}},          {1, {1}},          {1, {6}},          {1, {12}},         {2, {1, 6}},
    {2, {6, 1}},       {2, {2, 3}},       {2, {3, 2}},       {2, {3, 4}},       {2, {4, 3}},
    {2, {2, 6}},       {3, {2, 1, 3}},    {3, {1, 2, 3}},    {3, {2, 2, 3}},    {3, {3, 2, 2}},
    {3, {2, 3, 2}},    {3, {6, 1, 2}},    {4, {1, 2, 1, 3}}, {4, {2, 1, 2, 3}}, {4, {3, 1, 4, 1}},
    {4, {2, 3, 1, 2}}, {4, {1, 1, 1, 1}}, {2, {0, 3}},       {3, {2, 0, 1}},    {4, {2, 2, 3, 2}},
    {2, {24, 1}},      {3, {4, 3, 2}},    {2, {8, 3}},       {1, {24}},
};

enum { N = sizeof shapes / sizeof *shapes };

/* C's order and Fortran's, with gaps behind an axis, axes in another order, and backwards. */
static void test_all_pairs(void)
{
    for (int i = 0; i < N; i++)
        for (int how = 0; how < 16; how++) {
            const shape *s = &shapes[i];
            int64_t strides[DIMS_MAX] = {0}, step = ITEM;
            for (int64_t k = 0; k < s->n; k++) {
                int64_t d = how & 1 ? k : s->n - 1 - k;
                strides[d] = how & 2 && k == 1 ? -step : step;
                step *= s->dims[d];
                if ((how & 4 && k == 0) || (how & 8 && k == 1))
                    step += ITEM;
            }
            for (int k = 0; k < N; k++) {
                test_pair(s, strides, &shapes[k], 0);
                test_pair(s, strides, &shapes[k], 1);
            }
        }
}

/* Strides of axes of one element, and of arrays without any, are those of a whole array. */
static void test_strides(void)
{
    const int64_t dims[] = {2, 3}, strides[] = {80, ITEM}, ones[] = {1, 2, 1, 3, 1};
    int64_t got[5];
    CHECK_INT(kb_reshape(2, dims, strides, 5, ones, got, ITEM, 0), 1);
    const int64_t expected[] = {160, 80, 24, 8, 8};
    for (int i = 0; i < 5; i++)
        CHECK_INT(got[i], expected[i]);
    const int64_t none[] = {0, 3}, other[] = {2, 0, 5};
    CHECK_INT(kb_reshape(2, none, strides, 3, other, got, ITEM, 0), 1);
    CHECK_INT(got[2], ITEM);
    CHECK_INT(got[1], 5 * ITEM);
    CHECK_INT(got[0], 5 * ITEM);
}

/* As many items as a number holds: they are counted, and do not become none. */
static void test_most(void)
{
    const int64_t dims[] = {INT64_C(1) << 62, 2}, strides[] = {1, ITEM};
    int64_t got[2] = {0};
    CHECK_INT(kb_reshape(2, dims, strides, 2, dims, got, ITEM, 0), 1);
    CHECK_INT(got[0], 1);
    CHECK_INT(got[1], ITEM);
}

/* No axis has fewer than no items, whatever their product would be. */
static void test_negative(void)
{
    static const shape negative[] = {
        {1, {-1}}, {2, {-1, -1}}, {2, {1, -6}}, {2, {-2, -3}}, {2, {-6, -1}}};
    static const shape others[] = {{0, {0}}, {1, {1}}, {1, {6}}, {2, {2, 3}}, {2, {0, 3}}};
    const int64_t strides[] = {3 * ITEM, ITEM}, one[] = {ITEM};
    int64_t got[DIMS_MAX];
    for (size_t i = 0; i < sizeof negative / sizeof *negative; i++)
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            for (int fortran = 0; fortran < 2; fortran++) {
                const shape *a = &negative[i], *b = &others[k];
                const int64_t *of_a = a->n == 1 ? one : strides, *of_b = b->n == 1 ? one : strides;
                CHECK_INT(kb_reshape(a->n, a->dims, of_a, b->n, b->dims, got, ITEM, fortran), 0);
                CHECK_INT(kb_reshape(b->n, b->dims, of_b, a->n, a->dims, got, ITEM, fortran), 0);
                CHECK_INT(kb_reshape(a->n, a->dims, of_a, a->n, a->dims, got, ITEM, fortran), 0);
            }
}

static void test_refused(void)
{
    int64_t got[4];
    const int64_t one[] = {1}, strides[] = {ITEM, ITEM}, back[] = {-2, -3}, six[] = {2, 3};
    CHECK_INT(kb_reshape(2, six, strides, 2, back, got, ITEM, 0), 0);
    CHECK_INT(kb_reshape(2, back, strides, 2, six, got, ITEM, 0), 0);
    /* Their product is 1 in 64 bits. */
    const int64_t wide[] = {7, INT64_C(0x6DB6DB6DB6DB6DB7)};
    CHECK_INT(kb_reshape(1, one, strides, 2, wide, got, ITEM, 0), 0);
    CHECK_INT(kb_reshape(0, one, strides, 2, wide, got, ITEM, 0), 0);
}

int main(void)
{
    test_all_pairs();
    test_strides();
    test_most();
    test_negative();
    test_refused();
    return kb_test_end("test_reshape");
}
