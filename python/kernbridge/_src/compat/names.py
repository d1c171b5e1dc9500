"""Functions of BrainEvent's bridge that kernbridge itself does not use."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from kernbridge._src.custom import kernel
from kernbridge._src.custom.kernel import XLACustomKernel
from kernbridge._src.forge import artefacts

_WEIGHTS = {"float16": "_f16", "bfloat16": "_bf16", "float32": "_f32", "float64": "_f64"}
_TOKENS = {"args": "arg", "rets": "ret", "ctx.stream": "stream"}


def normalize_tokens(tokens: Sequence[str]) -> list[str]:
    """Return the tokens of an annotation under the names that are documented.

    Parameters
    ----------
    tokens : sequence of str
        Tokens as in "args", "rets", "ctx.stream" or "attrs.scale"; others are returned as they are.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from kernbridge.compat.brainevent import normalize_tokens
    >>> normalize_tokens(["args", "rets", "attrs.scale", "attr.n:int32", "ctx.stream"])
    ['arg', 'ret', 'attr.scale', 'attr.n:int32', 'stream']
    """
    return [_normalize(token) for token in tokens]


def _normalize(token: str) -> str:
    if token.startswith("attrs.") and ":" not in token:
        return f"attr.{token.removeprefix('attrs.')}"
    return _TOKENS.get(token, token)


def dtype_suffix(dtype: Any) -> str:
    """Return the suffix that BrainEvent's CUDA functions have for a dtype of weights.

    Parameters
    ----------
    dtype : dtype
        Floating-point; the suffix of every other dtype is that of float32.

    Examples
    --------
    >>> from kernbridge.compat.brainevent import dtype_suffix
    >>> dtype_suffix("float64")
    '_f64'
    """
    return _WEIGHTS.get(np.dtype(dtype).name, "_f32")


def spike_suffix(dtype: Any) -> str:
    """Return the suffix that BrainEvent's CUDA functions have for a dtype of spikes.

    Examples
    --------
    >>> from kernbridge.compat.brainevent import spike_suffix
    >>> spike_suffix(bool), spike_suffix("float32")
    ('_bool', '_float')
    """
    return "_bool" if np.dtype(dtype) == np.bool_ else "_float"


def so_ext() -> str:
    """Return the suffix of shared libraries on this system, with its dot.

    Examples
    --------
    >>> from kernbridge.compat.brainevent import so_ext
    >>> so_ext() in (".so", ".dylib", ".dll")
    True
    """
    return {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")


def check_pallas_jax_version() -> None:
    """Check that JAX is recent enough for Pallas kernels, which every supported JAX is.

    Raises
    ------
    RuntimeError
        If JAX is older than 0.7.1.
    """
    if jax.__version_info__ < (0, 7, 1):
        raise RuntimeError(
            f"Pallas kernels need JAX 0.7.1 or later; this is JAX {jax.__version__} [KB8004]"
        )


def check_warp_installed() -> None:
    """Check that Warp can be imported.

    Raises
    ------
    RuntimeError
        If it cannot.
    """
    try:
        import warp  # noqa: F401
    except ImportError as e:
        raise RuntimeError(
            f"Warp kernels need the package 'warp', which cannot be imported ({e}). Install it: "
            "pip install warp-lang [KB4016]"
        ) from e


def register_primitive(name: str, primitive: XLACustomKernel) -> None:
    """Enter an operation in the registry, as creating it does.

    Parameters
    ----------
    name : str
        An operation that has this name already is replaced, with a UserWarning.
    primitive : XLACustomKernel
    """
    kernel.register(name, primitive)


def get_cache_dir() -> str | None:
    """Return the folder of the cache as a text, or None where the cache is switched off."""
    folder = artefacts.get_cache_dir()
    return None if folder is None else str(folder)
