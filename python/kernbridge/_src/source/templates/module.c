#line 1 "$tail"
static const kb_export kb_exports[] = {
    $exports};
static const signed char *const kb_types[] = {$types};
KB_MODULE_DESCRIPTION = {sizeof(kb_module), KB_ABI, $count, kb_exports, $last_error, kb_types,
                         KB_START_FAILURE};
