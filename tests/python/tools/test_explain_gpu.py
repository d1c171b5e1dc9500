"""What kernbridge.explain reads in the text of programs for GPUs: graphs, and loops without them.

The texts have the form in which XLA prints programs for GPUs. tests/gpu/test_explain_gpu.py
compares with real ones.
"""

import pytest
from kernbridge._src.tools.cuda_graphs import Settings
from kernbridge._src.tools.explain import explain_text

pytestmark = pytest.mark.once
CALL = (
    '  {root}%call.{i} = f32[4096]{{0}} custom-call(%{x}), custom_call_target="{target}", '
    "operand_layout_constraints={{f32[4096]{{0}}}}, api_version=API_VERSION_TYPED_FFI, "
    'metadata={{op_name="jit(f)/while/body/kernbridge_call" stack_frame_id=2}}, '
    "backend_config={{call = dense<-52> : tensor<1xi64>, digest = dense<[{digest}]> : "
    "tensor<32xui8>}}\n"
)
DIGEST = ", ".join(["7"] * 32)
GRAPH, NO_GRAPH = "kernbridge.cuda.graph", "kernbridge.cuda"
TURNS = ', backend_config={"known_trip_count":{"n":"100"},"known_init_step":{"init":"0"}}'
LOOP = 'condition=%condition, body=%body, metadata={op_name="jit(f)/while" stack_frame_id=1}'

MODULE = """HloModule jit_f, is_scheduled=true

FileNames
1 "/home/user/model.py"

FunctionNames
1 "f"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=12 end_line=12 column=1 end_column=9}}
2 {{file_name_id=1 function_name_id=1 line=10 end_line=10 column=1 end_column=9}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}
2 {{file_location_id=2 parent_frame_id=2}}

{more}
%loop_add_fusion.1 (param_0: s32[]) -> s32[] {{
  %param_0 = s32[] parameter(0)
  %one = s32[] constant(1)
  ROOT %add.1 = s32[] add(%param_0, %one)
}}

%body (state: (s32[], f32[4096])) -> (s32[], f32[4096]) {{
  %state = (s32[], f32[4096]{{0}}) parameter(0)
  %get-tuple-element.0 = s32[] get-tuple-element(%state), index=0
  %call.0 = f32[4096]{{0}} get-tuple-element(%state), index=1
{steps}  ROOT %tuple.1 = (s32[], f32[4096]{{0}}) tuple(%loop_add, %call.{n})
}}

%condition (state.1: (s32[], f32[4096])) -> pred[] {{
  %state.1 = (s32[], f32[4096]{{0}}) parameter(0)
  %get-tuple-element.3 = s32[] get-tuple-element(%state.1), index=0
  %limit = s32[] constant(100)
  ROOT %compare.1 = pred[] compare(%get-tuple-element.3, %limit), direction=LT
}}

ENTRY %main.9 (x.1: f32[4096]) -> f32[4096] {{
  %x.1 = f32[4096]{{0}} parameter(0), metadata={{op_name="x"}}
  %zero = s32[] constant(0)
  %copy.1 = s32[] copy(%zero)
  %copy.2 = f32[4096]{{0}} copy(%x.1)
  %tuple.2 = (s32[], /*index=1*/f32[4096]{{0}}) tuple(%copy.1, %copy.2)
  %while.1 = (s32[], f32[4096]{{0}}) while(%tuple.2), {loop}{turns}
  ROOT %get-tuple-element.9 = f32[4096]{{0}} get-tuple-element(%while.1), index=1
}}
"""
COUNT = "  %loop_add = s32[] fusion(%get-tuple-element.0), kind=kLoop, calls=%loop_add_fusion.1\n"


def call(i, target=GRAPH):
    return CALL.format(root="", i=i, x=f"call.{i - 1}", target=target, digest=DIGEST)


def explained(steps, n, *, turns=TURNS, more="", options=None):
    text = MODULE.format(steps=steps, n=n, loop=LOOP, turns=turns, more=more)
    return explain_text("f", text, "cuda", options or {})


def kinds(explanation):
    return [finding.kind for finding in explanation.findings]


@pytest.fixture(autouse=True)
def no_flags(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)


def test_a_loop_of_one_kernel_is_too_small_for_a_graph():
    found = explained(call(1) + COUNT, 1)
    (loop,) = found.loops
    assert (loop.where, loop.turns, loop.calls, loop.steps, loop.graphs) == (
        *("model.py:12", 100, 1, 2),
        (),
    )
    (finding,) = found.findings
    assert (finding.kind, finding.where, finding.executions) == ("small_loop", "model.py:12", 100)
    assert "has 2 steps, fewer than the 5 of which XLA makes a CUDA graph" in finding.text
    assert "unroll=10" in finding.remedy
    assert found.calls[0].where == ("model.py:10",)
    assert (found.calls[0].places, found.calls[0].executions) == (1, 100)


