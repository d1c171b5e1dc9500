"""`kernbridge inspect module:op`: prints the code and the resources of an operation's kernels."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernbridge._src.base import settings
from kernbridge._src.base.errors import KernbridgeError
from kernbridge._src.gpu.occupancy import occupancy
from kernbridge._src.operation.inspection import Inspection
from kernbridge._src.source.frontend import Export
from kernbridge._src.toolchain import architectures
from kernbridge._src.tools import inspected, inspected_source
from kernbridge._src.tools.inspected_source import SourceInspection
from kernbridge._src.tools.printing import (
    Block,
    Cell,
    Code,
    CommandError,
    Lines,
    Output,
    Pairs,
    size,
)

_TEXTS = {  # options, with the platform and the attribute of an Inspection, and the language
    "asm": ("cpu", "assembly", "gas", "print the assembly of a CPU kernel"),
    "llvm": ("", "llvm_ir", "llvm", "print the LLVM IR"),
    "ptx": ("cuda", "assembly", "ptx", "print the PTX of a CUDA kernel"),
    "sass": (
        "cuda",
        "sass",
        "gas",
        "print the machine code of a CUDA kernel, if nvdisasm is found",
    ),
}


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to those of `kernbridge`."""
    command = commands.add_parser(
        "inspect",
        parents=[common],
        help="print the registers, the occupancy and the code of an operation's kernels",
        description="Imports a module or a file, and compiles the kernels of an operation in it "
        "for arrays of given shapes, or for those of the calls that are made by importing it. "
        "Neither a GPU nor a call is needed.",
    )
    command.add_argument("target", metavar="module:op", help="or path/of/a/file.py:op")
    command.add_argument(
        "--args",
        metavar="ARGS",
        help="inputs, and scalars by name: 'float32[1024], int32[8,8], alpha=float32, n=3'",
    )
    command.add_argument(
        "--arch", metavar="ARCH", help="compile CUDA kernels for this GPU, such as sm_90"
    )
    for option, (_, _, _, what) in _TEXTS.items():
        command.add_argument(f"--{option}", action="store_true", help=what)
    command.set_defaults(run=_run, parser=command)


def _run(chosen: argparse.Namespace, output: Output) -> int:
    try:
        chosen_for = architectures.read(chosen.arch, "--arch") if chosen.arch else None
        given = None if chosen.args is None else inspected.read_arguments(chosen.args)
    except (KernbridgeError, ValueError) as e:
        chosen.parser.error(str(e))
    if chosen_for is not None and len(chosen_for) > 1:
        chosen.parser.error(f"--arch: {chosen.arch!r} contains several architectures, expected one")
    texts = [option for option in _TEXTS if getattr(chosen, option)]
    with _compiling_for(chosen_for):
        try:
            operation, traced = inspected.find(chosen.target)
        except inspected.NothingThere as e:
            chosen.parser.error(str(e))
        if isinstance(operation, Export):
            return _of_source(chosen, texts, inspected_source.look_at(operation), output)
        try:
            calls = inspected.calls(chosen.target, operation, traced, given)
        except (KernbridgeError, ValueError, TypeError) as e:
            raise CommandError(str(e)) from e
    output.answer |= {"target": chosen.target, "kernels": []}
    for arguments, inspections in calls:
        if not inspections:
            raise CommandError(
                f"{chosen.target} for {arguments} has no kernels to inspect: it runs as Python"
            )
    for arguments, inspection in ((text, i) for text, found in calls for i in found):
        code = {option: _text(inspection, option) for option in texts}
        share = _occupancy(inspection)
        output.show(*_blocks(arguments, inspection, share, code))
        output.answer["kernels"].append(_as_dict(arguments, inspection, share, code))
    return 0


def _of_source(
    chosen: argparse.Namespace, texts: list[str], found: SourceInspection, output: Output
) -> int:
    """Print a function of a C, C++ or CUDA module, which has one code for all arguments."""
    code = {option: _text_of_source(found, option) for option in texts}
    rows: list[tuple[str, Cell]] = [
        ("signature", found.signature),
        ("annotation", found.annotation),
        ("platform", found.platform),
        ("library", found.library),
        ("built by", found.command or "another program"),
        ("symbol", found.symbol or "not known without objdump"),
    ]
    lines = {} if found.assembly is None else {"asm": len(found.assembly.splitlines())}
    rows += [(name, f"{n} lines") for name, n in lines.items()]
    output.show(Pairs(found.name, rows), *_shown(code))
    kernel = {**found._asdict(), "lines": lines, "code": code}
    del kernel["assembly"]
    output.answer |= {"target": chosen.target, "kernels": [kernel]}
    return 0


