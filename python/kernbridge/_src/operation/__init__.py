"""Operations as JAX sees them: types, vmap, derivatives, primitives and lowering."""
