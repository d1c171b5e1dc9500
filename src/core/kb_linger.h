/* Threads that have finished their part of a loop and wait a moment for the next one. In a program
 * whose steps are short, the next loop comes before a sleeping thread would have been woken. Any
 * thread may enter. */
#ifndef KB_LINGER_H
#define KB_LINGER_H

#include <stdbool.h>
#include <stdint.h>

/* Call this when a loop begins. Returns whether its threads should wait for the next loop when they
 * are done: the loop before ended a moment ago, and threads have not waited in vain of late. */
bool kb_linger_begin(void);

/* Call this when a loop is done. */
void kb_linger_end(void);

/* Passes `data` to one waiting thread, which returns it from kb_linger_wait. Returns false, and has
 * no effect, if no thread waits. */
bool kb_linger_hand(void *data);

/* Waits for data, with the processor kept busy. Returns NULL if none comes within a moment, or at
 * once if this thread has worked for loops since `entered` (kb_ticks) for so long that it should
 * return to its owner, or if too many threads wait already. `data` is never lost: what a call of
 * kb_linger_hand has passed is returned. */
void *kb_linger_wait(uint64_t entered);

#endif
