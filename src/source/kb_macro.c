/* Owns the table of macros, and the reading of #define. */
#include "source/kb_macro.h"

#include "core/kb_memory.h"

enum { ROOM_FIRST = 32 };

static kb_macro *add(kb_macros *macros, kb_text name)
{
    if (macros->n == macros->room) {
        size_t room = macros->room ? 2 * macros->room : ROOM_FIRST;
        kb_macro_slot *bigger = kb_calloc(room, sizeof *bigger);
        if (!bigger)
            return NULL;
        if (macros->n)
            memcpy(bigger, macros->at, macros->n * sizeof *bigger);
        kb_free(macros->at);
        macros->at = bigger;
        macros->room = room;
    }
    kb_macro *m = kb_arena_take(macros->arena, 1, sizeof *m);
    if (!m || !kb_names_add(&macros->names, name, (uint32_t)macros->n))
        return NULL;
    macros->at[macros->n++].macro = m;
    return m;
}

/* `(a, b, ...)`: gives the number of its tokens, or 0 if it is no such list. */
static size_t read_parameters(kb_macro *m, kb_text *names, const kb_token *words, size_t n)
{
    for (size_t i = 1; i < n;) {
        if (i == 1 && kb_token_is_mark(&words[i], ")"))
            return 2;
        if (m->n_parameters == KB_MACRO_PARAMETERS || m->variadic)
            return 0;
        kb_text name = kb_text_of("__VA_ARGS__");
        if (words[i].kind == KB_TOKEN_WORD)
            name = kb_token_text(&words[i++]);
        if (i < n && kb_token_is_mark(&words[i], "...")) {
            m->variadic = true;
            i++;
        } else if (name.at != words[i - 1].text) {
            return 0;
        }
        names[m->n_parameters++] = name;
        if (i < n && kb_token_is_mark(&words[i], ")"))
            return i + 1;
        if (i >= n || !kb_token_is_mark(&words[i++], ","))
            return 0;
    }
    return 0;
}

/* False when there is no memory. */
static bool define(kb_macros *macros, kb_macro *m, const kb_token *words, size_t n)
{
    kb_text names[KB_MACRO_PARAMETERS];
    size_t used = 0;
    *m = (kb_macro){.disabled = m->disabled};
    if (n > 0 && kb_token_is_mark(words, "(") && !words->blank) {
        used = read_parameters(m, names, words, n);
        if (used == 0)
            return true;
        m->function = true;
    }
    if (m->n_parameters) {
        m->parameters = kb_arena_take(macros->arena, m->n_parameters, sizeof *names);
        if (!m->parameters)
            return false;
        memcpy(m->parameters, names, m->n_parameters * sizeof *names);
    }
    m->body = words + used;
    m->n_body = n - used;
    for (size_t i = used; i < n; i++)
        m->braces += kb_token_is_mark(&words[i], "{") - kb_token_is_mark(&words[i], "}");
    m->defined = true;
    return true;
}

bool kb_macros_directive(kb_macros *macros, const kb_token *words, size_t n)
{
    bool defines = n > 1 && kb_token_is_word(words, "define");
    if ((!defines && !(n > 1 && kb_token_is_word(words, "undef"))) ||
        words[1].kind != KB_TOKEN_WORD)
        return true;
    kb_text name = kb_token_text(&words[1]);
    uint32_t number = kb_names_get(&macros->names, name);
    kb_macro *m = number == KB_NAMES_NONE ? NULL : macros->at[number].macro;
    if (!defines) {
        if (m)
            m->defined = false;
        return true;
    }
    m = m ? m : add(macros, name);
    return m && define(macros, m, words + 2, n - 2);
}

kb_macro *kb_macros_get(const kb_macros *macros, const kb_token *word)
{
    if (word->kind != KB_TOKEN_WORD || word->painted)
        return NULL;
    uint32_t number = kb_names_get(&macros->names, kb_token_text(word));
    kb_macro *m = number == KB_NAMES_NONE ? NULL : macros->at[number].macro;
    return m && m->defined ? m : NULL;
}

uint32_t kb_macro_parameter(const kb_macro *macro, const kb_token *word)
{
    if (word->kind == KB_TOKEN_WORD)
        for (uint32_t i = 0; i < macro->n_parameters; i++)
            if (kb_text_same(macro->parameters[i], kb_token_text(word)))
                return i;
    return KB_MACRO_PARAMETERS;
}

void kb_macros_free(kb_macros *macros)
{
    kb_names_free(&macros->names);
    kb_free(macros->at);
    macros->at = NULL;
}
