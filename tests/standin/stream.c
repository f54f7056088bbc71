/* Streams are lists of commands. There are no threads behind them: a command runs in a call that waits for it, or where
 * STANDIN_ORDER says. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STREAM = 0x53545245, EVENT = 0x4556454E, GONE = 0x474F4E45, KEPT_EVENTS = 1024 };

struct CUevent_st {
    unsigned  magic;
    CUcontext context;
    CUstream  stream; /* the command that completes it; NULL: not recorded */
    uint64_t  number;
    bool      timed;
    int64_t   reached; /* ns; 0: not yet, or not timed */
    CUevent   next, previous;
};

/* Destroyed streams stay in the list, so that events recorded on them, and late users, find them. */
static CUstream streams;
static int64_t  pending;
static long     implicit_waits;
static CUevent  events;                   /* those not destroyed */
static CUevent  gone_events[KEPT_EVENTS]; /* destroyed, kept for a while to recognise late users */
static size_t   gone_next;

/* ---- commands ---- */

standin_command *standin_command_new(CUresult (*run)(standin_command *), size_t extra)
{
    standin_command *c = calloc(1, sizeof *c + extra);
    if (c)
        c->run = run;
    return c;
}

/* A stream that waits for another cannot be the one that it waits for: waits refer to commands enqueued before them. So
 * the recursion through run_wait is not deeper than there are streams. */
void standin_drain(CUstream s, uint64_t number)
{
    while (s->head && s->head->number <= number) {
        standin_command *c = s->head;
        CUresult         code;

        s->head = c->next;
        if (!s->head)
            s->tail = &s->head;
        code = s->context->lost ? CUDA_SUCCESS : c->run(c); /* a lost context does nothing any more */
        if (code != CUDA_SUCCESS)
            standin_lose(s->context, code);
        s->done = c->number;
        pending--;
        free(c);
    }
}

void standin_drain_all(void)
{
    for (CUstream s = streams; s; s = s->next)
        standin_drain(s, UINT64_MAX);
}

CUresult standin_enqueue(CUstream s, standin_command *c)
{
    c->number = ++s->enqueued;
    c->context = s->context;
    *s->tail = c;
    s->tail = &c->next;
    pending++;
    if (standin_set.order == EARLY)
        standin_drain(s, UINT64_MAX);
    return s->context->lost;
}

void standin_forget_streams(void)
{
    for (CUstream s = streams; s; s = s->next) {
        for (standin_command *c; (c = s->head);) {
            s->head = c->next;
            free(c);
        }
        s->done = s->enqueued;
        s->magic = GONE;
    }
    for (CUevent e; (e = events);) {
        events = e->next;
        free(e);
    }
    pending = 0;
    implicit_waits = 0;
}

static uint64_t random_bits(void)
{
    static uint64_t x;
    if (x == 0)
        x = standin_set.seed * 0x9E3779B97F4A7C15ull | 1;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x >> 16;
}

void standin_drain_some(void)
{
    if (standin_set.order != RANDOM || pending == 0)
        return;
    for (CUstream s = streams; s; s = s->next)
        if (s->head && random_bits() % 2)
            standin_drain(s, s->done + random_bits() % (s->enqueued - s->done + 1));
}

static bool overlap(const char *a, size_t size, const char *b, size_t bytes)
{
    return (uintptr_t)a < (uintptr_t)b + bytes && (uintptr_t)b < (uintptr_t)a + size;
}

static bool uses(const standin_command *c, const char *at, size_t size)
{
    const struct standin_kernel *kernel = c->launch.kernel;
    if ((c->to && overlap(c->to, c->bytes, at, size)) || (c->from && overlap(c->from, c->bytes, at, size)))
        return true;
    for (int i = 0; i < STANDIN_MAX_PLACES; i++)
        if (c->places[i] && overlap(c->places[i], 1, at, size))
            return true;
    for (int i = 0; kernel && i < kernel->count; i++) {
        CUdeviceptr pointer;
        if (!kernel->pointers[i])
            continue;
        memcpy(&pointer, c->launch.arguments[i], sizeof pointer);
        if (pointer && overlap(STANDIN_UNTAG(pointer), 1, at, size))
            return true;
    }
    return false;
}

void standin_drain_users(const char *at, size_t size)
{
    bool waited = false;
    for (CUstream s = streams; s; s = s->next) {
        uint64_t last = 0;
        for (const standin_command *c = s->head; c; c = c->next)
            if (uses(c, at, size))
                last = c->number;
        waited |= last > 0;
        standin_drain(s, last);
    }
    implicit_waits += waited;
}

int64_t standin_pending(void)
{
    int64_t n;
    (void)standin_enter(CALLS, NOTHING);
    n = pending;
    (void)standin_leave(CUDA_SUCCESS);
    return n;
}

