/* Owns the stack of open conditions. */
#include "source/kb_condition.h"

#include "core/kb_memory.h"

typedef struct kb_condition {
    kb_skip outside;
    kb_skip others; /* what is skipped of the branches to come, whatever their condition */
    int64_t braces; /* open where it began */
    int64_t parens;
} condition;

enum { ROOM_FIRST = 16 };

void kb_conditions_bracket(kb_conditions *c, char mark)
{
    c->braces += (mark == '{') - (mark == '}');
    c->parens += (mark == '(') - (mark == ')');
}

typedef enum truth { NO, YES, MAYBE } truth;

static truth truth_of(const kb_token *words, size_t n)
{
    static const char *const yes[] = {"1", "true", NULL}, *const no[] = {"0", "false", NULL};
    if (n != 1)
        return MAYBE;
    kb_text t = kb_token_text(words);
    return kb_text_among(t, no) ? NO : kb_text_among(t, yes) ? YES : MAYBE;
}

static kb_skip more(kb_skip a, kb_skip b)
{
    return a > b ? a : b;
}

static void enter(kb_conditions *c, truth t)
{
    condition *open = &c->open[c->n - 1];
    c->skip = more(open->outside, more(open->others, t == NO ? KB_SKIP_ALL : KB_SKIP_NOTHING));
    if (t == YES)
        open->others = KB_SKIP_ALL;
}

static bool begin(kb_conditions *c, truth t)
{
    if (c->n == c->room) {
        size_t room = c->room ? 2 * c->room : ROOM_FIRST;
        condition *bigger = kb_calloc(room, sizeof *bigger);
        if (!bigger)
            return false;
        if (c->n)
            memcpy(bigger, c->open, c->n * sizeof *bigger);
        kb_free(c->open);
        c->open = bigger;
        c->room = room;
    }
    c->open[c->n++] = (condition){c->skip, KB_SKIP_NOTHING, c->braces, c->parens};
    enter(c, t);
    return true;
}

/* A branch that left brackets open is one way to begin what goes on behind the #endif. */
static void leave_branch(kb_conditions *c)
{
    condition *open = &c->open[c->n - 1];
    if (c->skip == KB_SKIP_NOTHING && (open->braces != c->braces || open->parens != c->parens))
        open->others = more(open->others, KB_SKIP_TOKENS);
}

bool kb_conditions_directive(kb_conditions *c, const kb_token *words, size_t n)
{
    static const char *const begins[] = {"ifdef", "ifndef", NULL};
    static const char *const others[] = {"elifdef", "elifndef", "else", NULL};
    if (n == 0 || words->kind != KB_TOKEN_WORD)
        return true;
    kb_text name = kb_token_text(words);
    bool is_elif = kb_text_is(name, "elif");
    if (kb_text_is(name, "if"))
        return begin(c, truth_of(words + 1, n - 1));
    if (kb_text_among(name, begins))
        return begin(c, MAYBE);
    if (c->n == 0)
        return true;
    if (is_elif || kb_text_among(name, others)) {
        leave_branch(c);
        enter(c, is_elif ? truth_of(words + 1, n - 1) : MAYBE);
    } else if (kb_text_is(name, "endif")) {
        c->skip = c->open[--c->n].outside;
    }
    return true;
}

void kb_conditions_free(kb_conditions *c)
{
    kb_free(c->open);
    *c = (kb_conditions){0};
}
