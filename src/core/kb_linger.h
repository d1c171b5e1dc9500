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

/* Passes `data` to at most `most` waiting threads, each of which returns it from kb_linger_wait.
 * Returns how many there were, which may be none. */
int64_t kb_linger_hand(void *data, int64_t most);

/* A thread that waits now and then. `seat` is 0 at first. */
typedef struct kb_linger {
    uint64_t entered; /* kb_ticks() when its owner called it */
    uint64_t seat;
} kb_linger;

/* Waits for data, with the processor kept busy. Returns NULL if none comes within a moment, or at
 * once if this thread has been away from its owner for so long that it should return, or if too
 * many threads wait already. `data` is never lost: what a call of kb_linger_hand has passed is
 * returned. Call kb_linger_leave when the thread waits no more. */
void *kb_linger_wait(kb_linger *thread);

/* Gives up what the calls of kb_linger_wait have taken. */
void kb_linger_leave(kb_linger *thread);

#endif