long standin_implicit_waits(void)
{
    long n;
    (void)standin_enter(CALLS, NOTHING);
    n = implicit_waits;
    (void)standin_leave(CUDA_SUCCESS);
    return n;
}

/* ---- streams ---- */

CUresult standin_check_stream(CUstream s)
{
    if (!s) {
        fprintf(stderr, "standin: the NULL stream waits for all others: use one of your own\n");
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return s->magic == STREAM ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
    CUresult code = standin_enter(CALL_cuStreamCreate, IN_CONTEXT);
    CUstream s = NULL;
    if (code == CUDA_SUCCESS && flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        code = CUDA_ERROR_INVALID_VALUE;
    if (code == CUDA_SUCCESS && !(s = calloc(1, sizeof *s)))
        code = CUDA_ERROR_OUT_OF_MEMORY;
    if (code == CUDA_SUCCESS) {
        *s = (struct CUstream_st){.magic = STREAM, .context = standin_context(), .next = streams};
        s->tail = &s->head;
        streams = s;
        *out = s;
    }
    return standin_leave(code);
}

CUresult cuStreamDestroy_v2(CUstream s)
{
    CUresult code = standin_enter(CALL_cuStreamDestroy_v2, IN_CONTEXT);
    if (code == CUDA_SUCCESS)
        code = standin_check_stream(s);
    if (code == CUDA_SUCCESS) {
        implicit_waits += s->head != NULL;
        standin_drain(s, UINT64_MAX);
        s->magic = GONE;
    }
    return standin_leave(code);
}

CUresult cuStreamSynchronize(CUstream s)
{
    CUresult code = standin_enter(CALL_cuStreamSynchronize, IN_CONTEXT);
    if (code == CUDA_SUCCESS)
        code = standin_check_stream(s);
    if (code == CUDA_SUCCESS) {
        standin_drain(s, UINT64_MAX);
        code = s->context->lost;
    }
    return standin_leave(code);
}

CUresult cuCtxSynchronize(void)
{
    CUresult  code = standin_enter(CALL_cuCtxSynchronize, IN_CONTEXT);
    CUcontext context = standin_context();
    for (CUstream s = streams; code == CUDA_SUCCESS && s; s = s->next)
        if (s->context == context)
            standin_drain(s, UINT64_MAX);
    if (code == CUDA_SUCCESS)
        code = context->lost;
    return standin_leave(code);
}

/* ---- events ---- */

static CUresult check_event(CUevent e)
{
    return e && e->magic == EVENT ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventCreate(CUevent *out, unsigned flags)
{
    CUresult code = standin_enter(CALL_cuEventCreate, IN_CONTEXT);
    if (code == CUDA_SUCCESS && flags & ~(unsigned)CU_EVENT_DISABLE_TIMING)
        code = CUDA_ERROR_INVALID_VALUE;
    if (code == CUDA_SUCCESS && !(*out = calloc(1, sizeof **out)))
        code = CUDA_ERROR_OUT_OF_MEMORY;
    if (code == CUDA_SUCCESS) {
        **out = (struct CUevent_st){
            .magic = EVENT, .context = standin_context(), .timed = !(flags & CU_EVENT_DISABLE_TIMING), .next = events};
        if (events)
            events->previous = *out;
        events = *out;
    }
    return standin_leave(code);
}

CUresult cuEventDestroy_v2(CUevent e)
{
    CUresult code = standin_enter(CALL_cuEventDestroy_v2, IN_CONTEXT);
    if (code == CUDA_SUCCESS)
        code = check_event(e);
    if (code == CUDA_SUCCESS) {
        *(e->previous ? &e->previous->next : &events) = e->next;
        if (e->next)
            e->next->previous = e->previous;
        e->magic = GONE;
        free(gone_events[gone_next]);
        gone_events[gone_next] = e;
        gone_next = (gone_next + 1) % KEPT_EVENTS;
    }
    return standin_leave(code);
}

/* The event may be gone, or recorded anew, when its turn comes. */
static CUresult run_record(standin_command *c)
{
    CUevent         e = events;
    struct timespec now;
    if (c->timed) {
        while (e && e != c->timed)
            e = e->next;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (e && e->number == c->number)
            e->reached = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    }
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent e, CUstream s)
{
    CUresult         code = standin_enter(CALL_cuEventRecord, IN_CONTEXT);
    standin_command *c;
    if (code == CUDA_SUCCESS)
        code = check_event(e);
    if (code == CUDA_SUCCESS)
        code = standin_check_stream(s);
    if (code == CUDA_SUCCESS && e->context != s->context)
        code = CUDA_ERROR_INVALID_HANDLE;
    if (code == CUDA_SUCCESS) {
        c = standin_command_new(run_record, 0);
        if (c) {
            c->timed = e->timed ? e : NULL;
            e->reached = 0;
            e->stream = s;
            e->number = s->enqueued + 1;
        }
        code = c ? standin_enqueue(s, c) : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return standin_leave(code);
}

/* Asking does not wait: NOT_READY until both were reached. */
CUresult cuEventElapsedTime(float *ms, CUevent first, CUevent last)
{
    CUresult code = standin_enter(CALL_cuEventElapsedTime, IN_CONTEXT);
    if (code == CUDA_SUCCESS)
        code = check_event(first);
    if (code == CUDA_SUCCESS)
        code = check_event(last);
    if (code == CUDA_SUCCESS && (!first->timed || !last->timed || !first->stream || !last->stream ||
                                 first->context != last->context || first->context != standin_context()))
        code = CUDA_ERROR_INVALID_HANDLE;
    if (code == CUDA_SUCCESS)
        code = first->context->lost;
    if (code == CUDA_SUCCESS && (!first->reached || !last->reached))
        code = CUDA_ERROR_NOT_READY;
    if (code == CUDA_SUCCESS)
        *ms = (float)((double)(last->reached - first->reached) / 1e6);
    return standin_leave(code);
}

/* A loop that asks makes progress, by one command a question. */
CUresult cuEventQuery(CUevent e)
{
    CUresult code = standin_enter(CALL_cuEventQuery, IN_CONTEXT);
    if (code == CUDA_SUCCESS)
        code = check_event(e);
    if (code == CUDA_SUCCESS && e->stream) {
        if (e->stream->done < e->number) {
            standin_drain(e->stream, e->stream->done + 1);
            code = CUDA_ERROR_NOT_READY;
        }
        if (e->context->lost)
            code = e->context->lost;
    }
    return standin_leave(code);
}

CUresult cuEventSynchronize(CUevent e)
{
    CUresult code = standin_enter(CALL_cuEventSynchronize, IN_CONTEXT);
    if (code == CUDA_SUCCESS)
        code = check_event(e);
    if (code == CUDA_SUCCESS && e->stream) {
        standin_drain(e->stream, e->number);
        code = e->context->lost;
    }
    return standin_leave(code);
}

static CUresult run_wait(standin_command *c)
{
    standin_drain(c->waited, c->waited_number);
    return CUDA_SUCCESS;
}

/* What the event stands for now: recording it again later changes nothing. */
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags)
{
    CUresult         code = standin_enter(CALL_cuStreamWaitEvent, IN_CONTEXT);
    standin_command *c;
    if (code == CUDA_SUCCESS && flags)
        code = CUDA_ERROR_INVALID_VALUE;
    if (code == CUDA_SUCCESS)
        code = check_event(e);
    if (code == CUDA_SUCCESS)
        code = standin_check_stream(s);
    if (code == CUDA_SUCCESS && e->stream) {
        c = standin_command_new(run_wait, 0);
        if (c) {
            c->waited = e->stream;
            c->waited_number = e->number;
        }
        code = c ? standin_enqueue(s, c) : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return standin_leave(code);
}

/* ---- libraries ---- */

void *standin_place(CUstream s, unsigned long long at, size_t bytes)
{
    const standin_allocation *a = NULL;
    (void)standin_enter(CALLS, NOTHING);
    if (standin_check_stream(s) == CUDA_SUCCESS)
        a = standin_find(at, bytes);
    if (a && a->context != s->context)
        a = NULL;
    (void)standin_leave(CUDA_SUCCESS);
    return a ? STANDIN_UNTAG(at) : NULL;
}

static CUresult run_call(standin_command *c)
{
    return c->call(c->data);
}

int standin_submit(CUstream s, int (*run)(void *), const void *data, size_t size, void *const *places, int count)
{
    CUresult         code;
    standin_command *c;
    (void)standin_enter(CALLS, NOTHING);
    standin_drain_some();
    code = standin_check_stream(s);
    if (code == CUDA_SUCCESS && s->context != standin_context())
        code = CUDA_ERROR_INVALID_CONTEXT;
    if (code == CUDA_SUCCESS && count > STANDIN_MAX_PLACES)
        code = CUDA_ERROR_INVALID_VALUE;
    if (code == CUDA_SUCCESS)
        code = s->context->lost;
    if (code == CUDA_SUCCESS) {
        c = standin_command_new(run_call, size);
        if (c) {
            memcpy(c->data, data, size);
            c->call = run;
            for (int i = 0; i < count; i++)
                c->places[i] = places[i];
        }
        code = c ? standin_enqueue(s, c) : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return standin_leave(code);
}
