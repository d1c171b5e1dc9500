"""The types of Warp for dtypes of JAX."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbridge._src.base.dtypes import BITS, taken_by

_WARP_TYPES = sorted(taken_by("Warp"), key=lambda name: (name.rstrip("0123456789"), BITS[name]))


def jaxtype_to_warptype(dtype: Any) -> Any:
    """Return the Warp scalar type of a dtype.

    Parameters
    ----------
    dtype : dtype
        bool, float16, float32, float64, or an integer of 8 to 64 bits.

    Raises
    ------
    ImportError
        If Warp is not installed.
    ValueError
        If Warp has no such type.

    Examples
    --------
    >>> import jax.numpy as jnp, kernbridge
    >>> kernbridge.jaxtype_to_warptype(jnp.float32)  # doctest: +SKIP
    <class 'warp.types.float32'>
    """
    name = np.dtype(dtype).name
    if name not in _WARP_TYPES:
        raise ValueError(
            f"jaxtype_to_warptype: Warp has no scalar type for {name}; it has "
            f"{', '.join(_WARP_TYPES)}. Convert the array to one of these [KB2003]"
        )
    return getattr(_warp(), name)


def jaxinfo_to_warpinfo(info: Any) -> Any:
    """Return the Warp array type of an array, or of an object with a shape and a dtype.

    It serves as the annotation of a kernel's parameter.

    Parameters
    ----------
    info : jax.ShapeDtypeStruct, jax.Array or any object with a shape and a dtype
        The array, of rank 1 to 4.

    Returns
    -------
    warp.array
        The array type, with the dtype and the number of dimensions.

    Raises
    ------
    ImportError
        If Warp is not installed.
    ValueError
        If the rank is 0, or if Warp has no such dtype.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, kernbridge
    >>> x = jax.ShapeDtypeStruct((3, 4), jnp.float32)
    >>> kernbridge.jaxinfo_to_warpinfo(x).ndim  # doctest: +SKIP
    2
    """
    if not info.shape:
        raise ValueError(
            "jaxinfo_to_warpinfo: the array has rank 0, but Warp's arrays have ranks 1 to 4; "
            "reshape it to (1,) [KB2003]"
        )
    dtype = jaxtype_to_warptype(info.dtype)
    return _warp().array(dtype=dtype, ndim=len(info.shape))


def _warp() -> Any:
    try:
        import warp
    except ImportError as e:
        raise ImportError("Warp is not installed: pip install warp-lang [KB4016]") from e
    return warp
