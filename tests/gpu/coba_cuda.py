"""The network of examples/coba.py as two Numba-CUDA kernels, with the same spikes.

A product and a sum are rounded apart, as Numba does on a CPU; the increments that meet in one sum
are equal, so that their order does not matter.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import kernbridge as kb
import numpy as np
from numba import cuda
from numba.cuda.libdevice import fadd_rn, fmul_rn, fsub_rn

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import coba

THREADS = 128


def model(p, net):
    """A step of the network, as `coba.kernel_model` has it."""
    c, n_exc = coba.constants(p), p.n_exc
    g_leak, e_leak, e_exc, e_inh = c.g_leak, c.e_leak, c.e_exc, c.e_inh
    current, dt_over_c, v_threshold, v_reset = c.current, c.dt_over_c, c.v_threshold, c.v_reset
    refractory, decay_exc, decay_inh, w_exc, w_inh = (
        c.refractory,
        c.decay_exc,
        c.decay_inh,
        c.w_exc,
        c.w_inh,
    )

    @cuda.jit
    def neurons(v0, g_exc0, g_inh0, wait0, v, g_exc, g_inh, wait, spiked):
        i = cuda.grid(1)
        if i < v.size:
            leak = fmul_rn(g_leak, fsub_rn(e_leak, v0[i]))
            exc = fmul_rn(g_exc0[i], fsub_rn(e_exc, v0[i]))
            inh = fmul_rn(g_inh0[i], fsub_rn(e_inh, v0[i]))
            total = fadd_rn(fadd_rn(leak, fadd_rn(exc, inh)), current)
            risen = fadd_rn(v0[i], fmul_rn(dt_over_c, total))
            rests = wait0[i] > 0
            fires = (risen > v_threshold) and not rests
            v[i] = v_reset if rests or fires else risen
            wait[i] = refractory if fires else wait0[i] - np.int32(rests)
            spiked[i] = fires
            g_exc[i] = fmul_rn(g_exc0[i], decay_exc)
            g_inh[i] = fmul_rn(g_inh0[i], decay_inh)

    @cuda.jit
    def synapses(spiked, indptr, indices, g_exc0, g_inh0, g_exc, g_inh):
        i = cuda.blockIdx.x
        if spiked[i]:
            for k in range(indptr[i] + cuda.threadIdx.x, indptr[i + 1], cuda.blockDim.x):
                if i < n_exc:
                    cuda.atomic.add(g_exc, indices[k], w_exc)
                else:
                    cuda.atomic.add(g_inh, indices[k], w_inh)

    n = p.neurons
    state = coba.State(*(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in net.start))
    flags = jax.ShapeDtypeStruct((n,), jnp.bool_)
    update = kb.numba_cuda_kernel(neurons, (state, flags), launch_dims=n)
    deliver = kb.numba_cuda_kernel(
        synapses, state[1:3], grid=(n,), block=(THREADS,), input_output_aliases={3: 0, 4: 1}
    )

    def step(state, data):
        state, spiked = update(*state)
        g_exc, g_inh = deliver(spiked, *data, state.g_exc, state.g_inh)
        return state._replace(g_exc=g_exc, g_inh=g_inh), spiked

    return coba.Model(step, (net.indptr, net.indices))
