"""Tests the rules of an operation: derivatives against finite differences, vmap against a loop.

Griewank and Walther describe the tests of derivatives in Evaluating Derivatives (2008), chapter 3:
along a random direction v, and weighted by a random u, central differences give J v, and
u . (J v) equals (J' u) . v.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kernbridge._src.base.errors import KernelError, typed
from kernbridge._src.base.progress import shown
from kernbridge._src.base.reports import hides_frames
from kernbridge._src.calls.call import is_inexact


class RuleCheck(NamedTuple):
    """One comparison, of the two quantities that `check` names.

    `backend` is set for an `XLACustomKernel`, else empty, and `status` "passed", "failed" or
    "skipped". `error` is the largest difference in units of the tolerance, at most 1 if passed, and
    `detail` the position of a failure, or the reason why the check was skipped.
    """

    backend: str
    check: str
    status: str
    error: float = float("nan")
    detail: str = ""

    def __str__(self) -> str:
        error = "" if np.isnan(self.error) else f" ({self.error:.2g} of the tolerance)"
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.backend or 'operation'}, {self.check}: {self.status}{error}{detail}"


RuleCheck.__module__ = "kernbridge"


class RuleCheckError(KernelError, AssertionError):
    """The rules of an operation contradict each other or its results.

    `checks` has all comparisons, also the passed ones.
    """

    __module__ = "kernbridge"

    def __init__(self, message: str, checks: tuple[RuleCheck, ...]) -> None:
        super().__init__(message)
        self.checks = checks


@hides_frames
def check_rules(
    op: Any,
    *args: Any,
    outs: Any = None,
    backends: Sequence[str] | None = None,
    finite_differences: bool = True,
    require: bool = True,
    step: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    batch: int = 3,
    seed: int = 0,
    **kwargs: Any,
) -> tuple[RuleCheck, ...]:
    """Test the derivative and batching rules of an operation, on every backend.

    The jvp is compared with central differences and with the vjp; `jax.vmap` of the operation and
    of its vjp is compared with a Python loop; and each backend is compared with the first one.

    Parameters
    ----------
    op : XLACustomKernel, Operation or callable
        The operation. An `XLACustomKernel` without `outs` is called through its `def_call`.
    *args : arrays
        Inputs at which the operation is smooth. Integer inputs are held constant.
    outs, backends : pytree of jax.ShapeDtypeStruct, sequence of str, optional
        For an `XLACustomKernel`: its outputs, and the backends to check, by default all backends of
        the default platform.
    finite_differences : bool, default True
        Set this to False for surrogate gradients, which differ from the true derivative.
    require : bool, default True
        Fail if the operation has inputs and outputs of floating point and no derivative. If False,
        only the batching of such an operation is tested.
    step : float, optional
        The step of the finite differences, relative to the size of the inputs; by default the cube
        root of the resolution of the dtype.
    rtol, atol : float, optional
        Tolerances. For finite differences, the defaults are 1e-2 for float32 and 1e-5 for float64;
        for other comparisons, a hundred times the resolution of the dtype.
    batch, seed : int
        The number of slices of the vmap, and the seed of the random directions.
    **kwargs
        Keyword arguments of the call.

    Returns
    -------
    tuple of RuleCheck
        The result of each comparison. If one failed, RuleCheckError lists all that failed.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, numba, kernbridge
    >>> @numba.njit
    ... def square(x, out):
    ...     for i in range(x.size):
    ...         out[i] = x[i] * x[i]
    >>> op = kernbridge.numba_kernel(
    ...     square,
    ...     lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype),
    ...     vjp=lambda inputs, outputs, ct: (3 * inputs[0] * ct,),
    ... )
    >>> kernbridge.check_rules(op, jnp.arange(1.0, 4.0))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    kernbridge.RuleCheckError: ...jvp against central differences: failed...
    """
    leaves, tree = jax.tree.flatten(args)
    checks: list[RuleCheck] = []
    first: _Checker | None = None
    name = getattr(op, "name", None) or getattr(op, "__name__", repr(op))
    for backend, function in _functions(op, outs, backends, kwargs):
        with shown(f"checking the rules of {name}"):
            checker = _Checker(backend, function, leaves, step, rtol, atol, seed, tree)
            if first is not None:
                what = f"outputs against {first.backend}"
                checks.append(checker.compare(what, first.outputs, checker.outputs))
            first = first or checker
            checks += [*checker.derivatives(finite_differences, require), *checker.vmaps(batch)]
    failed = [c for c in checks if c.status == "failed"]
    if failed:
        lines = "\n".join(f"  {c}" for c in failed)
        raise RuleCheckError(f"check_rules: {name!r} [KB2105]\n{lines}", tuple(checks))
    return tuple(checks)


def _functions(
    op: Any, outs: Any, backends: Sequence[str] | None, keywords: dict[str, Any]
) -> list[tuple[str, Callable[..., Any]]]:
    if not callable(op):
        raise TypeError(f"check_rules: {op!r} is not an operation, and not callable [KB1001]")
    if not hasattr(op, "available_backends"):
        if outs is not None or backends is not None:
            raise TypeError(
                f"check_rules: {op!r} is not an XLACustomKernel, so neither outs nor backends can "
                "be passed [KB1005]"
            )
        return [("", partial(op, **keywords))]
    call = op.call if outs is None else partial(op, outs=outs)
    platform = jax.default_backend()
    chosen = op.available_backends(platform) if backends is None else list(backends)
    if not chosen:
        raise ValueError(f"check_rules: {op.name!r} has no backend on {platform} [KB7006]")
    return [(backend, partial(call, backend=backend, **keywords)) for backend in chosen]


class _Checker:
    """One backend at one point. Derivatives are taken along the inputs of floating point."""

    def __init__(self, backend: str, function: Any, arrays: list[Any], *options: Any) -> None:
        self.backend, self.function = backend, function
        self.arrays = arrays = [jnp.asarray(x) for x in arrays]
        step, rtol, self.atol, seed, self.tree = options
        self.moving = [i for i, x in enumerate(arrays) if is_inexact(x.dtype)]
        self.random = np.random.default_rng(seed)
        self.point = [arrays[i] for i in self.moving]
        self.outputs = self.leaves(*self.point)
        self.smooth = [y for y in self.outputs if is_inexact(y.dtype)]
        floats = (*self.point, *self.smooth)
        self.resolution = max((float(jnp.finfo(x.dtype).eps) for x in floats), default=1e-7)
        self.relative_step = step or self.resolution ** (1 / 3)
        self.loose = rtol or max(4 * self.resolution ** (1 / 2), 1e-5) * 8
        self.tight = rtol or 100 * self.resolution

    def leaves(self, *moving: Any) -> list[Any]:
        """Return the outputs, as a function of the inputs that move."""
        given = iter(moving)
        args = [next(given) if is_inexact(x.dtype) else x for x in self.arrays]
        return jax.tree.leaves(self.function(*self.tree.unflatten(args)))

    def inexact(self, *moving: Any) -> list[Any]:
        return [y for y in self.leaves(*moving) if is_inexact(y.dtype)]

    def direction(self, arrays: Sequence[Any]) -> list[Any]:
        drawn = []
        for x in arrays:
            v = self.random.standard_normal(x.shape)
            if jnp.issubdtype(x.dtype, jnp.complexfloating):
                v = v + 1j * self.random.standard_normal(x.shape)
            drawn.append(jnp.asarray(v, x.dtype))
        return drawn

    def compare(self, check: str, want: Any, found: Any, noise: float | None = None) -> RuleCheck:
        """Compare leaves of arrays by the tolerance; differences have noise besides."""
        rtol = self.tight if noise is None else self.loose
        worst, where = 0.0, ""
        for k, (a, b) in enumerate(zip(found, want, strict=True)):
            if (a.shape, a.dtype) != (b.shape, b.dtype):
                got, wanted = (typed(x.dtype, x.shape) for x in (a, b))
                detail = f"{got} where {wanted} is expected, in leaf {k}"
                return RuleCheck(self.backend, check, "failed", np.inf, detail)
            a, b = (np.asarray(x, complex if x.dtype.kind == "c" else float) for x in (a, b))
            scale = np.max(np.abs(b), initial=0.0, where=np.isfinite(b))
            allowed = (self.atol if self.atol is not None else rtol * scale) + rtol * np.abs(b)
            allowed = np.maximum(allowed + (noise or 0.0), np.finfo(float).tiny)
            with np.errstate(all="ignore"):
                ratio = np.nan_to_num(np.abs(a - b) / allowed, nan=np.inf, posinf=np.inf)
            ratio = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, ratio)
            if ratio.max(initial=0.0) > worst:
                at = tuple(int(i) for i in np.unravel_index(np.argmax(ratio), a.shape))
                worst = float(ratio[at])
                where = f"{a[at]} where {b[at]} is expected, at {at} of leaf {k}"
        status = "failed" if worst > 1 else "passed"
        return RuleCheck(self.backend, check, status, worst, where if worst > 1 else "")

    def derivatives(self, finite_differences: bool, require: bool) -> list[RuleCheck]:
        if not self.moving or not self.smooth:
            return [self._skip("derivatives", "nothing of floating point")]
        v, u = self.direction(self.point), self.direction(self.smooth)
        forward, why = self._try(lambda: jax.jvp(self.inexact, self.point, v)[1])
        reverse, why_not = self._try(lambda: jax.vjp(self.inexact, *self.point)[1](u))
        if forward is None and reverse is None and require:
            detail = f"{why} Pass require=False if it is not meant to be differentiated."
            return [RuleCheck(self.backend, "derivatives", "failed", np.inf, detail)]
        checks = [self._skip("jvp", why)] if forward is None else []
        checks += [self._skip("vjp", why_not)] if reverse is None else []
        if forward is not None and reverse is not None:
            checks.append(self._weighted("vjp against jvp", u, forward, v, reverse))
        if not finite_differences or (forward is None and reverse is None):
            return checks
        difference, noise = self._difference(v)
        what = "against central differences"
        if forward is not None:
            return [*checks, self.compare(f"jvp {what}", difference, forward, noise)]
        return [*checks, self._weighted(f"vjp {what}", u, difference, v, reverse, noise)]

    def _weighted(
        self, check: str, u: Any, forward: Any, v: Any, reverse: Any, noise: float = 0.0
    ) -> RuleCheck:
        """Compare u . (J v) with (J' u) . v, whose terms may cancel."""
        weights = [np.abs(x) for x in u]
        terms = _inner(weights, [np.abs(x) for x in forward])
        noise = self.tight * terms + noise * sum(float(np.sum(w)) for w in weights)
        return self.compare(check, [_inner(u, forward)], [_inner(reverse, v)], float(noise))

    def _difference(self, v: Sequence[Any]) -> tuple[list[Any], float]:
        """Return the difference along `v`, and how far rounding and curvature lead it astray."""
        h = self.relative_step * max(_largest(self.point), self.relative_step)
        near, large = self._central(v, h)
        far, _ = self._central(v, 2 * h)
        curved = _largest([a - b for a, b in zip(near, far, strict=True)])
        return near, 4 * self.resolution * large / h + curved

    def _central(self, v: Sequence[Any], h: float) -> tuple[list[Any], float]:
        after = self.inexact(*(x + h * t for x, t in zip(self.point, v, strict=True)))
        before = self.inexact(*(x - h * t for x, t in zip(self.point, v, strict=True)))
        return [(a - b) / (2 * h) for a, b in zip(after, before, strict=True)], _largest(after)

    def vmaps(self, batch: int) -> list[RuleCheck]:
        if not self.moving:
            return [self._skip("vmap", "nothing of floating point to map")]
        stacks = [
            jnp.stack([x * (1 + self.relative_step * k) for k in range(batch)]).astype(x.dtype)
            for x in self.point
        ]
        every: list[Any] = [0] * len(stacks)
        checks = [self._vmap("vmap over all inputs", self.leaves, every, stacks)]
        for i, number in enumerate(self.moving if len(stacks) > 1 else ()):
            one = [0 if j == i else None for j in range(len(stacks))]
            checks.append(self._vmap(f"vmap over input {number}", self.leaves, one, stacks))
        u = self.direction(self.smooth)

        def gradient(*moving: Any) -> Any:
            return jax.vjp(self.inexact, *moving)[1](u)

        if self.smooth and self._try(lambda: gradient(*self.point))[0] is not None:
            checks.append(self._vmap("vmap of vjp", gradient, every, stacks))
        return checks

    def _vmap(self, check: str, function: Any, mapped: list[Any], stacks: list[Any]) -> RuleCheck:
        args = [s if a == 0 else x for a, s, x in zip(mapped, stacks, self.point, strict=True)]
        found = jax.vmap(function, tuple(mapped))(*args)
        slices = [
            function(*(s[k] if a == 0 else s for a, s in zip(mapped, args, strict=True)))
            for k in range(len(stacks[0]))
        ]
        expected = [jnp.stack(column) for column in zip(*slices, strict=True)]
        return self.compare(f"{check} against a loop", expected, found)

    @staticmethod
    def _try(attempt: Callable[[], Any]) -> tuple[Any, str]:
        try:
            return attempt(), ""
        except NotImplementedError as e:
            return None, str(e)

    def _skip(self, check: str, why: str) -> RuleCheck:
        return RuleCheck(self.backend, check, "skipped", detail=why)


def _largest(arrays: Sequence[Any]) -> float:
    return max((float(jnp.max(jnp.abs(x), initial=0.0)) for x in arrays), default=0.0)


def _inner(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """Return the product that JAX's transposition keeps, which does not conjugate."""
    terms = (np.sum(np.asarray(x) * np.asarray(y)) for x, y in zip(a, b, strict=True))
    return np.float64(np.real(sum(terms)))
