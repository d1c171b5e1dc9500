/* Conway's Game of Life, for some generations, on a torus or within walls. */
#include "kernbridge/kernbridge.h"
#include <stdbool.h>
#include <string.h>

#define AT(board, y, x) (board)[(y) * w + (x)]

static int neighbours(const uint8_t *b, int64_t h, int64_t w, int64_t y, int64_t x, bool torus)
{
    int n = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) {
            int64_t i = y + dy, j = x + dx;
            if (dy == 0 && dx == 0)
                continue;
            if (torus) {
                i = (i + h) % h;
                j = (j + w) % w;
            } else if (i < 0 || j < 0 || i >= h || j >= w)
                continue;
            n += AT(b, i, j);
        }
    return n;
}

static uint8_t fate(uint8_t alive, int n)
{
    return n == 3 || (alive && n == 2);
}

// @BE life arg:u8[h, w] ret:u8[h, w] ret:u8[h, w] attr.generations:uint8 attr.torus:bool
void life(const kb_tensor *board, kb_tensor *out, kb_tensor *other, uint8_t generations, bool torus)
{
    const int64_t h = board->shape[0], w = board->shape[1];
    uint8_t *now = out->data, *next = other->data;
    memcpy(now, board->data, board->size);
    for (int g = 0; g < generations; g++) {
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++)
                AT(next, y, x) = fate(AT(now, y, x), neighbours(now, h, w, y, x, torus));
        uint8_t *swapped = now;
        now = next;
        next = swapped;
    }
    if (now != out->data)
        memcpy(out->data, now, board->size);
}
