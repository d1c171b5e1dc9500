/* What test_object.c and fuzz_object.c load: every kind of reference that compilers write. It is
 * compiled as a kernel is, for any place in memory, and not linked. */
#include <stdint.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

extern double outside(double x); /* further away than a call reaches */
extern int64_t outside_variable;
extern int absent(void) __attribute__((weak));

static int64_t counter = 40;
int64_t exported_counter = 2;
static int64_t zeroed[512];
static const double table[] = {1.5, 2.5, 3.5, 4.5};
static const char *const names[] = {"zero", "one", "two"};

int64_t sample_count(void)
{
    counter++;
    zeroed[511]++;
    return counter + exported_counter + zeroed[511] + zeroed[0];
}

double sample_sum(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += outside(x[i]) * table[i & 3];
    return sum;
}

const char *sample_name(int64_t i)
{
    return names[i];
}

int64_t sample_outside(void)
{
    return outside_variable;
}

int sample_has_absent(void)
{
    return absent ? absent() : -1;
}

/* Variables without a section. */
int8_t common_byte __attribute__((common));
int64_t common_words[3] __attribute__((common, aligned(64)));

int64_t sample_commons(int64_t step)
{
    common_byte = (int8_t)(common_byte + step);
    for (int i = 0; i < 3; i++)
        common_words[i] += step * i;
    return common_byte + common_words[0] + common_words[1] + common_words[2];
}

static __attribute__((noinline)) double square(double x)
{
    return x * x;
}

static double (*const functions[])(double) = {square, outside};

double sample_indirect(int64_t i, double x)
{
    return functions[i](x);
}
