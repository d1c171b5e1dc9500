"""Every function of libdevice on the CPU, called in a loop over arrays as kernels do."""

import ctypes

import kernbridge._core as _core
import llvmlite.binding as llvm
import numpy as np
from cuda_corpus.libdevice_inputs import FUNCTIONS
from kernbridge._ext.emulator.compiler import library
from numba.core import config

LLVM = {"float64": "double", "float32": "float", "int64": "i64", "int32": "i32", "int16": "i16"}


def loop(name):
    """A function that calls one of libdevice's on each row of arrays."""
    result, arguments = FUNCTIONS[name]
    result = None if str(result) == "none" else LLVM[str(result)]
    parameters, lines, given = [], [], []
    for i, a in enumerate(arguments):
        t = LLVM[str(a.ty)]
        parameters.append(f"ptr noalias %a{i}")
        lines.append(f"%p{i} = getelementptr {t}, ptr %a{i}, i64 %i")
        if not a.is_ptr:
            lines.append(f"%x{i} = load {t}, ptr %p{i}")
        given.append(f"ptr %p{i}" if a.is_ptr else f"{t} %x{i}")
    call = f"call {result or 'void'} @{name}({', '.join(given)})"
    if result:
        parameters.append("ptr noalias %out")
        lines.append(f"%to = getelementptr {result}, ptr %out, i64 %i")
        lines += [f"%r = {call}", f"store {result} %r, ptr %to"]
    else:
        lines.append(call)
    types = ", ".join("ptr" if a.is_ptr else LLVM[str(a.ty)] for a in arguments)
    return (
        f"declare {result or 'void'} @{name}({types})\n"
        f"define void @run{name}({', '.join(parameters)}, i64 %n) {{\nentry:\n  br label %loop\n"
        "loop:\n  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n  "
        + "\n  ".join(lines)
        + "\n  %next = add nuw nsw i64 %i, 1\n  %more = icmp ult i64 %next, %n\n"
        "  br i1 %more, label %loop, label %end\nend:\n  ret void\n}\n"
    )


def optimised(text):
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=config.CPU_NAME or llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten()
        if config.CPU_FEATURES is None
        else config.CPU_FEATURES,
        opt=3,
    )
    module = llvm.parse_assembly(text)
    library.link(module)
    module.triple, module.data_layout = llvm.get_default_triple(), str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module, machine


def make():
    """Every function in a loop, as machine code of this processor."""
    module, machine = optimised("".join(map(loop, FUNCTIONS)))
    called = {f.name for f in module.functions if f.name.startswith("kb_nv_")}
    assert called
    for name in called:
        address = _core.cuda_code_provides(name)
        assert address, name
        llvm.add_symbol(name, address)
    assert not [f.name for f in module.functions if f.name.startswith("__nv_")]
    made = llvm.create_mcjit_compiler(module, machine)
    made.finalize_object()
    return made


def run(engine, name, rows):
    result, arguments = FUNCTIONS[name]
    inputs, given, out = iter(rows), [], []
    if str(result) != "none":
        out.append(np.zeros(len(rows[0]), str(result)))
    for a in arguments:
        given.append(np.zeros(len(rows[0]), str(a.ty)) if a.is_ptr else next(inputs))
        out += given[-1:] if a.is_ptr else []
    if str(result) != "none":
        given.append(out[0])
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(given), ctypes.c_int64)(
        engine.get_function_address(f"run{name}")
    )
    function(*(g.ctypes.data for g in given), len(rows[0]))
    return out
