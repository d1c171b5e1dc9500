#line 1 "$tail:$name"
KB_HANDLER($i)
using kb_runner_$i = kernbridge::detail::Runner<$taken>;
static const signed char *const kb_types_$i = kb_runner_$i::agreement::types;
static int kb_run_$i(const kb_call *call)
{
    return kernbridge::detail::guard(call, [&]() -> int {
$values
        return kb_runner_$i::run($given);
    });
}
