// Trajectories of dynamical systems: the system is a functor, the integrator a template.
#include <cmath>
#include "kernbridge/kernbridge.hpp"
#include "integrators.hpp"

namespace dynamics {

struct Lorenz {
    double sigma, rho, beta;
    State<3> operator()(double, const State<3> &s) const
    {
        auto [x, y, z] = s;
        return {sigma * (y - x), x * (rho - z) - y, x * y - beta * z};
    }
};

struct DrivenVanDerPol {
    double mu, amplitude, omega;
    State<2> operator()(double t, const State<2> &s) const
    {
        return {s[1], mu * (1 - s[0] * s[0]) * s[1] - s[0] + amplitude * std::sin(omega * t)};
    }
};

template <std::size_t N, typename System>
void integrate(const System &system, const double *start, double *out, int64_t steps, double h)
{
    State<N> x;
    for (std::size_t i = 0; i < N; ++i)
        x[i] = start[i];
    for (int64_t k = 0; k < steps; ++k) {
        for (std::size_t i = 0; i < N; ++i)
            out[k * N + i] = x[i];
        x = rk4_step<N>(system, k * h, x, h);
    }
}

// @BE lorenz
void lorenz(const kernbridge::Tensor start, kernbridge::Tensor out, double h, double sigma = 10.0,
            double rho = 28.0, double beta = (8.0 / 3.0))
{
    integrate<3>(Lorenz{sigma, rho, beta}, start.data_ptr<double>(), out.data_ptr<double>(),
                 out.size(0), h);
}

// @BE van_der_pol
void van_der_pol(const kernbridge::Tensor start, kernbridge::Tensor out, double h, double mu,
                 double amplitude, double omega)
{
    integrate<2>(DrivenVanDerPol{mu, amplitude, omega}, start.data_ptr<double>(),
                 out.data_ptr<double>(), out.size(0), h);
}

}  // namespace dynamics
