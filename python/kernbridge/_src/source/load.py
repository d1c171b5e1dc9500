"""`load_cpp_inline`, `load_c_inline`, `load_cuda_inline` and the like: modules from source.

A module is scanned for functions, compiled, opened and registered; `glue.py` has the first step,
which a library in the cache does not need.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from kernbridge import _core
from kernbridge._src.base import debug, extensions, settings
from kernbridge._src.base.errors import CompilationError, KernelError
from kernbridge._src.base.options import Options, unknown
from kernbridge._src.base.reports import hides_frames, warn
from kernbridge._src.scan.functions import Named, ScannedFunction, Sources, join_tokens
from kernbridge._src.source.module import CompiledModule, register_all
from kernbridge._src.toolchain import build
from kernbridge._src.toolchain.library import CUDA_ON_CPU, Finished, Request, is_changed

Functions = Mapping[str, Any] | Sequence[str] | None
Given = Mapping[str, Any]  # options by name
# What makes indices of tensors, and of the C++ library's containers, checked.
_CHECK_FLAGS = ("-DKB_CHECKED", "-D_GLIBCXX_ASSERTIONS")
A_FILE = re.compile(r"[^\n;{}#]*\.(c|cc|cpp|cxx|cu|cuh|h|hpp)")  # what is passed for its text
ATTEMPTS = 3
"""Builds of a module whose library goes before it is opened."""


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
    errors: Mapping[int, str] | str | None = None,
) -> CompiledModule:
    """Build C++ source, and make JAX operations on the CPU from its annotated functions.

    A function that JAX calls is preceded by a comment that describes its
    parameters::

        // @BE scale arg:f32[n] ret:f32[n] attr.factor:float32
        void scale(const kernbridge::Tensor x, kernbridge::Tensor out, float factor) { ... }

    The dtype and shape of each array may be left out: ``arg`` and ``ret`` take any array. Such a
    function becomes the operation ``module.scale(x, outs=..., factor=2.0)``, and the target
    ``"name.scale"`` for `jax.ffi.ffi_call`. A function of pointers and numbers is described by a
    signature instead, and may be declared in a header; see docs/libraries.md::

        // @BE scale x: f64[n], n, factor: f64 -> out: f64[n]
        int scale(const double *x, long n, double factor, double *out);

    A library that was built from the same sources and
    headers with the same options and compiler is loaded from the disk cache.

    Parameters
    ----------
    name : str
        The module's name.
    cpp_sources : str or list of str
        The source in C++17; several sources are concatenated.
    functions : dict or list, optional
        Used instead of annotations: a dict from function names to tokens or signatures, or a list
        of function names, for which the tokens are derived from the source.
    extra_cflags, extra_ldflags, extra_include_paths : list of str, optional
        Options for the compiler (such as ``-march=native`` or ``-std=c++20``), options for the
        linker, and folders for ``#include``.
    build_directory : str, optional
        A folder to which the library is copied.
    verbose : bool, default False
        Print the compiler's command and output.
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
    check : bool, default False
        Build the module so that an index out of bounds is an error, both for the result of
        ``data_ptr<T>()`` and for the containers of the C++ library. ``data_ptr<T>()`` then returns
        a `kernbridge::Pointer`, so write ``auto p = x.data_ptr<T>()``. ``KERNBRIDGE_DEBUG=check``
        has the same effect. Not available for C.
    carry : bool, default False
        Include the library in exported programs, so that they run without the source and without a
        compiler; docs/source-kernels.md lists the conditions. By default, exported programs contain
        only the module's name, and the module must be loaded before they are called.
    errors : dict of int to str, or str, optional
        What the codes mean that functions with signatures return, such as
        ``{1: "the matrix is singular"}``, or the name of a C function that returns the text of a
        code, ``const char *name(int)``. Without it, the error has the code.

    Returns
    -------
    CompiledModule
        The module, with its functions as attributes.

    Raises
    ------
    KernelError
        If an annotation is missing, wrong, or disagrees with its function.
    HostCompilerNotFoundError, NvccNotFoundError
        If no compiler is found; the message lists what was tried.
    CompilationError
        If the compiler refuses the source; the message has its output, with line numbers of the
        source.
    KernelRegistrationError
        If a target of the same name has other content.

    Notes
    -----
    C++ exceptions of any type become JAX errors.

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
    sources = _texts("load_cpp_inline", name, ".cpp", cpp_sources)
    return _build("load_cpp_inline", "c++", name, sources, functions, locals())


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
    return _build_files("load_cpp_file", "c++", name, [filepath], functions, options)


