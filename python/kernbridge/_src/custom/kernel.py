"""`XLACustomKernel`: one operation with kernels for many backends, and rules for JAX.

JAX caches traced and compiled functions. The value of a JAX user context is part of the keys of
these caches. Here, it is the difference between the selection of backends now and when operations
were first used. A change therefore reaches functions that are already jitted, changing it back
reuses their compiled programs, and without changes there is no cost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any, Literal

import jax

from kernbridge._src.base import extensions, private_jax
from kernbridge._src.base.errors import KernelFallbackExhaustedError, coded
from kernbridge._src.base.lru import LRUCache
from kernbridge._src.base.private_jax import EVAL_TRACE, current_trace, is_part_of_program
from kernbridge._src.base.reports import hide_frames, hides_frames, warn
from kernbridge._src.calls.batch_axes import Arrays
from kernbridge._src.calls.call import Fields
from kernbridge._src.custom.primitive import Bound, exact_keywords, make, params_of
from kernbridge._src.custom.rules import RuleTable, lock
from kernbridge._src.keys.function_state import take
from kernbridge._src.numba_common import kinds
from kernbridge._src.operation import primitive
from kernbridge._src.operation import spec as specs
from kernbridge._src.operation.operation import as_html, as_operands, check_arrays
from kernbridge._src.operation.spec import ENZYME, FROM_SIGNATURE, OperationSpec, Outputs
from kernbridge._src.signatures.call_signature import CallSignature, own_names

CALLS_KEPT = 256  # jitted calls of one operation: outputs, keywords, kernels

_registry: dict[str, XLACustomKernel] = {}

PLATFORMS = ("cpu", "gpu", "tpu")
_ALIASES = {"cuda": "gpu", "rocm": "gpu"}
_OF_CUDA = ("numba_cuda", "cuda_raw")

_set_global = private_jax.new_user_context()
_selected: tuple[tuple[str, str], ...] = ()  # platforms and the backends of all operations there
_changed: dict[Any, Hashable] = {}  # operations, and how they differ from when they were first used


def platform_of(label: str, platform: object) -> str:
    name = _ALIASES.get(platform, platform) if isinstance(platform, str) else ""
    if name not in PLATFORMS:
        error = ValueError if isinstance(platform, str) else TypeError
        raise error(f"{label}: platform is {platform!r}, expected one of {PLATFORMS} [KB7006]")
    return name


def set_backend(platform: str | None, backend: str | None) -> None:
    """Choose the backend of all operations that have it, or leave each its own.

    If the platform is None, every operation is left its own on every platform.
    """
    global _selected
    with lock:
        selected = {} if platform is None else {**dict(_selected), platform: backend or ""}
        _selected = tuple(sorted((p, b) for p, b in selected.items() if b))
        _publish()


def get_backend(platform: str) -> str | None:
    return dict(_selected).get(platform)


def _publish() -> None:
    """Make JAX trace functions again, unless nothing differs from before; the lock is held."""
    state = (_selected, frozenset(_changed.items()))
    _set_global(state if any(state) else None)


@dataclass(frozen=True, eq=False)
class KernelEntry:
    """One kernel of an operation. Two entries are equal only if they are the same object.

    Attributes
    ----------
    backend : str
        Such as "numba".
    platform : str
        "cpu", "gpu" or "tpu".
    kernel_generator : callable
        A function that is called with the static keywords of a call and `outs`, and returns a
        function of the inputs.
    """

    __module__ = "kernbridge"

    backend: str
    platform: str
    kernel_generator: Callable[..., Any]


@dataclass(frozen=True)
class Choice:
    """The kernel of each platform that a call uses; part of what JAX caches."""

    entries: tuple[tuple[str, KernelEntry], ...]
    explicit: str | None = None

    def of(self, platform: str) -> KernelEntry | None:
        return dict(self.entries).get(platform)

    def __repr__(self) -> str:
        return " ".join(f"{p}:{e.backend}" for p, e in self.entries) or "none"


def _check_backend(name: str, backend: Any) -> None:
    if not isinstance(backend, str):
        raise TypeError(f"{name!r}: backend is {backend!r}, expected a string [KB7006]")
    if not backend:
        raise ValueError(f"{name!r}: backend is an empty string, expected a name or None [KB7006]")


def listed(kernels: Mapping[str, Mapping[str, KernelEntry]]) -> str:
    parts = [f"{', '.join(map(repr, by))} on {platform}" for platform, by in kernels.items()]
    return "; ".join(parts) or "no kernels at all"


class _Benchmark:
    """The method that measures an operation, which is a function of an extension."""

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        function = extensions.load("benchmark", "`benchmark_operation`").benchmark_operation
        return function if owner is None else MethodType(function, owner)


class XLACustomKernel(RuleTable):
    """One operation with kernels for several platforms and backends.

    Each kernel is defined by a generator, a function that is called with the static keywords of a
    call and `outs`, and that returns a function of the inputs. JAX traces the returned function;
    usually, it is an operation of `numba_kernel`, `numba_cuda_kernel` or a module built from
    source. The kernel of a call is chosen by the first of the following that is set: ``backend=``
    of the call, `config.set_backend`, `set_default`. Otherwise, it is the first kernel that was
    defined. A change takes effect at the next call, also in functions that were jitted before.

    Parameters
    ----------
    name : str
        The name in jaxprs, in messages and in `get_registry`.
    doc : str, optional
        What the operation does.
    signature : str, optional
        The inputs and outputs, such as ``"x: f32[n], w: f32 -> f32[n]"``; see `numba_kernel`. Every
        call is compared with it, needs no `outs`, and may pass inputs by name. Numbers are arrays
        without dimensions. A kernel that changes an array returns it: ``"v: f32[n] -> v"``.
    derivatives : {"enzyme"}, optional
        Let the kernels differentiate themselves, by Enzyme or by the rules of the operations that
        they call; for both modes, unless a rule is defined (docs/derivatives.md).

    Attributes
    ----------
    name : str
    signature : object or None
        It prints as the signature.
    primitive : jax.extend.core.Primitive
        The primitive that rules may bind, by ``primitive.bind(*inputs, outs=outs, **keywords)``.
    defaults : dict of str to str
        The default backend of each platform.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, numba, kernbridge
    >>> @numba.njit
    ... def scale(x, alpha, out):
    ...     for i in range(x.size):
    ...         out[i] = alpha * x[i]
    >>> def generator(*, outs, alpha):
    ...     return lambda x: kernbridge.numba_kernel(scale, outs)(x, alpha)
    >>> op = kernbridge.XLACustomKernel("doc_scale")
    >>> op.def_numba_kernel(generator)
    >>> op.def_jvp_rule2(lambda t, x, *, outs, alpha: op(t, outs=outs, alpha=alpha))
    >>> op.def_transpose_rule(
    ...     lambda ct, x, *, outs, alpha: op(ct[0], outs=outs, alpha=alpha)
    ... )
    >>> x = jnp.arange(3.0)
    >>> op(x, outs=x, alpha=2.0)
    Array([0., 2., 4.], dtype=float32)
    >>> jax.grad(lambda x: op(x, outs=x, alpha=2.0).sum())(x)
    Array([2., 2., 2.], dtype=float32)
    """

    __module__ = "kernbridge"

    @hides_frames
    def __init__(
        self,
        name: str,
        doc: str | None = None,
        *,
        signature: str | None = None,
        derivatives: Literal["enzyme"] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"XLACustomKernel: name is {name!r}, expected a string [KB8006]")
        if derivatives not in (None, ENZYME):
            raise ValueError(
                f"{name!r}: derivatives is {derivatives!r}, expected {ENZYME!r} or None; define a "
                "rule of your own with def_vjp_rule or def_jvp_rule [KB1007]"
            )
        super().__init__(name, derivatives == ENZYME)
        declared = CallSignature.read(repr(name), signature, None, own_names(signature), ())
        self.signature = declared and declared.with_arrays
        if self.signature is not None:
            self.__signature__ = self.signature.python
        self.__doc__ = doc or type(self).__doc__
        # The names with an underscore are read by programs that were written for BrainEvent.
        self.tags = self._tags = frozenset[str]()
        self.call_function: Callable[..., Any] | None = None
        self.benchmark_data: Callable[..., Any] | None = None
        self._call_fn: Callable[..., Any] | None = None
        self._benchmark_data_fn: Callable[..., Any] | None = None
        self._calls: LRUCache[Any] = LRUCache(CALLS_KEPT)
        self._kernels: dict[str, dict[str, KernelEntry]] = {}
        self._defaults: dict[str, str] = {}
        self._at_first_use: Any = None
        self._choices: dict[tuple[str | None, tuple[tuple[str, str], ...]], Choice] = {}
        self._told: set[tuple[str, str]] = set()
        self._checked: set[tuple[int, tuple[str, ...]]] = set()  # calls that rules can take
        self.primitive = make(self)
        register(name, self)

    def __repr__(self) -> str:
        described = f"({self.signature})" if self.signature else ""
        return f"<XLACustomKernel {self.name!r}{described}: {listed(self._kernels)}>"

    def _repr_html_(self) -> str:
        return as_html(f"XLACustomKernel {self.name!r}: {listed(self._kernels)}", self.signature)

    def __call__(self, /, *ins: Any, outs: Any = FROM_SIGNATURE, **kwargs: Any) -> Any:
        """Apply the operation.

        Parameters
        ----------
        *ins : array
        outs : pytree of jax.ShapeDtypeStruct
            Shape and dtype of each output, in JAX's order for generators and rules; a dict whose
            keys are not sorted is refused. By default, the signature describes them.
        backend : str, optional
            The kernel to use.
        **kwargs
            Static keywords, passed to generators and rules: numbers, texts, tuples of them.

        Returns
        -------
        pytree of arrays
            In the form of `outs`.

        Raises
        ------
        TypeError
            If an input is no array, a keyword is traced or cannot be hashed, or a rule or generator
            does not take these arguments.
        KernelFallbackExhaustedError
            If there is no such backend; when lowered, if there is no kernel for the platform.
        KernelCompilationError
            When lowered, if the generator or its kernel fails.
        """
        try:
            if self.signature is not None:
                self.signature.check_numbers(ins, kwargs)
                if kwargs or not ins:
                    named, kwargs = self.signature.split(ins, kwargs)
                    ins = tuple(named.values())
            exact = exact_keywords(self.name, kwargs)
            choice = self._choice(kwargs.get("backend"))
            bound = Bound(choice, exact)
            if current_trace() is not EVAL_TRACE:
                in_program = is_part_of_program(jax.tree.leaves(ins))  # then nothing is kept here
                look = self.watched.retrace_if_changed
                state = take(self._kernbridge_runs()) if in_program else look(self._calls.clear)
                if in_program or state.traced:
                    bound = replace(bound, outlives=in_program and bool(state.traced))
                    return self._bind(ins, self._spec(outs), bound, kwargs)
            key = (_as_key(repr(self.name), outs), exact, choice)
            call = self._calls.find_or_make(
                key, lambda: self._jitted(self._spec(outs), bound, kwargs)
            )
            try:
                return call(*ins)
            except TypeError:
                if not any(map(Fields.of, ins)):
                    check_arrays(repr(self.name), ins, {})
                raise
        except Exception as e:
            hide_frames(e)
            raise

    def _spec(self, outs: Any) -> OperationSpec:
        label = repr(self.name)
        if outs is not FROM_SIGNATURE:
            Outputs.of(label, outs).in_order(label, ())
        return OperationSpec(label, outs, signature=self.signature)

    def _bind(
        self, ins: Arrays, spec: OperationSpec, bound: Bound, keywords: dict[str, Any]
    ) -> Any:
        if self.signature is not None:
            ins, _ = self.signature.bind(ins, {})
        operands, types = as_operands(repr(self.name), ins)
        outputs = spec.outputs_for(types, {})
        params = params_of(self, len(operands), outputs, bound, keywords)
        private_jax.let_checkify_see(self.primitive)
        return outputs.unflatten(self.primitive.bind(*primitive.match_varying(operands), **params))

    def _jitted(self, spec: OperationSpec, bound: Bound, keywords: dict[str, Any]) -> Any:
        def call(*ins: Any) -> Any:
            return self._bind(ins, spec, bound, keywords)

        call.__name__ = call.__qualname__ = self.name
        return jax.jit(call, inline=True)

    def _choice(self, backend: str | None) -> Choice:
        """Return the kernels of a call with this ``backend=``, the same object each time.

        Without it, a call uses the selected backend, or else the default.
        """
        key = backend, _selected
        known = self._choices.get(key)
        if known is None:
            with lock:
                known = self._choices.setdefault(key, self._choose(*key))
                if self._at_first_use is None:
                    self._at_first_use = self._state()
        return known

    def _choose(self, explicit: Any, selected: tuple[tuple[str, str], ...]) -> Choice:
        kernels = self._kernels
        if explicit is not None:
            _check_backend(self.name, explicit)
            found = [(p, by[explicit]) for p, by in kernels.items() if explicit in by]
            if not found:
                raise KernelFallbackExhaustedError(
                    f"{self.name!r} has no backend {explicit!r}; it has {listed(kernels)}. Define "
                    "it with def_kernel, or omit backend= [KB7006]"
                )
            return Choice(tuple(found), explicit)
        wanted, entries = dict(selected), []
        for platform, by in kernels.items():
            backend = wanted.get(platform)
            entries.append((platform, by[backend if backend in by else self._defaults[platform]]))
        return Choice(tuple(entries))

    def _state(self) -> Any:
        kernels = tuple(e for by in self._kernels.values() for e in by.values())
        return kernels, tuple(sorted(self._defaults.items())), self._rules_version

    def _functions(self) -> specs.Functions:
        named = [(f"{e.backend} on {e.platform}", e.kernel_generator) for e in self._state()[0]]
        return self._kernbridge_runs() + named

    def _change(self) -> None:
        self._choices.clear()
        self._checked.clear()
        state = self._state()
        if self._at_first_use is not None:
            _changed.pop(self, None)
            if state != self._at_first_use:
                _changed[self] = state
            _publish()

    def _tell_ignored(self, choice: Choice, platform: str) -> None:
        """Warn, once, of a selected backend that this operation does not have."""
        backend, used = get_backend(platform), choice.of(platform)
        if backend is None or used is None or choice.explicit is not None:
            return
        if backend not in self._kernels[platform] and (platform, backend) not in self._told:
            self._told.add((platform, backend))
            warn(
                f"{self.name!r}: ignoring the backend {backend!r} that config.set_backend chose "
                f"for {platform}, which this operation does not have; it uses {used.backend!r} "
                "[KB7007]"
            )

    def _check_known(self, n_inputs: int, keywords: Sequence[str]) -> None:
        """Check rules and generators as far as inputs and keywords allow."""
        call = n_inputs, tuple(keywords)
        if call in self._checked:
            return
        given = [k for k in keywords if k != "backend"]
        expected = f"({', '.join(f'{k}=...' for k in given)})"
        for entry in self._state()[0]:
            what = f"the generator of backend {entry.backend!r}"
            specs.check_rule(repr(self.name), what, entry.kernel_generator, expected, 0, given)
        self.check_rules_take(n_inputs, keywords)
        self._checked.add(call)

    def _entry(self, platform: str, choice: Choice) -> KernelEntry:
        # It may have been defined after the call was traced.
        if entry := choice.of(platform) or self._choice(choice.explicit).of(platform):
            return entry
        kernels, explicit = self._kernels, choice.explicit
        if platform == "cpu" and (explicit is not None or platform not in kernels):
            on_gpu = kernels.get("gpu", {})
            for backend in (explicit,) if explicit else (self._defaults.get("gpu"), *_OF_CUDA):
                if backend in _OF_CUDA and backend in on_gpu:
                    return on_gpu[backend]  # CUDA kernels run on the CPU, too
        if explicit is not None and platform in kernels:
            raise KernelFallbackExhaustedError(
                f"{self.name!r} has no backend {explicit!r} on {platform}; it has "
                f"{listed(kernels)}. Omit backend=, or define it with def_kernel [KB7006]"
            )
        raise self._no_kernel(platform)

    def _no_kernel(self, platform: str) -> KernelFallbackExhaustedError:
        method = {"cpu": "def_numba_kernel or def_cpp_kernel", "gpu": "def_numba_cuda_kernel"}.get(
            platform, "def_pallas_kernel or def_kernel"
        )
        message = (
            f"{self.name!r} was lowered for {platform}, where it has no kernel; it has "
            f"{listed(self._kernels)}. Define one with {method}, or commit its inputs to another "
            "device, jax.device_put(x, device)"
        )
        return KernelFallbackExhaustedError(coded(message, "KB7001"))

    @hides_frames
    def def_kernel(
        self, backend: str, platform: str, kg: Callable[..., Any], asdefault: bool = False
    ) -> None:
        """Define the kernel of a backend on a platform; the first of a platform is its default.

        Parameters
        ----------
        backend : str
            A name, such as "numba".
        platform : str
            "cpu", "gpu" or "tpu".
        kg : callable
            ``kg(outs=..., **keywords)`` returns a function of the inputs that returns the outputs.
        asdefault : bool, default False
            Make it the platform's default.

        Raises
        ------
        TypeError
            If `backend` or `platform` is no text, or `kg` cannot be called.
        ValueError
            If `backend` is empty, or `platform` is unknown.
        """
        _check_backend(self.name, backend)
        platform = platform_of(repr(self.name), platform)
        if kinds.kind_of(kg) not in ("function", "njit disabled", "callable"):
            raise TypeError(
                f"{self.name!r}: the generator of backend {backend!r} is {kg!r}, expected a "
                "function of `outs` and the keywords that returns an operation: lambda outs: "
                "numba_kernel(kernel, outs) [KB8006]"
            )
        with lock:
            by = self._kernels.setdefault(platform, {})
            if backend not in by or by[backend].kernel_generator is not kg:
                by[backend] = KernelEntry(backend, platform, kg)
            if asdefault or platform not in self._defaults:
                self._defaults[platform] = backend
            self._change()

    @hides_frames
    def def_numba_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "numba" on "cpu"; see `def_kernel`."""
        self.def_kernel("numba", "cpu", kg, asdefault)

    @hides_frames
    def def_cpp_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "cpp" on "cpu", of `load_cpp_inline`; see `def_kernel`."""
        self.def_kernel("cpp", "cpu", kg, asdefault)

    @hides_frames
    def def_numba_cuda_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "numba_cuda" on "gpu"; see `def_kernel`."""
        self.def_kernel("numba_cuda", "gpu", kg, asdefault)

    @hides_frames
    def def_cuda_raw_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "cuda_raw" on "gpu", of CUDA source; see `def_kernel`."""
        self.def_kernel("cuda_raw", "gpu", kg, asdefault)

    @hides_frames
    def def_warp_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "warp" on "gpu"; see `def_kernel`.

        The generator uses Warp's own `jax_kernel`. Under vmap it runs slice by slice.
        """
        self.def_kernel("warp", "gpu", kg, asdefault)

    @hides_frames
    def def_triton_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "triton" on "gpu", of jax-triton; see `def_kernel`."""
        self.def_kernel("triton", "gpu", kg, asdefault)

    @hides_frames
    def def_pallas_kernel(
        self, platform: str, kg: Callable[..., Any], asdefault: bool = False
    ) -> None:
        """Define the kernel of backend "pallas" on "gpu" or "tpu"; see `def_kernel`."""
        if platform_of(repr(self.name), platform) == "cpu":
            raise ValueError(
                f"{self.name!r}: Pallas has kernels for 'gpu' and 'tpu', not for {platform!r}; "
                "with interpret=True, define it with def_kernel('pallas', 'cpu', ...) [KB7006]"
            )
        self.def_kernel("pallas", platform, kg, asdefault)

    @hides_frames
    def set_default(self, platform: str, backend: str) -> None:
        """Choose the backend that a platform uses if nothing else is asked for.

        Raises
        ------
        ValueError
            If the operation has no such backend there.
        """
        where = platform_of(repr(self.name), platform)
        with lock:
            if backend not in self._kernels.get(where, {}):
                raise ValueError(
                    f"{self.name!r} has no backend {backend!r} on {where}; it has "
                    f"{listed(self._kernels)} [KB7006]"
                )
            self._defaults[where] = backend
            self._change()

    def get_default(self, platform: str) -> str | None:
        """Return the default backend of a platform, or None."""
        return self._defaults.get(_ALIASES.get(platform, platform))

    @property
    def defaults(self) -> dict[str, str]:
        return dict(self._defaults)

    def available_backends(self, platform: str) -> list[str]:
        """Return the backends of a platform, in the order of their definition; [] if none."""
        return list(self._kernels.get(_ALIASES.get(platform, platform), {}))

    @hides_frames
    def def_call(self, fn: Callable[..., Any]) -> None:
        """Define the function that users call, and that `benchmark` measures.

        Parameters
        ----------
        fn : callable
            Takes the user's arguments and ``backend=None``, and calls the operation.
        """
        self.call_function = self._call_fn = fn

    @hides_frames
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function that was passed to `def_call`.

        Raises
        ------
        ValueError
            If there is none.
        """
        if self.call_function is None:
            raise ValueError(
                f"{self.name!r} has no function to call; define one with def_call [KB8006]"
            )
        return self.call_function(*args, **kwargs)

    @hides_frames
    def def_tags(self, *tags: str) -> None:
        """Replace the tags by which `get_primitives_by_tags` finds the operation."""
        for tag in tags:
            if not isinstance(tag, str):
                raise TypeError(f"{self.name!r}: tag {tag!r} is not a string [KB8006]")
        self.tags = self._tags = frozenset(tags)

    @hides_frames
    def def_benchmark_data(self, fn: Callable[..., Any]) -> None:
        """Define what `benchmark` measures.

        Parameters
        ----------
        fn : callable
            ``fn(platform=...)`` returns a list of `BenchmarkConfig`.
        """
        self.benchmark_data = self._benchmark_data_fn = fn

    benchmark = _Benchmark()


