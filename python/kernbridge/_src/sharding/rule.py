"""`ShardingRule`: which part of its inputs a kernel needs to compute a part of its outputs.

A rule names dimensions: "i j, j -> i" states that a block of rows of the output depends only on the
same block of rows of the first input.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernbridge._src.base.errors import counted
from kernbridge._src.base.reports import hides_frames
from kernbridge._src.calls.call import ArrayType, Term, Terms, Types

LEADING = "..."
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\+[0-9]+)?")
_EXPECTED = (
    'expected the names of dimensions as in "i j, j -> i": one term for each input, then "->" and '
    "one for each output"
)


@dataclass(frozen=True)
class ShardingRule:
    """Declares the dimensions along which the call of a kernel may be split among devices.

    Parameters
    ----------
    rule : str
        The names of the dimensions of every input, then ``->``, then those of every output, in the
        order of the kernel's parameters and in Shardy's notation, such as ``"i j, j -> i"`` for the
        product of a matrix and a vector. Arrays are separated by commas, names by spaces. A term
        may begin with ``...``, which stands for the same leading dimensions wherever it occurs.
        Keyword scalars have no term.

        The rule promises the following: if the kernel is called with one part of each array along a
        name, the same part for all arrays, it computes this part of the outputs. A name that an
        output lacks is contracted, and a name that every input lacks is computed as a whole.
        Neither is split. A dimension ``i+1`` of an input has one element more than ``i``. It is
        whole on every device, which passes the part that begins where its part along ``i`` begins,
        and has one element more: the rows of a CSR matrix are those between two elements of
        ``indptr``.
    reduce : "sum" or dict of str to "sum", optional
        Promises that an output that lacks a contracted name is the sum of the results for the parts
        along that name. Contracted dimensions are then split as well, and the partial results are
        added in one all-reduce. "sum" applies to every contracted name.

    Raises
    ------
    TypeError, ValueError
        If the notation is wrong, or `reduce` contains a name that is not contracted.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, numba, kernbridge
    >>> @numba.njit
    ... def matvec(a, x, y):
    ...     for i in range(a.shape[0]):
    ...         y[i] = 0
    ...         for j in range(a.shape[1]):
    ...             y[i] += a[i, j] * x[j]
    >>> op = kernbridge.numba_kernel(
    ...     matvec,
    ...     lambda a, x: jax.ShapeDtypeStruct(a.shape[:1], a.dtype),
    ...     sharding_rule=kernbridge.ShardingRule("i j, j -> i", reduce="sum"),
    ... )
    >>> op(jnp.ones((2, 3)), jnp.arange(3.0))
    Array([3., 3.], dtype=float32)
    """

    __module__ = "kernbridge"

    rule: str
    reduce: Any = None

    @hides_frames
    def __post_init__(self) -> None:
        if not isinstance(self.rule, str) or self.rule.count("->") != 1:
            kind = ValueError if isinstance(self.rule, str) else TypeError
            raise kind(f"the sharding rule is {self.rule!r}, {_EXPECTED} [KB6001]")
        object.__setattr__(self, "rule", re.sub(r"\s*\+\s*", "+", self.rule))
        for term in (*self.inputs, *self.outputs):
            self._check_term(term)
        if any("+" in name for term in self.outputs for name in term):
            raise ValueError(
                f"the sharding rule {self.rule!r} has a sum in an output; only inputs may have a "
                "dimension that is longer than a name [KB6001]"
            )
        object.__setattr__(self, "reduce", self._read_reduce())

    def _check_term(self, term: Term) -> None:
        for i, name in enumerate(term):
            if name == LEADING and i == 0:
                continue
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"the sharding rule {self.rule!r} has the name {name!r}, {_EXPECTED} [KB6001]"
                )
            if name in term[:i]:
                raise ValueError(
                    f"the sharding rule {self.rule!r} names {name!r} twice in the term "
                    f"{' '.join(term)!r}; give the two dimensions different names [KB6001]"
                )

    def _read_reduce(self) -> tuple[tuple[str, str], ...]:
        contracted = self.contracted
        given = self.reduce
        if given is None:
            return ()
        if isinstance(given, tuple):  # a copy of another rule
            given = dict(given)
        if not isinstance(given, Mapping):
            given = dict.fromkeys(contracted, given)
            if not given:
                raise ValueError(
                    f"the sharding rule {self.rule!r} has no contracted dimension (one that an "
                    f"output lacks), so reduce={self.reduce!r} does not apply [KB6001]"
                )
        for name, how in given.items():
            if name not in contracted:
                known = ", ".join(contracted) or "none"
                raise ValueError(
                    f"reduce names {name!r}, which is not contracted in the sharding rule "
                    f"{self.rule!r}; its contracted dimensions are {known} [KB6001]"
                )
            if how != "sum":
                raise ValueError(f"reduce is {how!r} for {name!r}, expected 'sum' [KB6001]")
        return tuple(sorted(given.items()))

    @property
    def inputs(self) -> tuple[Term, ...]:
        return self._side(0)

    @property
    def outputs(self) -> tuple[Term, ...]:
        return self._side(1)

    def _side(self, index: int) -> tuple[Term, ...]:
        return tuple(tuple(term.split()) for term in self.rule.split("->")[index].split(","))

    @property
    def contracted(self) -> tuple[str, ...]:
        names = sorted({name for term in self.inputs for name in term if _NAME.fullmatch(name)})
        lacking = (n for n in names if any(n not in term for term in self.outputs))
        return tuple(n for n in lacking if "+" not in n)

    @staticmethod
    def of(label: str, given: Any, aliases: Sequence[tuple[int, int]]) -> ShardingRule | None:
        """The user's rule, checked as far as it can be without arrays."""
        if given is None:
            return None
        try:
            rule = given if isinstance(given, ShardingRule) else ShardingRule(given)
        except (TypeError, ValueError) as e:
            raise type(e)(f"{label}: {e}") from None
        for i, o in aliases:
            if i < len(rule.inputs) and o < len(rule.outputs):
                rule._check_alias(label, i, o)
        return rule

    def _check_alias(self, label: str, i: int, o: int) -> None:
        term = self.outputs[o]
        if self.inputs[i] != term:
            raise ValueError(
                f"{label}: input_output_aliases maps input {i} to output {o}, and the sharding "
                f"rule {self.rule!r} names their dimensions {' '.join(self.inputs[i])!r} and "
                f"{' '.join(term)!r}; use the same term for both, since they share memory [KB6001]"
            )
        if added := [name for name, _ in self.reduce if name not in term]:
            raise ValueError(
                f"{label}: output {o} is a sum over {', '.join(map(repr, added))} by the sharding "
                f"rule {self.rule!r}, and starts as input {i} because of input_output_aliases, so "
                "that the input would be added once for each device; add it outside of the "
                "kernel [KB6001]"
            )

    def terms(self, label: str, inputs: Types, n_scalars: int, outs: Types) -> Terms:
        """The terms of a call's operands and outputs; ValueError if they do not fit the arrays."""
        left = () if not inputs and self.inputs == ((),) else self.inputs
        right = () if not outs and self.outputs == ((),) else self.outputs
        for what, arrays, terms in (("input", inputs, left), ("output", outs, right)):
            if len(arrays) != len(terms):
                raise ValueError(
                    f"{label}: the sharding rule {self.rule!r} has "
                    f"{counted(len(terms), f'{what} term')}, but the call has "
                    f"{counted(len(arrays), what)} [KB6001]"
                )
        places = [f"input {i}" for i in range(len(inputs))]
        places += [f"output {i}" for i in range(len(outs))]
        expanded, leading, sizes = [], None, dict[str, tuple[Any, str]]()
        for place, array, term in zip(places, (*inputs, *outs), (*left, *right), strict=True):
            full, leading = self._expand(label, place, array, term, leading)
            expanded.append(full)
            for name, size in zip(full, array.shape, strict=True):
                first, where = sizes.setdefault(name, (size, place))
                if first != size:
                    raise ValueError(
                        f"{label}: the sharding rule {self.rule!r} names a dimension {name!r} in "
                        f"{where} and {place}, which has {first} elements in the first and {size} "
                        "in the second; dimensions with the same name must have the same size "
                        "[KB6001]"
                    )
        for name, (size, place) in sizes.items():
            base, _, more = name.partition("+")
            if more and base in sizes and size != sizes[base][0] + int(more):
                raise ValueError(
                    f"{label}: the sharding rule {self.rule!r} names a dimension {name!r} in "
                    f"{place}, which has {size} elements, and {base!r} has {sizes[base][0]}; pass "
                    f"{sizes[base][0] + int(more)} [KB6001]"
                )
        result = Terms(
            (*expanded[: len(inputs)], *[()] * n_scalars),
            tuple(expanded[len(inputs) :]),
            sums=tuple(name for name, _ in self.reduce),
        )
        for i, (t, term) in enumerate(zip(outs, result.outs, strict=True)):
            if t.dtype.name == "bool" and set(result.sums) - set(term):
                raise ValueError(
                    f"{label}: output {i} is {t}, which cannot be summed by the sharding rule "
                    f"{self.rule!r} with reduce='sum'; remove reduce [KB6001]"
                )
        return result

    def _expand(
        self, label: str, place: str, array: ArrayType, term: Term, leading: int | None
    ) -> tuple[Term, int | None]:
        """A term with a name for each leading dimension, and the number of these dimensions."""
        rank = len(array.shape)
        own = term[1:] if term[:1] == (LEADING,) else term
        n = rank - len(own)
        if own is term and n == 0:
            return term, leading
        if own is term or n < 0 or leading not in (None, n):
            again = f", where ... stood for {leading} before" if leading not in (None, n) else ""
            raise ValueError(
                f"{label}: the sharding rule {self.rule!r} describes {place} as "
                f"{' '.join(term)!r}{again}, but it is {array} of rank {rank} [KB6001]"
            )
        return (*(f"{LEADING}{i}" for i in range(n)), *own), n


__test__ = {"ShardingRule": ShardingRule}  # whose __module__ is `kernbridge`
