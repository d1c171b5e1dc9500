"""Tuples, named tuples, enumerations and records as arguments of launches that are recorded."""

import enum

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")

from argument_kinds import CASES, CELL, F32, THREE, WORDS, Mode, S, of_cells, of_one_cell  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("gpu")]


def wrap(function, outs, **options):
    return kernbridge.numba_cuda_callable(function, outs, record="always", **options)


@pytest.mark.brief
@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_arguments_of_these_kinds_are_recorded(gpu, case):
    op = wrap(case.function, case.outs)
    inputs = tuple(map(jnp.asarray, case.inputs))
    for found, expected in zip(jax.jit(op)(*inputs), case.expected, strict=True):
        np.testing.assert_array_equal(found, expected)
    before = len(gpu.launches)
    batch = [jnp.stack([x, x, x]) for x in inputs]
    for found, expected in zip(jax.vmap(op)(*batch), case.expected, strict=True):
        np.testing.assert_array_equal(found, np.stack([expected] * 3))
    grids = {tuple(launch.grid) for launch in gpu.launches[before:]}
    assert grids == {(1, 1, 3)}  # the batch in z, although arrays are in tuples


def test_the_plan_has_the_words_of_the_members():
    case = CASES[0]
    plan = str(wrap(case.function, case.outs).plan(*case.inputs))
    assert "launch of_tuples[(1, 1, 1), (32, 1, 1)](&b0, 5, &b1, 5, &b3, 5, 2, " in plan


def test_members_of_an_enumeration_need_no_new_compile():
    from kernbridge._src.base import lru

    @cuda.jit
    def is_copied(mode, out):
        out[0] = mode == Mode.COPY

    def ask(mode):
        return lambda out, stream: is_copied[1, 1, stream](mode, out)

    for mode in Mode:
        (found,) = wrap(ask(mode), S((1,), F32))()
        assert found == (mode is Mode.COPY)
    assert len(lru.attached_to(is_copied, "functions", dict)) == 1


def test_keyword_scalars_in_tuples():
    @cuda.jit
    def affine(x, factors, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] * factors[0] + factors[1]

    def launch(x, a, out, stream):
        affine[1, 32, stream](x, (a, 1.0), out)

    op = wrap(launch, S((3,), F32))
    x = jnp.arange(3, dtype=F32)
    for a in (2.0, 3.0):
        np.testing.assert_array_equal(op(x, a=a), a * np.arange(3) + 1)


def test_an_input_in_a_tuple_that_is_written_gets_a_copy():
    @cuda.jit
    def add_to_both(arrays):
        i = cuda.grid(1)
        for array in arrays:
            if i < array.size:
                cuda.atomic.add(array, i, 1)

    def launch(x, out, stream):
        out[:] = x
        add_to_both[1, 32, stream]((x, out))

    x = jnp.arange(4, dtype=F32)
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"\[KB4003\]"):
        out = wrap(launch, S((4,), F32))(x)
    np.testing.assert_array_equal(out, np.arange(4) + 1)
    np.testing.assert_array_equal(x, np.arange(4))


def test_a_record_of_an_input_gets_a_copy():
    def launch(words, out, stream):
        of_one_cell[1, 1, stream](words.view(CELL).reshape(3)[1], out)

    with pytest.warns(kernbridge.KernbridgeWarning, match=r"input 0.*\(words\).*\[KB4003\]"):
        out = wrap(launch, S((1,), F32))(jnp.asarray(WORDS))
    np.testing.assert_array_equal(out, THREE["matrix"][1, 1, 2] * THREE["n"][1])


class Name(enum.Enum):
    FIRST = "first"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("text", "a kernel argument of type str"),
        ((1, (2, None)), "a kernel argument of type NoneType, in a tuple"),
        ([1, 2], "a kernel argument of type list; pass a tuple"),
        (Name.FIRST, "the member FIRST of the enumeration Name, whose value is a str"),
    ],
)
def test_other_arguments_are_refused_by_type(value, words):
    def launch(x, out, stream):
        of_cells[1, 1, stream](value, out)

    with pytest.raises(kernbridge.KernelError, match=r"\[KB4012\]") as e:
        wrap(launch, S((4,), F32))(jnp.ones(4))
    assert words in str(e.value), e.value


def test_a_record_has_no_fields_while_it_is_recorded():
    def launch(words, out, stream):
        out[:] = words.view(CELL).reshape(3)[1]["n"]

    with pytest.raises(kernbridge.KernelError, match=r"'n'.*\[KB4012\]"):
        wrap(launch, S((4,), F32))(jnp.asarray(WORDS))
