/* Arithmetic of numbers of half precision that CUDA has for GPUs only, for one of the two types. It
 * is included once for each, with KB_CPU_HALF and KB_CPU_PAIR for the type and its pair, and KB_OF
 * for functions whose names contain the name of the type. */
/* Rounded once from a wider type. */
#define KB_HALF_FUNCTION(name, expression)                                                         \
    static inline KB_CPU_HALF h##name(KB_CPU_HALF v)                                               \
    {                                                                                              \
        double a = KB_OF(__, 2float)(v);                                                           \
        return KB_OF(__double2, )(expression);                                                     \
    }                                                                                              \
    KB_IS(KB_CPU_PAIR, h2##name, (KB_CPU_PAIR v), KB_CPU_PAIR(h##name(v.x), h##name(v.y)))
KB_HALF_FUNCTION(sqrt, sqrt(a))
KB_HALF_FUNCTION(rsqrt, 1.0 / sqrt(a))
KB_HALF_FUNCTION(rcp, 1.0 / a)
KB_HALF_FUNCTION(exp, exp(a))
KB_HALF_FUNCTION(exp2, exp2(a))
KB_HALF_FUNCTION(exp10, pow(10.0, a))
KB_HALF_FUNCTION(log, log(a))
KB_HALF_FUNCTION(log2, log2(a))
KB_HALF_FUNCTION(log10, log10(a))
KB_HALF_FUNCTION(sin, sin(a))
KB_HALF_FUNCTION(cos, cos(a))
KB_HALF_FUNCTION(tanh, tanh(a))
KB_HALF_FUNCTION(floor, floor(a))
KB_HALF_FUNCTION(ceil, ceil(a))
KB_HALF_FUNCTION(trunc, trunc(a))
KB_HALF_FUNCTION(rint, nearbyint(a))
#undef KB_HALF_FUNCTION
KB_IS(KB_CPU_HALF, __hfma, (KB_CPU_HALF a, KB_CPU_HALF b, KB_CPU_HALF c),
      KB_OF(__double2, )(fma(static_cast<double>(KB_OF(__, 2float)(a)),
                             static_cast<double>(KB_OF(__, 2float)(b)),
                             static_cast<double>(KB_OF(__, 2float)(c)))))
KB_IS(KB_CPU_PAIR, __hfma2, (KB_CPU_PAIR a, KB_CPU_PAIR b, KB_CPU_PAIR c),
      KB_CPU_PAIR(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)))
#undef KB_CPU_HALF
#undef KB_CPU_PAIR
#undef KB_OF
