"""`load_cuda_inline`, `load_cuda_file`, `load_cuda_dir`: kernels from CUDA source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernbridge._src.base.errors import KernelError
from kernbridge._src.base.reports import hides_frames
from kernbridge._src.source.assemble import Functions, build_files, build_inline, complete
from kernbridge._src.source.module import CompiledModule


@hides_frames
def load_cuda_inline(
    name: str,
    cuda_sources: str | Sequence[str],
    functions: Functions = None,
    *,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    compute_capability: Any = None,
    force_rebuild: bool = False,
    replace: bool = False,
    auto_register: bool = True,
    target_prefix: str | None = None,
    optimization_level: int = 3,
    use_fast_math: bool = False,
    allow_cuda_graph: bool = True,
) -> CompiledModule:
    """Build CUDA source with nvcc, and make JAX operations from its annotated functions.

    A function that is to be called from JAX is preceded by a comment that describes its
    parameters::

        // @BE scale arg:f32[n] ret:f32[n] attr.factor:float32 stream
        void scale(const BE::Tensor x, BE::Tensor out, float factor, int64_t stream) { ... }

    The dtype and shape of each array may be left out: ``arg`` and ``ret`` take any array. Such a
    function becomes the operation ``module.scale(x, outs=..., factor=2.0)``, and the target
    ``"name.scale"`` for `jax.ffi.ffi_call`. A library that was built from the same sources and
    headers with the same options and compiler is loaded from the disk cache.

    Parameters
    ----------
    name : str
        The module's name.
    cuda_sources : str or list of str
        The source; several sources are concatenated.
    functions : dict or list, optional
        Used instead of annotations: a dict from function names to tokens, or a list of function
        names, for which the tokens are derived from the source.
    extra_cuda_cflags, extra_ldflags, extra_include_paths : list of str, optional
        Options for nvcc, options for the linker, and folders for ``#include``.
    build_directory : str, optional
        A folder to which the library is copied.
    verbose : bool, default False
        Print the compiler's command and output.
    compute_capability : str, float or list, optional
        The GPUs to compile for, as in "9.0" or ["sm_80", "sm_90"]; by default those of this
        machine.
    force_rebuild : bool, default False
        Build the library even if it is in the cache.
    replace : bool, default False
        Let the module's targets replace targets of the same names that have other content.
    auto_register : bool, default True
        Register the targets.
    target_prefix : str, optional
        The prefix of the targets' names, instead of `name`.
    optimization_level : int, default 3
        ``-O``.
    use_fast_math : bool, default False
        Compile with ``--use_fast_math``, which is faster and less accurate.
    allow_cuda_graph : bool, default True
        Let XLA record calls into CUDA graphs. Set this to False for a function that waits for the
        GPU, allocates memory, chooses its launches depending on data, or copies from memory on its
        own stack (which a graph would read only when it runs).

    Returns
    -------
    CompiledModule
        The module, with its functions as attributes.

    Raises
    ------
    KernelError
        If an annotation is missing, wrong, or disagrees with its function.
    NvccNotFoundError, HostCompilerNotFoundError
        If no compiler is found; the message lists what was tried.
    CompilationError
        If the compiler refuses the source; the message has its output, with line numbers of
        `cuda_sources`.
    KernelRegistrationError
        If a target of the same name has other content.

    Notes
    -----
    C++ exceptions of any type and errors of launches become JAX errors, whether or not the function
    checks for them.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, kernbridge
    >>> module = kernbridge.load_cuda_inline("twice", r'''
    ... #include "brainevent/common.h"
    ... __global__ void twice_kernel(const float* x, float* out, int n) {
    ...     int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...     if (i < n) out[i] = 2 * x[i];
    ... }
    ... // @BE twice arg:f32[n] ret:f32[n] stream
    ... void twice(const BE::Tensor x, BE::Tensor out, int64_t stream) {
    ...     int n = x.numel_checked_int();
    ...     twice_kernel<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(
    ...         x.data_ptr<float>(), out.data_ptr<float>(), n);
    ... }
    ... ''')  # doctest: +SKIP
    >>> x = jnp.arange(3.0)
    >>> module.twice(x, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))  # doctest: +SKIP
    Array([0., 2., 4.], dtype=float32)
    """
    return build_inline("load_cuda_inline", "cuda", name, cuda_sources, functions, locals())


@hides_frames
def load_cuda_file(
    filepath: str | Path, functions: Functions = None, *, name: str | None = None, **options: Any
) -> CompiledModule:
    """Build one ``.cu`` file; see `load_cuda_inline` for the other parameters.

    Parameters
    ----------
    filepath : str or Path
        The file. Its own folder is searched first for includes.
    name : str, optional
        The module's name; by default the file's, without its suffix.
    """
    known = complete("load_cuda_file", load_cuda_inline, options)
    return build_files("load_cuda_file", "cuda", name, [Path(filepath)], functions, known)


@hides_frames
def load_cuda_dir(
    directory: str | Path,
    functions: Functions = None,
    *,
    name: str | None = None,
    file_patterns: Sequence[str] = ("*.cu",),
    **options: Any,
) -> CompiledModule:
    """Build the ``.cu`` files of a folder as one module; see `load_cuda_file`.

    Parameters
    ----------
    directory : str or Path
        The folder.
    name : str, optional
        The module's name; by default the folder's.
    file_patterns : list of str, default ``["*.cu"]``
        Patterns that select the files. These are concatenated in the order of their names, as one
        translation unit.

    Raises
    ------
    KernelError
        If no file matches.
    """
    known = complete("load_cuda_dir", load_cuda_inline, options)
    folder = Path(directory)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"load_cuda_dir: there is no folder {folder}; correct the path [KB5103]"
        )
    files = sorted({f for pattern in file_patterns for f in folder.glob(pattern) if f.is_file()})
    if not files:
        raise KernelError(
            f"load_cuda_dir: no file of {folder} matches {', '.join(file_patterns)}; pass other "
            "patterns as file_patterns= [KB5103]"
        )
    name = name or folder.resolve().name
    return build_files("load_cuda_dir", "cuda", name, files, functions, known)
