/* Notices that Ctrl-C was pressed while kernels run, since whoever waits for them cannot. */
#ifndef KB_INTERRUPT_H
#define KB_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Each SIGINT that came while somebody watched raises it. */
extern _Atomic(uint32_t) kb_interrupts;

/* SIGINT is counted until as many calls of kb_interrupt_unwatch have followed, and then handled as
 * before. Where it is ignored or ends the process, nothing changes. Any thread may call them. */
void kb_interrupt_watch(void);
void kb_interrupt_unwatch(void);

/* Whether a launch is interrupted. A launch that takes long watches for signals, until its owner
 * calls kb_interrupt_unwatch. */
typedef struct kb_watch {
    uint32_t n_pauses;   /* places where the launch may be interrupted */
    uint32_t interrupts; /* when the launch began */
    int64_t begun;       /* about when it began; 0 at first */
    bool watches;
} kb_watch;

/* Whether the launch was interrupted. */
bool kb_watch_look(kb_watch *watch);

static inline bool kb_watch_pause(kb_watch *watch)
{
    enum { LOOK_EACH = 8 };
    return (++watch->n_pauses % LOOK_EACH == 0 ||
            atomic_load_explicit(&kb_interrupts, memory_order_relaxed) != watch->interrupts) &&
           kb_watch_look(watch);
}

#endif
