#pragma once
// One step of explicit integrators for dx/dt = f(t, x), with f any callable.

#include <array>
#include <cstddef>

template <std::size_t N> using State = std::array<double, N>;

template <std::size_t N> State<N> along(const State<N> &x, double h, const State<N> &k)
{
    State<N> y;
    for (std::size_t i = 0; i < N; ++i)
        y[i] = x[i] + h * k[i];
    return y;
}

template <std::size_t N, typename F> State<N> rk4_step(const F &f, double t, const State<N> &x, double h)
{
    const State<N> k1 = f(t, x);
    const State<N> k2 = f(t + h / 2, along(x, h / 2, k1));
    const State<N> k3 = f(t + h / 2, along(x, h / 2, k2));
    const State<N> k4 = f(t + h, along(x, h, k3));
    State<N> y;
    for (std::size_t i = 0; i < N; ++i)
        y[i] = x[i] + h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
    return y;
}
