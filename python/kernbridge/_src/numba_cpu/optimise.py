"""LLVM's optimisation of what Numba has linked, in a context of LLVM of its own.

Numba optimises in the one context that it has, under its lock. A module in another context is
optimised by any thread, while others compile. The passes are Numba's. Imported only when a kernel
is compiled, since it imports Numba.
"""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

from kernbridge._src.base.patched import replace
from kernbridge._src.numba_common import cpu_features, private_llvmlite, vector_math
from kernbridge._src.numba_common.private_llvmlite import binding
from kernbridge._src.numba_common.private_numba import config


def is_possible() -> bool:
    """Return whether no setting concerns all of LLVM."""
    return bool(config.LLVM_REFPRUNE_PASS and not config.LLVM_PASS_TIMINGS)


def with_vectors(module: Any, codegen: Any, context: Any = None) -> Any:
    """Return a module whose loops may call libmvec, in a context of LLVM (None: that of Numba).

    The given module is linked but not yet optimised. It is returned if nothing changes.
    """
    if not vector_math.provided():
        return module
    features, _ = cpu_features.known(codegen.magic_tuple()[2])
    text = str(module)
    changed = vector_math.with_vectors(text, features)
    if changed == text:
        return module
    binding.load_library_permanently(vector_math.LIBRARY)  # for code that stays here
    changed_module = binding.parse_assembly(changed, context)
    changed_module.name = module.name
    return changed_module


class Unoptimised:
    """The module of a library that Numba has linked. Made under Numba's lock."""

    def __init__(self, library: Any, has_vector_math: bool) -> None:
        module = library._final_module
        self._name, self._bitcode = module.name, module.as_bitcode()
        self._library_type, self._timings = type(library), library._recorded_timings
        self._codegen = library.codegen
        self._has_vector_math = has_vector_math

    def optimised(self) -> str:
        """Optimise it; the text of the module."""
        context = binding.create_context()
        module = binding.parse_bitcode(self._bitcode, context)
        if self._has_vector_math:
            module = with_vectors(module, self._codegen, context)
        machine = self._machine()
        library = SimpleNamespace(
            _codegen=_Codegen(self._codegen, machine),
            _final_module=module,
            _recorded_timings=self._timings,
        )
        self._library_type._optimize_final_module(library)
        module.name = self._name
        module.verify()
        self._bitcode = b""  # to be called once
        return str(module)

    def _machine(self) -> Any:
        """A target machine like Numba's, which one thread may use at a time."""
        options: dict[str, Any] = {"opt": config.OPT}
        self._codegen._customize_tm_options(options)
        return binding.Target.from_triple(binding.get_process_triple()).create_target_machine(
            **options
        )


class _Codegen:
    """Numba's code generator with another target machine, whose passes run without a lock."""

    def __init__(self, codegen: Any, machine: Any) -> None:
        self._original = copy.copy(codegen)
        replace(self._original, "_tm", machine)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def _module_pass_manager(self, **options: Any) -> tuple[Any, Any]:
        manager, builder = self._original._module_pass_manager(**options)
        return _Manager(manager), builder


class _Manager:
    """A pass manager that runs once."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def run(self, module: Any, builder: Any) -> None:
        private_llvmlite.run_once(self._manager, module, builder, locked=False)
