/* Notices that Ctrl-C was pressed while kernels run, since whoever waits for them cannot. */
#ifndef KB_INTERRUPT_H
#define KB_INTERRUPT_H

#include <stdatomic.h>
#include <stdint.h>

/* Each SIGINT that came while somebody watched raises it. */
extern _Atomic(uint32_t) kb_interrupts;

/* SIGINT is counted until as many calls of kb_interrupt_unwatch have followed, and then handled as
 * before. Where it is ignored or ends the process, nothing changes. Any thread may call them. */
void kb_interrupt_watch(void);
void kb_interrupt_unwatch(void);

#endif