@hides_frames
def load_c_inline(
    name: str, c_sources: str | Sequence[str], functions: Functions = None, **options: Any
) -> CompiledModule:
    """Build C source, and make JAX operations on the CPU from its annotated functions.

    A function of pointers and numbers is described by a signature, see docs/libraries.md. Others
    have a parameter ``const kb_tensor *`` for each tensor and a scalar parameter for each
    attribute, and return nothing, or 0 for success. Alternatively, a function takes the whole call,
    as in ``int name(const kb_call *call)``. See ``kernbridge/kernbridge.h``.

    A function without a signature sees the bytes of its arrays and not what they are, so its
    annotation declares the dtype and the shape of each: ``arg:f32[n]`` or ``ret:int32[n, 3]``;
    ``[...]`` is any shape, and ``any`` is for a function that looks at the dtype itself. A call
    that differs is refused when it is traced.

    Parameters
    ----------
    name : str
        The module's name.
    c_sources : str or list of str
        The source in C11; several sources are concatenated.
    functions, **options
        See `load_cpp_inline`, whose options are taken except `check`.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, kernbridge
    >>> module = kernbridge.load_c_inline("sums", r'''
    ... // @BE total x: f32[n], n -> f32
    ... float total(const float *x, int n) {
    ...     float sum = 0;
    ...     for (int i = 0; i < n; i++) sum += x[i];
    ...     return sum;
    ... }
    ... ''')
    >>> module.total(jnp.arange(4.0))
    Array(6., dtype=float32)
    """
    return build_c("load_c_inline", name, c_sources, functions, options)


@hides_frames
def load_c_file(
    filepath: str | Path, functions: Functions = None, *, name: str | None = None, **options: Any
) -> CompiledModule:
    """Build one C file as `load_c_inline` builds a string; see `load_cpp_file`."""
    return _build_files("load_c_file", "c", name, [filepath], functions, options)


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
    carry: bool = False,
    record: str = "auto",
    check: bool = False,
) -> CompiledModule:
    """Build CUDA source, and make JAX operations from its annotated functions.

    A function may take the stream that its kernels are launched on::

        // @BE scale arg:f32[n] ret:f32[n] attr.factor:float32 stream
        void scale(const BE::Tensor x, BE::Tensor out, float factor, int64_t stream) {
            int n = x.numel_checked_int();
            scale_kernel<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(
                x.data_ptr<float>(), out.data_ptr<float>(), factor, n);
        }

    Errors of launches become JAX errors, whether or not the function checks for them.

    The source is compiled by nvcc for the GPUs of this machine. If there is none, or if
    `kernbridge.cuda_on_cpu` or JAX_PLATFORMS=cpu asks for it, the host's C++ compiler compiles it
    for the CPU, without nvcc and CUDA; docs/cuda-source.md lists what differs. If JAX lowers a call
    for the other of the two, the source is compiled for it then.

    Parameters
    ----------
    cuda_sources : str or list of str
        The source; several sources are concatenated.
    extra_cuda_cflags : list of str, optional
        Options for nvcc.
    compute_capability : str, float or list, optional
        The GPUs to compile for, as in "9.0" or ["sm_80", "sm_90"]; by default the GPUs of this
        machine. The source is then compiled by nvcc even if there is no GPU.
    use_fast_math : bool, default False
        Compile with ``--use_fast_math``, which is faster and less accurate.
    allow_cuda_graph : bool, default True
        Let XLA record calls into CUDA graphs. Set this to False for a function that waits for the
        GPU, allocates memory, chooses its launches depending on data, or copies from memory on its
        own stack (which a graph would read only when it runs).
    carry : bool, default False
        See `load_cpp_inline`; only programs for CPUs contain the library.
    record : {"auto", "always", "never"}, default "auto"
        Whether a call on a GPU is a plan: the function runs once for arrays of these shapes, in a
        process of its own, and the kernels that it launches become a part of the program, which
        needs neither the source nor the library any more. "auto": a function that cannot be
        recorded runs at each call, as with "never"; ``op.plan()`` says why. "always": that is a
        KernelError. docs/cuda-source.md says what can be recorded.
    check : bool, default False
        On the CPU, check every access of kernels: accesses out of bounds, data races, reads of
        unwritten memory and divergent barriers become errors (`docs/checks.md`).
        ``KERNBRIDGE_DEBUG=check`` and ``cuda_on_cpu(check=True)`` have the same effect.
    name, functions, extra_ldflags, extra_include_paths, build_directory, verbose, force_rebuild, \
replace, auto_register, target_prefix, optimization_level
        See `load_cpp_inline`, which also describes the result and the errors.
    """
    sources = _texts("load_cuda_inline", name, ".cu", cuda_sources)
    return _build("load_cuda_inline", "cuda", name, sources, functions, locals())