def _text_of_source(found: SourceInspection, option: str) -> str:
    if option != "asm":
        other = f"; cuobjdump -{option} {found.library} prints what its kernels have"
        raise CommandError(
            f"--{option}: {found.name} was compiled by another program, which does not keep "
            f"it{other if found.platform == 'cuda' and option != 'llvm' else ''}"
        )
    if found.assembly is None:
        raise CommandError("--asm: objdump was not found; install binutils, or put it on the PATH")
    return found.assembly


def _shown(code: dict[str, str]) -> Iterator[Block]:
    for option, text in code.items():
        yield Lines([("", "")])
        yield Code(text, _TEXTS[option][2])


@contextmanager
def _compiling_for(chosen: Any) -> Iterator[None]:
    """Compile CUDA kernels for the architectures that are named, if there are any."""
    before = settings.architectures
    settings.architectures = chosen or before
    try:
        yield
    finally:
        settings.architectures = before


def _text(inspection: Inspection, option: str) -> str:
    """The code that an option selects."""
    platform, attribute, _, _ = _TEXTS[option]
    if platform not in ("", inspection.platform):
        other = "--ptx or --sass" if platform == "cpu" else "--asm, and that for a GPU with --arch"
        raise CommandError(
            f"--{option}: {inspection.name!r} was compiled for {inspection.platform}; "
            f"its code is printed by {other}"
        )
    text = getattr(inspection, attribute)
    if text is None:
        raise CommandError(
            f"--{option}: no nvdisasm was found; put the one of CUDA's toolkit on the PATH, or set "
            "CUDA_HOME to the toolkit's folder"
        )
    return str(text)


def _occupancy(inspection: Inspection) -> float | None:
    """The driver's answer, or the one that is computed from the limits of the architecture."""
    known = inspection.registers is not None and inspection.block is not None
    if inspection.occupancy is not None or not known:
        return inspection.occupancy
    assert inspection.block is not None
    assert inspection.registers is not None
    threads = 1
    for n in inspection.block:
        threads *= n
    number = int(inspection.architecture.removeprefix("sm_"))
    return occupancy(number, threads, inspection.registers, inspection.shared_memory or 0)


def _blocks(
    arguments: str, found: Inspection, share: float | None, code: dict[str, str]
) -> Iterator[Block]:
    rows: list[tuple[str, Cell]] = [
        ("arguments", arguments),
        ("platform", f"{found.platform} {found.architecture}".rstrip()),
    ]
    if found.registers is not None:
        local = size(found.local_memory or 0)
        spills = "no spills" if not found.local_memory else "local arrays and spilled registers"
        rows += [
            ("registers", f"{found.registers} a thread"),
            ("local memory", f"{local} a thread ({spills})"),
            ("shared memory", f"{size(found.shared_memory or 0)} a block"),
            ("block", "chosen by the driver" if found.block is None else _times(found.block)),
            ("occupancy", "not known" if share is None else f"{share:.0%}"),
        ]
    rows += [(n, t) for n, t in (("tuning", found.tuning), ("exported", found.export)) if t]
    rows += [(name, f"{len(text.splitlines())} lines") for name, text in _codes(found).items()]
    yield Pairs(found.name, rows)
    yield from _shown(code)


def _codes(found: Inspection) -> dict[str, str]:
    """Every text that there is of a kernel, by the option that prints it."""
    every = {
        option: getattr(found, attribute)
        for option, (platform, attribute, _, _) in _TEXTS.items()
        if platform in ("", found.platform)
    }
    return {option: text for option, text in every.items() if text is not None}


def _times(block: tuple[int, ...]) -> str:
    return " x ".join(map(str, block)) + " threads"


def _as_dict(
    arguments: str, found: Inspection, share: float | None, code: dict[str, str]
) -> dict[str, Any]:
    return {
        "name": found.name,
        "arguments": arguments,
        "platform": found.platform,
        "architecture": found.architecture,
        "registers": found.registers,
        "local_memory": found.local_memory,
        "shared_memory": found.shared_memory,
        "block": found.block,
        "occupancy": share,
        "tuning": found.tuning,
        "export": found.export,
        "lines": {name: len(text.splitlines()) for name, text in _codes(found).items()},
        "code": code,
    }