def test_an_unrolled_loop_is_one_graph():
    found = explained("".join(map(call, range(1, 11))) + COUNT, 10)
    assert not found.findings
    assert found.loops[0].graphs == (11,)
    (graph,) = found.graphs
    assert (graph.where, graph.steps, graph.calls) == ("model.py:12", 11, 10)
    assert "CUDA graphs\n  model.py:12: 11 steps, 10 calls of them" in str(found)


@pytest.mark.parametrize("how", ["option", "flags"])
def test_a_smaller_least_size_makes_small_graphs(how, monkeypatch):
    options = {}
    if how == "option":
        options = {"xla_gpu_graph_min_graph_size": 1}
    else:
        monkeypatch.setenv("XLA_FLAGS", "--other=2 --xla_gpu_graph_min_graph_size=1")
    found = explained(call(1) + COUNT, 1, options=options)
    assert not found.findings
    assert found.loops[0].graphs == (2,)


def test_graphs_that_are_off_leave_every_call_alone():
    found = explained(
        "".join(map(call, range(1, 11))) + COUNT, 10, options={"xla_gpu_enable_command_buffer": ""}
    )
    assert kinds(found) == ["no_graph"]
    assert not found.graphs


def test_a_step_that_no_graph_may_have_splits_the_run():
    steps = "".join(call(i, NO_GRAPH if i % 3 == 0 else GRAPH) for i in range(1, 9)) + COUNT
    found = explained(steps, 8)
    (finding,) = found.findings
    assert finding.kind == "no_graph"
    assert "8 of 8 calls in a turn of this loop are in no CUDA graph" in finding.text
    assert "ffi_call 'kernbridge.cuda'" in finding.text
    assert "fewer than 5 steps" in finding.text


def test_a_run_beside_such_a_step_is_still_a_graph():
    steps = call(1, NO_GRAPH) + "".join(map(call, range(2, 9))) + COUNT
    found = explained(steps, 8)
    assert found.loops[0].graphs == (8,)
    assert kinds(found) == ["no_graph"]
    assert "1 of 8 calls" in found.findings[0].text


def test_the_turns_that_are_not_known_are_a_finding():
    found = explained("".join(map(call, range(1, 11))) + COUNT, 10, turns="")
    assert kinds(found) == ["unknown_turns"]
    assert "waits for the GPU in every iteration" in found.findings[0].text
    assert found.findings[0].executions is None


def test_graphs_that_stand_in_the_text_are_read():
    inside = "".join(map(call, range(1, 7)))
    more = (
        "%command_buffer (call.0: f32[4096]) -> f32[4096] {\n"
        "  %call.0 = f32[4096]{0} parameter(0)\n" + inside + "}\n\n"
    )
    steps = "  %call.6 = f32[4096]{0} call(%call.0), to_apply=%command_buffer\n" + COUNT
    found = explained(steps, 6, more=more)
    assert found.loops[0].graphs == (6,)
    assert [(graph.steps, graph.calls) for graph in found.graphs] == [(6, 6)]
    assert found.calls[0].executions == 600
    assert not found.findings


def test_collectives_are_in_no_graph_and_conditionals_of_kernels_are():
    reduce = (
        "  %all-reduce-start.1 = f32[4096]{0} all-reduce-start(%call.2), to_apply=%sum\n"
        "  %all-reduce-done.1 = f32[4096]{0} all-reduce-done(%all-reduce-start.1)\n"
    )
    found = explained(call(1) + call(2) + reduce + call(3) + COUNT, 3)
    assert kinds(found) == ["no_graph"]
    assert "all-reduce-start, all-reduce-done" in found.findings[0].text
    branch = "%{0} (p.{0}: f32[4096]) -> f32[4096] {{\n  %call.0 = f32[4096]{{0}} parameter(0)\n"
    more = "".join(branch.format(n) + call(1) + call(2) + "}\n\n" for n in ("yes", "no"))
    choice = (
        "  %call.9 = f32[4096]{0} conditional(%p, %call.0, %call.0), "
        "branch_computations={%yes, %no}\n"
    )
    found = explained(choice + COUNT, 9, more=more)
    assert found.loops[0].graphs == (2,)  # the conditional and the sum, six commands in all


def test_settings_read_all_forms_of_the_flag():
    def of(value):
        return Settings.of({"xla_gpu_enable_command_buffer": value}).commands

    assert of("") == frozenset()
    assert of("FUSION,custom_call") == {"FUSION", "CUSTOM_CALL"}
    assert of("+WHILE") == Settings().commands | {"WHILE"}
    assert of("-FUSION,+WHILE") == (Settings().commands | {"WHILE"}) - {"FUSION"}
