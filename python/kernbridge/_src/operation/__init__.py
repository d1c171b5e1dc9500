"""An operation as JAX sees it: types, vmap, derivatives, primitives, lowering."""
