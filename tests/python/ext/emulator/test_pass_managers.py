"""Pass managers are freed, which llvmlite does not do."""

import pytest
from kernbridge._ext.emulator.compiler.compile import private_llvmlite
from llvmlite import binding as llvm

pytestmark = pytest.mark.once


def run_one():
    module = llvm.parse_assembly("define void @f() { ret void }")
    llvm.initialize_native_target()
    machine = llvm.Target.from_default_triple().create_target_machine()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    manager = builder.getModulePassManager()
    private_llvmlite.run_once(manager, module, builder)
    assert manager.closed


@pytest.mark.parametrize("owner", ["NewPassManager", "ModulePassManager"])
def test_a_pass_manager_is_freed_once(owner, monkeypatch):
    """By llvmlite's method where it is shadowed, and where a kernel is compiled meanwhile."""
    freed = []
    managers = llvm.newpassmanagers
    free = managers.NewPassManager._dispose

    def free_and_note(manager):
        freed.append(manager.closed)
        free(manager)

    monkeypatch.setattr(getattr(managers, owner), "_dispose", free_and_note)
    run_one()
    assert freed == [False]


def test_it_is_freed_once_while_another_thread_compiles(monkeypatch):
    freed = []
    llvm_managers = llvm.newpassmanagers
    free = llvm_managers.NewPassManager._dispose

    def free_when_another_begins(manager):
        freed.append(manager.closed)
        if len(freed) == 1:
            free(manager)
        monkeypatch.setattr(llvm_managers.ModulePassManager, "_dispose", free_when_another_begins)

    monkeypatch.setattr(llvm_managers.NewPassManager, "_dispose", free_when_another_begins)
    run_one()
    assert freed == [False]
