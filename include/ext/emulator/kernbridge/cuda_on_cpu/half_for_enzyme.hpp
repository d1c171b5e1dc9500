/* One of the two types of half precision in derivatives, in place of CUDA's own header. To clang, a
 * half has two bytes, and only two functions convert it: enzyme/halves.py makes floats of it. */
#pragma clang force_cuda_host_device begin
extern "C" __attribute__((const)) float KB_OF(kb_, _to_float)(__fp16);
extern "C" __attribute__((const)) __fp16 KB_OF(kb_, _of_float)(float);
struct KB_CPU_HALF {
    __fp16 number;

    KB_CPU_HALF() = default;
    KB_CPU_HALF(float v) : number(KB_OF(kb_, _of_float)(v))
    {
    }
    operator float() const
    {
        return KB_OF(kb_, _to_float)(number);
    }
};
struct alignas(4) KB_CPU_PAIR {
    KB_CPU_HALF x, y;

    KB_CPU_PAIR() = default;
    KB_CPU_PAIR(KB_CPU_HALF a, KB_CPU_HALF b) : x(a), y(b)
    {
    }
};
KB_IS(__fp16 *, kb_number, (KB_CPU_HALF * at), &at->number)
#define KB_HALF_OF_TWO(name, value)                                                                \
    KB_IS(KB_CPU_HALF, __h##name, (KB_CPU_HALF a, KB_CPU_HALF b), value)                           \
    KB_IS(KB_CPU_PAIR, __h##name##2, (KB_CPU_PAIR a, KB_CPU_PAIR b),                               \
          KB_CPU_PAIR(__h##name(a.x, b.x), __h##name(a.y, b.y)))
#define KB_HALF_OPERATION(name, operation)                                                         \
    KB_HALF_OF_TWO(name, static_cast<float>(a) operation static_cast<float>(b))                    \
    KB_IS(KB_CPU_HALF, operator operation, (KB_CPU_HALF a, KB_CPU_HALF b), __h##name(a, b))        \
    KB_IS(KB_CPU_PAIR, operator operation, (KB_CPU_PAIR a, KB_CPU_PAIR b), __h##name##2(a, b))     \
    KB_IS(KB_CPU_HALF &, operator operation##=, (KB_CPU_HALF & a, KB_CPU_HALF b),                  \
          a = a operation b)                                                                       \
    KB_IS(KB_CPU_PAIR &, operator operation##=, (KB_CPU_PAIR & a, KB_CPU_PAIR b), a = a operation b)
KB_HALF_OPERATION(add, +)
KB_HALF_OPERATION(sub, -)
KB_HALF_OPERATION(mul, *)
KB_HALF_OPERATION(div, /)
KB_HALF_OF_TWO(max, fmaxf(a, b))
KB_HALF_OF_TWO(min, fminf(a, b))
KB_IS(KB_CPU_HALF, operator-, (KB_CPU_HALF a), -static_cast<float>(a))
KB_IS(KB_CPU_HALF, __hneg, (KB_CPU_HALF a), -a)
KB_IS(KB_CPU_HALF, __habs, (KB_CPU_HALF a), fabsf(a))
KB_IS(bool, __heq, (KB_CPU_HALF a, KB_CPU_HALF b), a == b)
KB_IS(bool, __hne, (KB_CPU_HALF a, KB_CPU_HALF b), a != b)
KB_IS(bool, __hlt, (KB_CPU_HALF a, KB_CPU_HALF b), a < b)
KB_IS(bool, __hle, (KB_CPU_HALF a, KB_CPU_HALF b), a <= b)
KB_IS(bool, __hgt, (KB_CPU_HALF a, KB_CPU_HALF b), a > b)
KB_IS(bool, __hge, (KB_CPU_HALF a, KB_CPU_HALF b), a >= b)
KB_IS(float, KB_OF(__, 2float), (KB_CPU_HALF a), a)
KB_IS(KB_CPU_HALF, KB_OF(__float2, ), (float a), a)
KB_IS(KB_CPU_HALF, KB_OF(__float2, _rn), (float a), a)
KB_IS(KB_CPU_HALF, KB_OF(__double2, ), (double a), a)
KB_IS(KB_CPU_HALF, KB_OF(__low2, ), (KB_CPU_PAIR a), a.x)
KB_IS(KB_CPU_HALF, KB_OF(__high2, ), (KB_CPU_PAIR a), a.y)
KB_IS(float, __low2float, (KB_CPU_PAIR a), a.x)
KB_IS(float, __high2float, (KB_CPU_PAIR a), a.y)
KB_IS(float2, KB_OF(__, 22float2), (KB_CPU_PAIR a), make_float2(a.x, a.y))
KB_IS(KB_CPU_PAIR, KB_OF(__float22, 2_rn), (float2 a), KB_CPU_PAIR(a.x, a.y))
KB_IS(KB_CPU_PAIR, KB_OF(__floats2, 2_rn), (float a, float b), KB_CPU_PAIR(a, b))
KB_IS(KB_CPU_PAIR, KB_OF(__float2, 2_rn), (float a), KB_CPU_PAIR(a, a))
KB_IS(KB_CPU_PAIR, KB_OF(__halves2, 2), (KB_CPU_HALF a, KB_CPU_HALF b), KB_CPU_PAIR(a, b))
KB_IS(KB_CPU_PAIR, KB_OF(make_, 2), (KB_CPU_HALF a, KB_CPU_HALF b), KB_CPU_PAIR(a, b))
#include "kernbridge/cuda_on_cpu/half.hpp"
#pragma clang force_cuda_host_device end
