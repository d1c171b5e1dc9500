/* Owns the names of attribute types. */
#include "source/kb_attr_type.h"

static const char *const names[] = {"",
#define KB_ATTR_TYPE_NAME(NAME, name, DTYPE, bytes, c_type) name,
                                    KB_ATTR_TYPE_LIST(KB_ATTR_TYPE_NAME)
#undef KB_ATTR_TYPE_NAME
};

kb_attr_type kb_attr_type_of(kb_text name)
{
    for (size_t i = 1; i < sizeof names / sizeof *names; i++)
        if (kb_text_is(name, names[i]))
            return (kb_attr_type)i;
    return KB_ATTR_NONE;
}

const char *kb_attr_type_name(kb_attr_type type)
{
    return names[type];
}

const char *kb_attr_type_names(void)
{
    static const char all[] =
#define KB_ATTR_TYPE_COMMA(NAME, name, DTYPE, bytes, c_type) ", " name
        KB_ATTR_TYPE_LIST(KB_ATTR_TYPE_COMMA);
#undef KB_ATTR_TYPE_COMMA
    return all + 2;
}