def _as_key(label: str, outs: Any) -> Any:
    """Return a key for `outs`, which is cheap for its usual forms."""
    if type(outs) is jax.ShapeDtypeStruct or outs is FROM_SIGNATURE:
        return outs
    if type(outs) in (tuple, list) and all(type(o) is jax.ShapeDtypeStruct for o in outs):
        return (type(outs), *outs)
    return Outputs.of(label, outs)


def register(name: str, op: XLACustomKernel) -> None:
    """Enter an operation in the registry, which holds the latest of each name."""
    if _registry.get(name, op) is not op:
        warn(
            f"XLACustomKernel: an operation named {name!r} is already registered; the new one "
            "replaces it in the registry [KB8007]"
        )
    _registry[name] = op


def get_registry() -> dict[str, XLACustomKernel]:
    """Return all operations by name. If several have the same name, the newest is returned."""
    return dict(_registry)


def get_primitives_by_tags(tags: Collection[str]) -> dict[str, XLACustomKernel]:
    """Return the operations that have all these tags, by name.

    Raises
    ------
    TypeError
        If `tags` is a text; give a set of them.
    """
    if isinstance(tags, str):
        raise TypeError(
            f"get_primitives_by_tags: tags is {tags!r}, expected a set of strings [KB1005]"
        )
    return {name: op for name, op in _registry.items() if op.tags.issuperset(tags)}


def get_all_primitive_names() -> list[str]:
    """Return the names of all operations, sorted."""
    return sorted(_registry)


__test__ = {"XLACustomKernel": XLACustomKernel}  # whose __module__ is `kernbridge`
