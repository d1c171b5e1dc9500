"""Writes the network of examples/coba.py as a bundle, for coba.c.

    python examples/c_host/export.py FOLDER

`make c-host` runs this, compiles coba.c and runs it.
"""

import sys
from pathlib import Path

import jax
import kernbridge as kb

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import coba


def main() -> None:
    """Export one step, with the synapses and the first state."""
    jax.config.update("jax_platforms", "cpu")
    params = coba.Params()
    network = coba.build_network(params, seed=1)
    model = coba.kernel_model(params, network)
    step = jax.jit(model.step, donate_argnums=0)  # a new state takes the memory of the old one
    kb.export_bundle(
        sys.argv[1],
        step,
        network.start,
        model.data,
        with_values=True,
        stablehlo_version="1.13.0",  # that of xla-cpu-pjrt 0.0.1
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: export.py FOLDER")
    main()
