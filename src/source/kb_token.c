/* Owns the growth of lists of tokens, and what belongs to a bracket. */
#include "source/kb_token.h"

#include "core/kb_memory.h"

enum { ROOM_FIRST = 32, TEMPLATE_TOKENS = 512 };

bool kb_tokens_push(kb_tokens *tokens, kb_token token)
{
    if (tokens->n == tokens->room) {
        size_t room = tokens->room ? 2 * tokens->room : ROOM_FIRST;
        kb_token *bigger = kb_calloc(room, sizeof *bigger);
        if (!bigger)
            return false;
        if (tokens->n)
            memcpy(bigger, tokens->at, tokens->n * sizeof *bigger);
        kb_free(tokens->at);
        tokens->at = bigger;
        tokens->room = room;
    }
    tokens->at[tokens->n++] = token;
    return true;
}

void kb_tokens_free(kb_tokens *tokens)
{
    kb_free(tokens->at);
    *tokens = (kb_tokens){0};
}

size_t kb_group_end(const kb_token *tokens, size_t open, size_t n)
{
    size_t depth = 0, braces = 0;
    for (size_t i = open; i < n; i++) {
        char mark = kb_token_mark(&tokens[i]);
        if ((mark == ';' || mark == '}') && braces == 0)
            return n;
        braces += mark == '{';
        braces -= mark == '}';
        depth += mark == '(' || mark == '[' || mark == '{';
        depth -= mark == ')' || mark == ']' || mark == '}';
        if (depth == 0)
            return i;
    }
    return n;
}

size_t kb_template_end(const kb_token *tokens, size_t open, size_t n, bool expression)
{
    size_t angles = 0;
    n = n - open > TEMPLATE_TOKENS ? open + TEMPLATE_TOKENS : n;
    for (size_t i = open; i < n; i++) {
        const kb_token *t = &tokens[i];
        char mark = kb_token_mark(t);
        if (mark == ';' || mark == ')' || mark == ']' || mark == '}' ||
            (expression && (mark == '=' || kb_token_is_mark(t, "&&") || kb_token_is_mark(t, "||"))))
            return 0;
        if (mark == '(' || mark == '[' || mark == '{')
            i = kb_group_end(tokens, i, n);
        angles += mark == '<' && (i == open || t[-1].kind == KB_TOKEN_WORD);
        if (mark == '>' && --angles == 0)
            return i;
    }
    return 0;
}

size_t kb_token_next(const kb_token *tokens, size_t i, size_t n, bool expression)
{
    char mark = kb_token_mark(&tokens[i]);
    if (mark == '(' || mark == '[' || mark == '{')
        return kb_group_end(tokens, i, n) + 1;
    size_t end = 0;
    if (mark == '<' && i > 0 && tokens[i - 1].kind == KB_TOKEN_WORD)
        end = kb_template_end(tokens, i, n, expression);
    return end ? end + 1 : i + 1;
}
