"""Options of all public functions: flags take bools, sequences take no strings, names are known."""

import importlib
import inspect

import kernbridge
import pytest

pytestmark = pytest.mark.once
MODULES = ("benchmark", "cache", "config", "registry")
FLAGS, SEQUENCES = ("bool", "bool | None"), "Sequence["
ANYTHING = type("Anything", (list,), {"__call__": print})()  # a list, and a function


def public_functions():
    """Each public function and method, by the name that messages have for it."""
    found = {}
    for module in ("", *MODULES):
        space = importlib.import_module(f"kernbridge.{module}".rstrip("."))
        for name in dir(space) if module else kernbridge.__all__:
            value = getattr(space, name)
            if name.startswith("_") or not getattr(value, "__module__", "").startswith(
                "kernbridge"
            ):
                continue
            if inspect.isfunction(value):
                found[value.__qualname__] = value
            elif inspect.isclass(value) and not issubclass(value, (Exception, tuple)):
                for name, method in inspect.getmembers(value, inspect.isfunction):
                    if name == "__init__" or not name.startswith("_"):
                        found[method.__qualname__] = method
    return found


# Methods that only kernbridge calls, and the constructor of a result.
INTERNAL = """
    ShardingRule.terms ShardingRule.of KernelTable.check_known RuleTable.check_rules_take
    BenchmarkRecord.__init__
""".split()  # noqa: SIM905
FUNCTIONS = {name: f for name, f in public_functions().items() if name not in INTERNAL}


def options(*annotations):
    """The options with these annotations, where an annotation may end in anything after a [."""
    return [
        pytest.param(function, p, id=f"{name}.{p.name}")
        for name, function in FUNCTIONS.items()
        for p in inspect.signature(function).parameters.values()
        if str(p.annotation).partition("[")[0] in annotations
    ]


def call(function, **given):
    """Call a function with something for each other argument that it requires."""
    required = inspect.signature(function).parameters.values()
    others = {
        p.name: ANYTHING
        for p in required
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }
    return function(**(others | given))


@pytest.mark.parametrize(("function", "option"), options("bool", "bool | None"))
def test_a_flag_takes_only_bools(function, option):
    for value in ("yes", 1, [], 0.0):
        with pytest.raises(TypeError, match=rf"{option.name} is .*, expected True.* \[KB\d{{4}}\]"):
            call(function, **{option.name: value})


@pytest.mark.parametrize(("function", "option"), options("Sequence"))
def test_a_sequence_is_no_string(function, option):
    for value in ("-O2", b"-O2", 3):
        with pytest.raises(
            TypeError, match=rf"{option.name} is .*, expected a list.* \[KB\d{{4}}\]"
        ):
            call(function, **{option.name: value})


def test_all_ways_to_pass_an_option():
    assert len(options("bool", "bool | None")) >= 40
    assert len(options("Sequence")) >= 12
    with pytest.raises(TypeError, match=r"cuda_on_cpu.*'yes'.*\[KB8001\]"):
        kernbridge.cuda_on_cpu("yes")
    for load in (kernbridge.load_c_inline, kernbridge.load_cuda_file, kernbridge.load_c_file):
        with pytest.raises(TypeError, match=r"load_c.*force_rebuild.*is 1.*\[KB5105\]"):
            call(load, force_rebuild=1)
        with pytest.raises(TypeError, match=r"extra_ldflags.*'-lm'.*\[KB5105\]"):
            call(load, extra_ldflags="-lm")


FRONT_ENDS = """
    numba_kernel numba_cuda_kernel numba_cuda_callable cuda_kernel kernel load_binary load_c_file
    load_c_inline load_cpp_file load_cpp_inline load_cuda_dir load_cuda_file load_cuda_inline
    export_bundle elementwise
""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_a_name_that_is_misspelt(name):
    function = FUNCTIONS[name]
    parameters = list(inspect.signature(function).parameters.values())
    has_others = parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
    near = "check" if name == "kernel" else "verbose" if has_others else parameters[-1].name
    with pytest.raises(TypeError, match=rf"^{name}: .*did you mean '{near}'\? \[KB\d{{4}}\]"):
        call(function, **{near + "x": 1})
    with pytest.raises(TypeError, match=rf"^{name}: .*'qqq'; the options are .* \[KB\d{{4}}\]"):
        call(function, qqq=1)
    if name in ("kernel", "elementwise"):
        assert callable(function())
        return
    with pytest.raises(TypeError, match=rf"^{name}: missing .*called as {name}\(.*\[KB\d{{4}}\]"):
        function()


def test_positional_arguments_are_named_if_there_are_too_many():
    with pytest.raises(TypeError, match=r"is called as elementwise\(function, \.\.\.\) \[KB1005\]"):
        kernbridge.elementwise(lambda a: a, lambda x: x)
