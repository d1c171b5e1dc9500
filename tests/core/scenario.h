/* Scenarios: what a program does with the core, done again for each request to the system (see
 * torture.h), of which one fails, or all from one on. Each run has a process of its own, in which
 * nothing was done before. One thread. */
#ifndef SCENARIO_H
#define SCENARIO_H

#include "core/kb_error.h"
#include "fake_xla.h"
#include "torture.h"

typedef struct scenario {
    const char *name;
    /* Does everything and checks the values, unless it returns an error. It can be run twice. */
    kb_status (*run)(kb_error *err);
    /* Requests of each kind that there are at least: else nothing is proven. */
    int at_least[TORTURE_KINDS];
    /* Functions whose failure need not be an error, since there is another way: "f g". */
    const char *survives;
    /* What the message may name in place of the system's own words; or NULL. */
    const char *words;
    /* The first failure is for the life of the process: the same error comes again. */
    bool lasting;
} scenario;

/* After a failure the error has a status and a message that names its cause; then the scenario
 * succeeds in the same process, and holds as much of the system as in a process where nothing
 * failed. */
void scenario_torture(const scenario *s);

/* An error of XLA's, which is destroyed, as ours. */
kb_status scenario_answer(kb_xla_error *error, kb_error *err);

#endif
