"""JAX functions of scalars inside kernels: `kernbridge.inline`."""
