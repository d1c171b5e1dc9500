/* Threads that have finished their part of a loop and wait a moment for the next one. In a program
 * whose steps are short, the next loop comes before a sleeping thread would have been woken. Any
 * thread may enter. */
#ifndef KB_PARKED_THREADS_H
#define KB_PARKED_THREADS_H

#include <stdbool.h>
#include <stdint.h>

/* Call this when a loop begins. Returns whether its threads should wait for the next loop when they
 * are done: the loop before ended a moment ago, and threads have not waited without success
 * recently. */
bool kb_parked_begin(void);

/* Call this when a loop is done. */
void kb_parked_end(void);

/* Passes `data` to at most `most` waiting threads, each of which returns it from kb_parked_wait.
 * Returns how many there were, which may be none. */
int64_t kb_parked_hand(void *data, int64_t most);

/* A thread that waits now and then. `seat` is 0 at first. */
typedef struct kb_parked_thread {
    uint64_t entered; /* kb_ticks() when its owner called it */
    uint64_t seat;
} kb_parked_thread;

/* Spins until data arrives. Returns NULL if none comes within a moment, or at
 * once if this thread has been away from its owner for so long that it should return, or if too
 * many threads wait already. `data` is never lost: what a call of kb_parked_hand has passed is
 * returned. Call kb_parked_leave when the thread waits no more. */
void *kb_parked_wait(kb_parked_thread *thread);

/* Gives up what the calls of kb_parked_wait have taken. */
void kb_parked_leave(kb_parked_thread *thread);

#endif
