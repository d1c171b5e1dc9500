"""Operations as JAX sees them: specifications, derivatives, primitives, vmap and lowering."""