@hides_frames
def load_cuda_file(
    filepath: str | Path, functions: Functions = None, *, name: str | None = None, **options: Any
) -> CompiledModule:
    """Build one ``.cu`` file as `load_cuda_inline` builds a string; see `load_cpp_file`."""
    return _build_files("load_cuda_file", "cuda", name, [filepath], functions, options)


@hides_frames
def load_cuda_dir(
    directory: str | Path,
    functions: Functions = None,
    *,
    name: str | None = None,
    file_patterns: Sequence[str] = ("*.cu",),
    **options: Any,
) -> CompiledModule:
    """Build the ``.cu`` files of a folder as one module; see `load_cuda_inline`.

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
    known = _complete("load_cuda_dir", "cuda", options)
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
    return _build_files("load_cuda_dir", "cuda", name, files, functions, known)


# Building


def build_c(
    label: str, name: str, sources: str | Sequence[str], functions: Functions, options: Given
) -> CompiledModule:
    known = _complete(label, "c", options)
    return _build(label, "c", name, _texts(label, name, ".c", sources), functions, known)


def _complete(label: str, language: str, given: Given) -> dict[str, Any]:
    """Return all options of a language; TypeError is raised if one of those given is unknown."""
    inline = inspect.unwrap(load_cuda_inline if language == "cuda" else load_cpp_inline)
    known = dict(inline.__kwdefaults__)
    if language == "c":
        del known["check"]
    for name in given:
        if name not in known:
            raise TypeError(unknown(label, name, known, "KB5105"))
    Options(inline, label).check((), given)
    return known | dict(given)


def _texts(label: str, name: str, suffix: str, sources: str | Sequence[str]) -> Sources:
    listed: list[Any] = list(sources) if isinstance(sources, (list, tuple)) else [sources]
    for i, source in enumerate(listed):
        if not isinstance(source, str) or A_FILE.fullmatch(source):
            raise TypeError(
                f"{label}: source {i} is {source!r:.60} of type {type(source).__name__}, expected "
                f"the text of a source; use {label.replace('inline', 'file')} for a file [KB5105]"
            )
    numbers = [f"[{i}]" for i in range(len(listed))] if len(listed) != 1 else [""]
    return [(f"{name}{n}{suffix}", source) for n, source in zip(numbers, listed, strict=True)]


def _build_files(
    label: str,
    language: str,
    name: str | None,
    paths: Sequence[str | Path],
    functions: Functions,
    given: Given,
) -> CompiledModule:
    """Build a module of files, which find what they include in their own folder."""
    options, files = _complete(label, language, given), list(map(Path, paths))
    for file in files:
        if not file.is_file():
            raise FileNotFoundError(
                f"{label}: there is no file {file.absolute()}; correct the path [KB5103]"
            )
    sources = [(str(file), file.read_text(encoding="utf-8")) for file in files]
    folders = dict.fromkeys(str(file.resolve().parent) for file in files)
    options["extra_include_paths"] = [*folders, *(options["extra_include_paths"] or ())]
    return _build(label, language, name or files[0].stem, sources, functions, options)


def _build(
    label: str, language: str, name: str, sources: Sources, functions: Functions, options: Given
) -> CompiledModule:
    """Build a module; `options` has all options of the language, among other things."""
    if not isinstance(name, str) or not name or "\0" in name or "\n" in name:
        raise ValueError(
            f"{label}: name is {name!r:.60}, expected a name of one line; pass the name "
            "that the module is to have, and then its source [KB5105]"
        )
    about, cuda = f"{label} {name!r}", language == "cuda"
    checked = language == "c++" and (options["check"] or debug.checks())
    if checked:
        _warn_of_plain_pointers(about, sources)
    flags = tuple(map(str, options["extra_cuda_cflags" if cuda else "extra_cflags"] or ()))
    paths = (*map(str, options["extra_include_paths"] or ()), *settings.include_paths)
    ldflags = tuple(map(str, options["extra_ldflags"] or ()))
    named = named_functions(about, functions)
    errors = _read_errors(about, options.get("errors"))
    # JSON quotes the name of a file as C does.
    text = "".join(
        f"#line 1 {json.dumps(file, ensure_ascii=False)}\n{source}\n\n" for file, source in sources
    )

    def finish() -> Finished:
        from kernbridge._src.source import glue  # a library that is found needs nothing of it

        return glue.finish(about, language, text, sources, named, flags, paths, errors)

    described = functools.partial(
        Request,
        name=name,
        source=text,
        spec=repr((named, errors) if errors else named),
        cflags=(*_CHECK_FLAGS * checked, *flags),
        ldflags=ldflags,
        include_paths=paths,
        optimization_level=options["optimization_level"],
        build_directory=options["build_directory"],
        verbose=options["verbose"],
        force_rebuild=options["force_rebuild"],
        finish=finish,
    )
    load = functools.partial(_load, label, described, options, language)
    on_cpu = cuda and _runs_on_cpu(options["compute_capability"])
    other = functools.partial(load, "cuda" if on_cpu else CUDA_ON_CPU)
    module = load(CUDA_ON_CPU if on_cpu else language, functools.cache(other) if cuda else None)
    if options["auto_register"]:
        register_all(module, options["target_prefix"] or name, options["replace"])
    return module


def _mode_of_launches() -> str | None:
    """How launches of Numba-CUDA run on the CPU, "run" or "check"; None if they do not."""
    mode = extensions.find("launches")
    return mode and mode.current()


def _runs_on_cpu(compute_capability: Any) -> bool:
    """Whether CUDA source is compiled for the CPU when it is loaded.

    That is so where launches of Numba-CUDA run on the CPU, too: there, GPUs are not asked for.
    """
    from kernbridge._src.toolchain import cuda

    if _mode_of_launches() is not None:
        return True
    if compute_capability is not None or cuda.chosen() or settings.cuda_on_cpu == "error":
        return False
    if jax.config.jax_platforms != "cpu" and _core.device_count()[0] > 0:
        return False
    from kernbridge._src.plan.targets import gpu_platforms  # the CPU is one under a fake driver

    return "cpu" not in gpu_platforms() and extensions.find(CUDA_ON_CPU) is not None


def _load(
    label: str,
    described: Callable[..., Request],
    options: Given,
    source: str,
    language: str,
    load_other: Callable[[], CompiledModule] | None = None,
) -> CompiledModule:
    """Build a library in a language and open it, again where it goes between the two.

    `source` is the language that the user writes, and `load_other` loads CUDA source as it is
    compiled for the other of GPUs and the CPU.
    """
    on_cpu, of_gpus = language == CUDA_ON_CPU, dict[str, Any]()
    record = options.get("record", "never")
    if record not in (found := ("auto", "always", "never")):
        raise ValueError(f"{label}: record is {record!r}, expected one of {found} [KB5105]")
    if language == "cuda":
        from kernbridge._src.toolchain.cuda import cuda_architectures

        of_gpus["architectures"] = cuda_architectures(options["compute_capability"])
        of_gpus["fast_math"] = options["use_fast_math"]
    request = described(
        language=language,
        checked=on_cpu and (options["check"] or debug.checks() or _mode_of_launches() == "check"),
        **of_gpus,
    )
    left = ATTEMPTS
    while True:
        left -= 1
        built = None
        try:
            built = build.build(request)
            return CompiledModule(
                label,
                request.name,
                built.path,
                built.digest,
                list(map(ScannedFunction.of, built.notes)),
                language=source,
                on_cpu=on_cpu,
                graph=options.get("allow_cuda_graph", True),
                carry=bool(options.get("carry")),
                record=record,
                request=request,
                load_other=load_other,
            )
        except CompilationError:
            raise
        except (KernelError, FileNotFoundError) as e:
            is_there = built is not None and os.path.exists(built.path)
            is_other = built is not None or isinstance(e, FileNotFoundError)
            if built is not None and is_there:
                is_other = not built.built and is_changed(built)
            if not left or not is_other:
                raise
        # An absent library is built in any case, by one of the processes that need it.
        request = request._replace(force_rebuild=is_there)


_PLAIN_POINTER = r"\*\s*(?:(?:const|__restrict(?:__)?)\s+)*\w+\s*=[^;=]*?data_ptr\s*<"


def _warn_of_plain_pointers(label: str, sources: Sources) -> None:
    """Warn of plain pointers: the checked mode does not see what they are used for."""
    places = [
        f"{name}:{text.count(chr(10), 0, found.start()) + 1}"
        for name, text in sources
        for found in re.finditer(_PLAIN_POINTER, text)
    ]
    if places:
        warn(
            f"{label}: check=True does not check plain pointers, which {', '.join(places[:8])} "
            "take from data_ptr; write `auto` instead of the pointer's type"
        )


def _read_errors(label: str, errors: Any) -> Mapping[int, str] | str | None:
    if errors is None or (isinstance(errors, str) and errors.isidentifier()):
        return errors
    if isinstance(errors, Mapping) and all(
        isinstance(code, int) and code and isinstance(text, str) for code, text in errors.items()
    ):
        return {int(code): text for code, text in errors.items()}
    raise TypeError(
        f"{label}: errors is {errors!r}, expected a dict from codes other than 0 to texts, such as "
        "{1: 'the matrix is singular'}, or the name of a C function that returns the text of a "
        "code [KB5105]"
    )


def named_functions(label: str, functions: Functions) -> Named:
    """`functions=` as the scanner takes it: names, and tokens with blanks between them."""
    if functions is None:
        return None
    if isinstance(functions, str):
        raise TypeError(
            f"{label}: functions is {functions!r}, expected a dict of names and their tokens, or a "
            "list of names; write functions={'f': 'arg:f32[n] ret:f32[n]'} [KB5105]"
        )
    if not isinstance(functions, Mapping):
        return tuple((str(name), None) for name in functions)
    return tuple((str(name), join_tokens(tokens)) for name, tokens in functions.items())
