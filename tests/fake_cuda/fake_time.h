/* Owns memory, streams and events that are made by the driver, and the clock that events read. Time
 * passes at launches alone: as long as a test said for blocks of their size, else 10 us. Part of
 * fake_cuda.c alone. */
#ifndef FAKE_TIME_H
#define FAKE_TIME_H

#include "fake_state.h"

enum {
    FAKE_TIMES_MAX = 64,
    FAKE_THREADS_MAX = 1024,
    FAKE_ALLOCATION_MAX = 1 << 30,
    FAKE_KEPT_MAX = 64
};

static struct {
    double now; /* us */
    struct {
        double us[FAKE_TIMES_MAX];
        int n, next;
    } of_block[FAKE_THREADS_MAX + 1];
    int n_allocations, n_streams, n_events;
    void *kept[FAKE_KEPT_MAX];
    int n_kept;
} fake_clock;

typedef struct fake_event {
    double at;
    bool is_recorded;
} fake_event;

static void pass_time(const uint32_t block[3])
{
    int threads = (int)(block[0] * block[1] * block[2]);
    double us = 10;
    if (fake_clock.of_block[threads].n) {
        int at = fake_clock.of_block[threads].next++ % fake_clock.of_block[threads].n;
        us = fake_clock.of_block[threads].us[at];
    }
    fake_clock.now += us;
}

static kb_cu_result cuDeviceGetName(char *name, int size, kb_cu_device device)
{
    kb_cu_result code = begin(CALL_cuDeviceGetName);
    if (code != KB_CU_SUCCESS)
        return code;
    snprintf(name, (size_t)size, "Fake GPU %d", device);
    return end(KB_CU_SUCCESS);
}

/* What a driver that fails has not given back is its own, for leak checkers too. */
static kb_cu_result keep(void *taken, kb_cu_result code)
{
    fake_clock.kept[fake_clock.n_kept++ % FAKE_KEPT_MAX] = taken;
    return code;
}

static kb_cu_result cuMemAlloc(kb_cu_address *memory, size_t size)
{
    kb_cu_result code = begin(CALL_cuMemAlloc);
    if (code != KB_CU_SUCCESS)
        return code;
    if (!current_context())
        return end(KB_CU_INVALID_CONTEXT);
    if (size == 0 || size > FAKE_ALLOCATION_MAX)
        return end(size ? OUT_OF_MEMORY : KB_CU_INVALID_VALUE);
    void *taken = fake_checked(malloc(size));
    memset(taken, 0xAB, size);
    *memory = (kb_cu_address)(uintptr_t)taken;
    fake_clock.n_allocations++;
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuMemFree(kb_cu_address memory)
{
    kb_cu_result code = begin(CALL_cuMemFree);
    if (code != KB_CU_SUCCESS)
        return keep((void *)(uintptr_t)memory, code);
    free((void *)(uintptr_t)memory);
    fake_clock.n_allocations--;
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuStreamCreate(kb_cu_stream *handle, unsigned int flags)
{
    kb_cu_result code = begin(CALL_cuStreamCreate);
    if (code != KB_CU_SUCCESS)
        return code;
    if (!current_context())
        return end(KB_CU_INVALID_CONTEXT);
    if (flags > 1)
        return end(KB_CU_INVALID_VALUE);
    if (flags == 0)
        die("cuStreamCreate was asked for a stream that waits for the default one, which the fake "
            "has not");
    stream *s = fake_checked(calloc(1, sizeof *s));
    s->device = current_context()->device;
    s->next = state.streams;
    state.streams = s;
    *handle = (kb_cu_stream)s;
    fake_clock.n_streams++;
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuStreamDestroy(kb_cu_stream handle)
{
    kb_cu_result code = begin(CALL_cuStreamDestroy);
    if (code != KB_CU_SUCCESS)
        return code;
    for (stream **at = &state.streams; *at; at = &(*at)->next)
        if ((kb_cu_stream)*at == handle) {
            stream *gone = *at;
            *at = gone->next;
            free(gone);
            fake_clock.n_streams--;
            return end(KB_CU_SUCCESS);
        }
    return end(INVALID_HANDLE);
}

static kb_cu_result cuEventCreate(kb_cu_event *event, unsigned int flags)
{
    kb_cu_result code = begin(CALL_cuEventCreate);
    if (code != KB_CU_SUCCESS)
        return code;
    if (flags)
        die("cuEventCreate was asked for flags %u, which the fake has not", flags);
    *event = (kb_cu_event)fake_checked(calloc(1, sizeof(fake_event)));
    fake_clock.n_events++;
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuEventDestroy(kb_cu_event event)
{
    kb_cu_result code = begin(CALL_cuEventDestroy);
    if (code != KB_CU_SUCCESS)
        return keep((void *)event, code);
    free(event);
    fake_clock.n_events--;
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuEventRecord(kb_cu_event event, kb_cu_stream handle)
{
    kb_cu_result code = begin(CALL_cuEventRecord);
    if (code != KB_CU_SUCCESS)
        return code;
    int wrong = check_stream(handle);
    if (wrong)
        return end(wrong);
    *(fake_event *)event = (fake_event){fake_clock.now, true};
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuEventElapsedTime(float *ms, kb_cu_event from, kb_cu_event to)
{
    kb_cu_result code = begin(CALL_cuEventElapsedTime);
    if (code != KB_CU_SUCCESS)
        return code;
    const fake_event *first = (const fake_event *)from, *last = (const fake_event *)to;
    if (!first->is_recorded || !last->is_recorded)
        return end(INVALID_HANDLE);
    *ms = (float)((last->at - first->at) / 1e3);
    return end(KB_CU_SUCCESS);
}

#endif
