/* Owns the growth of lists of tokens. */
#include "source/kb_token.h"

#include "core/kb_memory.h"

enum { ROOM_FIRST = 32 };

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
