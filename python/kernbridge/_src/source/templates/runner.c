#line 1 "$tail:$name"
KB_HANDLER($i)
typedef void kb_nothing_$i($taken);
typedef int kb_status_$i($taken);
static const signed char kb_types_$i[] = {KB_RESULT($name, kb_nothing_$i, kb_status_$i),
                                          $types, 0};
static int kb_run_$i(const kb_call *call)
{
    /* The casts let a function of another type compile too; it is refused before it is called. */
    kb_nothing_$i *nothing = (kb_nothing_$i *)(void (*)(void))&$name;
    kb_status_$i *status = (kb_status_$i *)(void (*)(void))&$name;
    if (kb_types_$i[0] == 'v') {
        nothing($given);
        return 0;
    }
    return status($given);
}
