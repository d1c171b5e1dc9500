/* Proves which cells a launch of the checked mode gets, when they are erased, and which are kept.
 */
#include "ext/emulator/kb_check.h"
#include "kb_test.h"
#include "torture.h"

enum { KEPT = 1 << 21 };

static const uint32_t late = UINT32_C(1) << 31;

static void test_kept(void)
{
    long blocks = torture_count().blocks;
    kb_shadow *s = kb_shadow_take(10);
    CHECK_INT(s->n_cells, 10);
    CHECK_INT(s->time, 0);
    CHECK_INT(torture_count().blocks - blocks, 1);
    kb_shadow *other = kb_shadow_take(5); /* while the first is in use */
    CHECK(other != s);
    kb_shadow_give_back(s);
    kb_shadow_give_back(other); /* one is kept: the last */
    CHECK_INT(torture_count().blocks - blocks, 1);
    CHECK_PTR(kb_shadow_take(5), other);
    kb_shadow_give_back(other);
    s = kb_shadow_take(6);
    CHECK_INT(s->n_cells, 6);
    CHECK_INT(torture_count().blocks - blocks, 1);
    kb_shadow_give_back(s);
    kb_shadow_give_back(NULL);
    s = kb_shadow_take(KEPT + 1);
    kb_shadow_give_back(s);
    CHECK_INT(torture_count().blocks - blocks, 0);
    s = kb_shadow_take(KEPT);
    kb_shadow_give_back(s);
    CHECK_INT(torture_count().blocks - blocks, 1);
    CHECK_PTR(kb_shadow_take(0), s);
    kb_shadow_give_back(s);
    torture_fail_nth(1);
    CHECK_PTR(kb_shadow_take(KEPT + 1), NULL);
    CHECK_INT(torture_count().blocks - blocks, 0);
    torture_fail_nth(0);
}

static void test_times(void)
{
    kb_shadow *s = kb_shadow_take(4);
    for (int i = 0; i < 4; i++) {
        s->cells[i].write = 7;
        s->more[i].second = 8;
    }
    s->time = late - 1;
    CHECK(!kb_shadow_is_late(s));
    CHECK(!kb_shadow_renew(s));
    CHECK_INT(s->cells[3].write, 7);
    kb_shadow_give_back(s);
    CHECK_PTR(kb_shadow_take(4), s);
    CHECK_INT(s->time, late - 1);
    s->time = late;
    CHECK(kb_shadow_is_late(s));
    kb_shadow_give_back(s);
    CHECK_PTR(kb_shadow_take(4), s); /* erased */
    CHECK_INT(s->time, 0);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(s->cells[i].write, 0);
        CHECK_INT(s->more[i].second, 0);
    }
    s->time = late;
    CHECK(kb_shadow_renew(s)); /* so that what else has times is erased, too */
    CHECK_INT(s->time, 0);
    kb_shadow_give_back(s);
}

int main(void)
{
    test_kept();
    test_times();
    return kb_test_end("test_shadow");
}
