"""`kernbridge.inline`: JAX functions of scalars that kernels of Numba and Numba-CUDA call.

An `InlinedFunction` has a type of Numba's own for functions, with a template that translates the
JAX function for the types of each call. Numba asks it under its lock, in any thread.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from kernbridge._src.base import private_jax
from kernbridge._src.base.errors import KernelCompilationError
from kernbridge._src.base.reports import hides_frames
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.forge.obtain import Recipe, obtain
from kernbridge._src.keys.identity import identity_of
from kernbridge._src.numba_common import kinds

NAMED = "kernbridge_inlined_"  # how the names of translations begin
in_derivative = False  # whether Enzyme will differentiate what Numba compiles, under its lock


class NotInlined(Exception):
    """Kernels cannot call a function with scalars of certain types."""


@dataclass(frozen=True, slots=True)
class Translation:
    name: str  # contains a digest of the text
    results: tuple[str, ...]  # dtypes
    jitted: Any  # a function of numba.njit, which Numba-CUDA takes, too
    need: str = ""  # of JAX's derivative (rules.py)
    in_derivative: Any = None  # what a derivative calls in place of `jitted`
    roots: tuple[Any, ...] = ()


class InlinedFunction:
    """A JAX function of scalars that kernels call; made by `kernbridge.inline`.

    Outside of kernels, it is called as the JAX function itself, which is ``__wrapped__``.
    """

    __module__ = "kernbridge"

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__wrapped__ = function
        self.__name__ = str(getattr(function, "__name__", type(function).__name__))
        self.__doc__ = getattr(function, "__doc__", None)
        self.label = f"kernbridge.inline({self.__name__})"
        self.translations: dict[tuple[str, ...], Translation] = {}
        self._traced = functools.cache(self._translated)
        self._types: dict[str, Any] = {}  # of each target of Numba
        self._lock = threading.RLock()

    def __call__(self, *scalars: Any) -> Any:
        return self.__wrapped__(*scalars)

    def __repr__(self) -> str:
        return f"<{self.label}>"

    def __reduce__(self) -> Any:
        return inline, (self.__wrapped__,)

    @property
    def _numba_type_(self) -> Any:
        """The type by which Numba and Numba-CUDA know the object."""
        from kernbridge._src.numba_common.private_numba import current_target

        target = current_target()
        if target not in self._types:
            self._types[target] = _type_of(self)
        return self._types[target]

    def translation(self, dtypes: tuple[str, ...]) -> Translation:
        """Return the function for scalars of these dtypes; `NotInlined` says why there is none.

        The JAX function is traced at the first call for the dtypes, with `jax_enable_x64` and
        without. Numba may link functions that it compiled before, so both have to be the same.
        """
        is_wide = bool(jax.config.jax_enable_x64) or any(np.dtype(d).itemsize == 8 for d in dtypes)
        with self._lock:
            found = self._traced(dtypes, is_wide)
            if self.translations.setdefault(dtypes, found).name != found.name:
                raise NotInlined(
                    f"{self.label}: for ({', '.join(dtypes)}), the function computes otherwise now "
                    f"than when it was first compiled, since jax_enable_x64 is {is_wide} now; pass "
                    "a new function to kernbridge.inline in a new kernel, or keep the setting"
                )
            return found

    def _translated(self, dtypes: tuple[str, ...], is_wide: bool) -> Translation:
        scalars = [jax.ShapeDtypeStruct((), np.dtype(d)) for d in dtypes]
        try:
            with jax.enable_x64(is_wide), private_jax.own_lines():
                # JAX knows a function that it has traced again, even if it reads other values.
                traced = jax.make_jaxpr(lambda *x: self.__wrapped__(*x), return_shape=True)
                closed, shapes = traced(*scalars)
        except Exception as e:
            why = f"{type(e).__name__}: {e}".partition("\n")[0]
            raise NotInlined(
                f"{self.label}: JAX cannot trace the function for ({', '.join(dtypes)}): {why}"
            ) from e
        leaves = jax.tree.leaves(shapes)
        is_tuple = isinstance(shapes, tuple | list) and list(shapes) == leaves
        is_flat = leaves and (is_tuple or shapes is leaves[0])
        if not is_flat or any(leaf.shape for leaf in leaves):
            raise NotInlined(
                f"{self.label}: the function returns {shapes}, expected a scalar or a tuple of "
                "scalars"
            )
        from kernbridge._ext.inline import rules, translate  # which few programs need

        try:
            text = translate.translate(closed, is_tuple)
        except translate.NotTranslated as e:
            raise NotInlined(f"{self.label}: {e}") from None
        digest = hashlib.sha256(text.encode()).hexdigest()
        need = rules.needed(closed)
        name = f"{NAMED}{self.__name__ if self.__name__.isidentifier() else ''}_{digest[:24]}"
        jitted = rules.jitted(text, name, self.label)
        results = tuple(str(leaf.dtype) for leaf in leaves)
        if not need or len(dtypes) != 1 or dtypes[0][0] != "f":
            return Translation(name, results, jitted, need)
        root = functools.partial(rules.Root, self.label, self.__wrapped__, dtypes[0], is_wide, need)
        roots = tuple(root(k) if dtype[0] == "f" else None for k, dtype in enumerate(results))
        called = rules.calling(roots, jitted, dtypes[0], is_tuple)
        return Translation(name, results, jitted, need, called, roots)


@hides_frames
def inline(function: Callable[..., Any]) -> InlinedFunction:
    """Make a JAX function of scalars into one that kernels call.

    Kernels of ``numba.njit`` and ``numba.cuda.jit`` call it with scalars, also from functions that
    they call. It becomes part of their machine code on CPUs and on GPUs, and is differentiated with
    it by Enzyme. docs/derivatives.md says where its ``custom_jvp`` and ``custom_vjp`` count.

    Parameters
    ----------
    function : callable
        A function of scalars that JAX can trace, such as `jax.nn.gelu`, ``jax.grad(f)`` or a
        `functools.partial`. It returns a scalar, or a tuple of scalars. It may contain control flow
        (`jax.lax.cond`, `switch`, `while_loop`, `fori_loop`, `scan`) and arrays of at most 64
        elements. Scalars that it closes over become constants. It is traced once for each
        combination of dtypes, when a kernel is compiled.

    Returns
    -------
    InlinedFunction
        What kernels call, by position. Outside of kernels, it calls `function`.

    Raises
    ------
    TypeError
        If `function` is not callable.
    KernelCompilationError
        When a kernel that calls the function is compiled: if an argument is not a bool, an integer
        or a float of 32 or 64 bits, if JAX cannot trace the function, or if it uses a primitive
        that kernels cannot compute, such as `sort`. The message names the primitive and the line.

    Notes
    -----
    The arguments keep the dtypes that they have in the kernel. A float64 remains one even if
    ``jax_enable_x64`` is not set, since that option is on while a function of 64-bit arguments is
    traced. Note that number literals in Numba kernels have 64 bits. Results have the dtypes that
    JAX gives them.

    Elementary functions come from the C library or from libdevice, as in other Numba code. Most
    primitives are within 2 units in the last place of JAX's value or of the exact one; gamma and
    Bessel functions of float64 differ by up to some ten units.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, numba, kernbridge
    >>> gelu = kernbridge.inline(jax.nn.gelu)
    >>> @numba.njit
    ... def add_gelu(x, bias, out):
    ...     for i in range(out.size):
    ...         out[i] = gelu(x[i] + bias[i])
    >>> op = kernbridge.numba_kernel(add_gelu, lambda x, bias: x)
    >>> bool(jnp.allclose(op(jnp.ones(3), jnp.ones(3)), jax.nn.gelu(2.0)))
    True
    """
    if kinds.kind_of(function) not in ("function", "njit disabled", "callable", "operation"):
        raise TypeError(
            f"inline: `function` is {function!r} of type {type(function).__name__}, expected a "
            "function of JAX; kernels call functions of NumPy and Numba as they are [KB1001]"
        )
    return function if isinstance(function, InlinedFunction) else InlinedFunction(function)


def _type_of(inlined: InlinedFunction) -> Any:
    from kernbridge._ext.inline.translate import DTYPES
    from kernbridge._src.numba_common.private_numba import AbstractTemplate, as_dtype, errors, types

    class Inlined(AbstractTemplate):
        key = inlined

        def generic(self, args: Any, kws: Any) -> Any:
            if kws:
                raise errors.TypingError(
                    f"{inlined.label}: the call passes {', '.join(map(repr, kws))} by name; pass "
                    "scalars by position, and options to functools.partial before inline"
                )
            given = tuple(types.unliteral(a) for a in args)
            numbers = types.Boolean | types.Number
            dtypes = tuple(str(as_dtype(a)) if isinstance(a, numbers) else "" for a in given)
            for i, (dtype, a) in enumerate(zip(dtypes, given, strict=True)):
                if dtype not in DTYPES:
                    raise errors.TypingError(
                        f"{inlined.label}: argument {i} is {a}, expected a scalar of a type among "
                        f"{', '.join(sorted(DTYPES))}"
                    )
            try:
                translation = inlined.translation(dtypes)
            except NotInlined as e:
                raise errors.TypingError(str(e)) from None
            called = translation.in_derivative if in_derivative else None
            self._called = self.context.resolve_value_type(called or translation.jitted)
            return self._called.get_call_type(self.context, given, {})

        def get_impl_key(self, signature: Any) -> Any:
            return self._called.get_impl_key(signature)

    return types.Function(Inlined)


class _Forgetful(dict[bytes, Any]):
    """A table that remembers nothing: functions of another kernel may answer differently."""

    def __setitem__(self, identity: bytes, answers: Any) -> None:
        pass


class _Asked(Recipe[tuple[str, ...]]):
    """Which translations of inlined functions a kernel calls, before the kernel is compiled.

    The machine code of a kernel depends on these translations, so its identity contains their
    texts. For which types the kernel calls a function is known only after Numba has typed the
    kernel, but the identity is needed to find code that was compiled before. A list in the cache on
    disk therefore says what each kernel asked of its functions, and what types they returned.
    Numba's typing reads nothing but these types, so where all functions still return the same
    types, the list is complete. Otherwise, it is made again.
    """

    kind = "inlined"
    memory = _Forgetful

    def __init__(self, job: Any, described: tuple[Any, ...]) -> None:
        self._job = job
        self._functions: tuple[InlinedFunction, ...] = job.fingerprint.inlined
        code = job.fingerprint
        self.identity = identity_of(made="inlined", code=code, described=described, inlined=None)
        self.label, self.tool, self.name = job.label, job.tool, job.name
        self.lasting = not job.fingerprint.opaque

    def made_of(self) -> tuple[Any, ...]:
        return tuple(self._job.made_of())

    def make(self) -> Artefact:
        from kernbridge._src.numba_common.private_numba import linked

        names = {each.name for each in linked(self._job.libraries()) if NAMED in each.name}
        asked = []
        for i, function in enumerate(self._functions):
            for dtypes, made in sorted(function.translations.items()):
                if made.name in names:
                    try:
                        asked.append([i, [*dtypes], [*function.translation(dtypes).results]])
                    except NotInlined as e:
                        text = f"{self.label}: Numba cannot compile the kernel [KB4001]\n{e}"
                        raise KernelCompilationError(text) from None
        return Artefact({"asked": asked}, ())

    def use(self, made: Artefact) -> tuple[str, ...]:
        names = []
        for i, dtypes, results in made.meta["asked"]:
            try:
                found = self._functions[i].translation(tuple(dtypes))
            except NotInlined as e:
                raise ValueError from e
            if list(found.results) != list(results):
                raise ValueError  # the list is made again
            names.append(f"{i} {found.name}")
        return ("asked", *names)  # never empty, which the forge would take for nothing


def translations(job: Any, described: tuple[Any, ...]) -> tuple[str, ...]:
    """The names of the translations that a kernel calls, for what is `described`."""
    return obtain(_Asked(job, described))
