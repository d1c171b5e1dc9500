"""The two kernels of examples/coba.py in Numba-CUDA, with the same spikes as on a CPU.

Products and sums are rounded apart, as Numba does on a CPU, where a GPU would fuse them. The
increments that meet in one sum are equal, so that their order does not matter.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any

import kernbridge as kb
import numba
import numpy as np
from numba import cuda
from numba.cuda.libdevice import fadd_rn, fmul_rn, fsub_rn

THREADS = 128  # of a block, which looks for spikes among as many neurons
WARP = 32  # threads that share the synapses of one neuron


def operations(c: Any, n_exc: int, state: Any, flags: Any) -> tuple[Any, Any]:
    """The update of all neurons, and the delivery of their spikes.

    `c` are the constants of the model; `state` and `flags` describe the arrays.
    """
    # Numba-CUDA takes numbers as constants of a kernel, and no tuples of them.
    g_leak, e_leak, e_exc, e_inh = c.g_leak, c.e_leak, c.e_exc, c.e_inh
    current, dt_over_c, v_threshold, v_reset = c.current, c.dt_over_c, c.v_threshold, c.v_reset
    refractory, decay_exc, decay_inh = c.refractory, c.decay_exc, c.decay_inh
    w_exc, w_inh = c.w_exc, c.w_inh

    @cuda.jit
    def neurons(_v, _g_exc, _g_inh, _wait, v, g_exc, g_inh, wait, spiked):
        i = cuda.grid(1)
        if i < v.size:
            leak = fmul_rn(g_leak, fsub_rn(e_leak, v[i]))
            exc = fmul_rn(g_exc[i], fsub_rn(e_exc, v[i]))
            inh = fmul_rn(g_inh[i], fsub_rn(e_inh, v[i]))
            total = fadd_rn(fadd_rn(leak, fadd_rn(exc, inh)), current)
            risen = fadd_rn(v[i], fmul_rn(dt_over_c, total))
            rests = wait[i] > 0
            fires = (risen > v_threshold) and not rests
            v[i] = v_reset if rests or fires else risen
            wait[i] = refractory if fires else wait[i] - np.int32(rests)
            spiked[i] = fires
            g_exc[i] = fmul_rn(g_exc[i], decay_exc)
            g_inh[i] = fmul_rn(g_inh[i], decay_inh)

    @cuda.jit
    def synapses(spiked, indptr, indices, _g_exc, _g_inh, g_exc, g_inh):
        """Each block lists those of its neurons that spiked, and each warp delivers for one."""
        listed = cuda.shared.array(THREADS, numba.int32)
        count = cuda.shared.array(1, numba.int32)
        thread, i = cuda.threadIdx.x, cuda.grid(1)
        if thread == 0:
            count[0] = 0
        cuda.syncthreads()
        if i < spiked.size and spiked[i]:
            listed[cuda.atomic.add(count, 0, 1)] = i
        cuda.syncthreads()
        for turn in range(thread // WARP, count[0], THREADS // WARP):
            source = listed[turn]
            for k in range(indptr[source] + thread % WARP, indptr[source + 1], WARP):
                if source < n_exc:
                    cuda.atomic.add(g_exc, indices[k], w_exc)
                else:
                    cuda.atomic.add(g_inh, indices[k], w_inh)

    n = flags.shape[0]
    update = kb.numba_cuda_kernel(
        neurons, (state, flags), launch_dims=n, input_output_aliases={0: 0, 1: 1, 2: 2, 3: 3}
    )
    deliver = kb.numba_cuda_kernel(
        synapses,
        state[1:3],
        grid=(-(-n // THREADS),),
        block=(THREADS,),
        input_output_aliases={3: 0, 4: 1},
    )
    return update, deliver
