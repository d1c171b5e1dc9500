"""`load_cpp_inline`, `load_c_inline` and related functions: kernels from C and C++ source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernbridge._src.base.reports import hides_frames
from kernbridge._src.source.assemble import Functions, build_files, build_inline, complete
from kernbridge._src.source.module import CompiledModule


@hides_frames
def load_cpp_inline(
    name: str,
    cpp_sources: str | Sequence[str],
    functions: Functions = None,
    *,
    extra_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    force_rebuild: bool = False,
    replace: bool = False,
    auto_register: bool = True,
    target_prefix: str | None = None,
    optimization_level: int = 3,
    check: bool = False,
    carry: bool = False,
) -> CompiledModule:
    """Build C++ source, and make JAX operations on the CPU from its annotated functions.

    Parameters
    ----------
    name : str
        The module's name.
    cpp_sources : str or list of str
        The source in C++17; several sources are concatenated.
    functions : dict or list, optional
        Used instead of ``// @BE`` annotations; see `load_cuda_inline`.
    extra_cflags, extra_ldflags, extra_include_paths : list of str, optional
        Options for the compiler (such as ``-march=native`` or ``-std=c++20``), options for the
        linker, and folders for ``#include``.
    build_directory, verbose, force_rebuild, replace, auto_register, target_prefix
        See `load_cuda_inline`.
    optimization_level : int, default 3
        ``-O``.
    check : bool, default False
        Build the module so that an index out of bounds is an error, both for the result of
        ``data_ptr<T>()`` and for the containers of the C++ library. ``data_ptr<T>()`` then returns
        a `kernbridge::Pointer`, so write ``auto p = x.data_ptr<T>()``. ``KERNBRIDGE_DEBUG=check``
        has the same effect. Not available for C.
    carry : bool, default False
        Include the library in exported programs, so that they run without the source and without a
        compiler; docs/source-kernels.md lists the conditions. By default, exported programs contain
        only the module's name, and the module must be loaded before they are called.

    Returns
    -------
    CompiledModule
        The module, with its functions as attributes.

    Raises
    ------
    KernelError
        If an annotation is missing, wrong, or disagrees with its function.
    HostCompilerNotFoundError
        If no compiler is found; the message lists what was tried.
    CompilationError
        If the compiler refuses the source; the message has its output, with line numbers of
        `cpp_sources`.
    KernelRegistrationError
        If a target of the same name has other content.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, kernbridge
    >>> module = kernbridge.load_cpp_inline("threshold", r'''
    ... #include "kernbridge/kernbridge.hpp"
    ... // @BE spikes arg:f32[...] ret:bool[...] attr.at
    ... void spikes(const kernbridge::Tensor v, kernbridge::Tensor out, float at) {
    ...     const float* in = v.data_ptr<float>();
    ...     bool* spiked = out.data_ptr<bool>();
    ...     for (int64_t i = 0; i < v.numel(); i++) spiked[i] = in[i] > at;
    ... }
    ... ''')
    >>> v = jnp.array([0.5, 1.5])
    >>> module.spikes(v, outs=jax.ShapeDtypeStruct(v.shape, bool), at=1.0)
    Array([False,  True], dtype=bool)
    """
    return build_inline("load_cpp_inline", "c++", name, cpp_sources, functions, locals())


@hides_frames
def load_cpp_file(
    filepath: str | Path, functions: Functions = None, *, name: str | None = None, **options: Any
) -> CompiledModule:
    """Build one C++ file; see `load_cpp_inline` for the other parameters.

    Parameters
    ----------
    filepath : str or Path
        The file. Its own folder is searched first for includes.
    name : str, optional
        The module's name; by default the file's, without its suffix.
    """
    known = complete("load_cpp_file", load_cpp_inline, options)
    return build_files("load_cpp_file", "c++", name, [Path(filepath)], functions, known)


@hides_frames
def load_c_inline(
    name: str,
    c_sources: str | Sequence[str],
    functions: Functions = None,
    **options: Any,
) -> CompiledModule:
    """Build C source, and make JAX operations on the CPU from its annotated functions.

    A function has a parameter ``const kb_tensor *`` for each tensor and a scalar parameter for each
    attribute, and returns nothing, or 0 for success. Alternatively, it takes the whole call, as in
    ``int name(const kb_call *call)``. See ``kernbridge/kernbridge.h``.

    Such a function sees the bytes of its arrays and not what they are, so its annotation declares
    the dtype and the shape of each: ``arg:f32[n]`` or ``ret:int32[n, 3]``; ``[...]`` is any shape,
    and ``any`` is for a function that looks at the dtype itself. A call that differs is refused
    when it is traced.

    Parameters
    ----------
    name : str
        The module's name.
    c_sources : str or list of str
        The source in C11; several sources are concatenated.
    functions : dict or list, optional
        Used instead of ``// @BE`` annotations; see `load_cuda_inline`.
    **options
        The options of `load_cpp_inline`, except `check`.

    Returns
    -------
    CompiledModule
        The module, with its functions as attributes.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, kernbridge
    >>> module = kernbridge.load_c_inline("sums", r'''
    ... #include "kernbridge/kernbridge.h"
    ... // @BE total arg:f32[n] ret:f32[]
    ... void total(const kb_tensor *x, kb_tensor *out) {
    ...     const float *in = x->data;
    ...     float sum = 0;
    ...     for (int64_t i = 0; i < x->size; i++) sum += in[i];
    ...     *(float *)out->data = sum;
    ... }
    ... ''')
    >>> module.total(jnp.arange(4.0), outs=jax.ShapeDtypeStruct((), jnp.float32))
    Array(6., dtype=float32)
    """
    known = complete("load_c_inline", load_cpp_inline, options, without="check")
    return build_inline("load_c_inline", "c", name, c_sources, functions, known)


@hides_frames
def load_c_file(
    filepath: str | Path, functions: Functions = None, *, name: str | None = None, **options: Any
) -> CompiledModule:
    """Build one C file as `load_c_inline` builds a string; see `load_cpp_file`."""
    known = complete("load_c_file", load_cpp_inline, options, without="check")
    return build_files("load_c_file", "c", name, [Path(filepath)], functions, known)
