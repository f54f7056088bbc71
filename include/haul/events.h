/* Events: what the library does, as it happens, for whoever asks.
 *
 * A profiler, a ledger of transfers, a memory timeline, a log: each is a function that subscribes to some kinds of
 * events. There is one stream; the placement log (placement.h), the sync report (sync.h), haul_watch_calls (nn.h) and
 * the transfer statistics (transfer.h) read it, too. While nobody listens an event costs the test of one word.
 *
 *     static void note(const haul_event *e, void *context)
 *     {
 *         printf("%s %s, %lld bytes\n", haul_event_kind_name(e->kind), e->operation, (long long)e->bytes);
 *     }
 *     int64_t id = haul_events_subscribe(note, .kinds = HAUL_EVENT_COPY | HAUL_EVENT_WAIT);
 *     ...
 *     haul_events_unsubscribe(id);
 */
#ifndef HAUL_EVENTS_H
#define HAUL_EVENTS_H

#include <haul/base.h>
#include <haul/error.h>

HAUL_BEGIN

/* X(NAME, bit, text): the kinds, and what haul_event_kind_name answers.
 *
 * What the fields of an event hold, by kind. Every event has kind, thread, depth, origin, label and time; fields that
 * are not listed are 0, "" or NULL.
 *
 *   OPERATION_BEGIN      operation
 *   OPERATION_END        operation, duration
 *   COMMAND_SUBMITTED    operation, device, stream, command, bytes (of a copy or fill those it writes, else of its
 *                        buffers), text (launch, library call, copy, fill or callback)
 *   COMMAND_STARTED      as SUBMITTED
 *   COMMAND_DONE         as SUBMITTED; time and duration are the device's, duration 0 where it keeps none
 *   COPY_TO_DEVICE       a copy over a link was submitted: operation, device (the target), other (the source), bytes
 *   COPY_TO_HOST         the same, to host memory
 *   COPY_BETWEEN         the same, between two devices without a stop in host memory
 *   WAITED               the host waited for work: operation, device, stream, bytes (of the copy, if one was waited
 *                        for), duration, text ("waited")
 *   FOUND_DONE           the host came to wait, and the work was done: as WAITED, text "found done"
 *   DRIVER_CALLED        a call in which a driver may wait by itself: operation (of a compilation the kernel), device,
 *                        bytes, duration, text ("obtained memory", "gave memory back", "obtained pinned memory", "gave
 *                        pinned memory back", "was compiled", "planned a convolution")
 *   MEMORY_OBTAINED      the allocator got a block from the device: operation (for whose sake), device, block, bytes of
 *                        the block, duration, text ("pinned" for pinned host memory, else "")
 *   MEMORY_ALLOCATED     a storage was given a block: operation, device, storage, block, bytes of the block, requested,
 *                        text as above
 *   MEMORY_FREED         a storage gave its block back to the allocator: the same, operation being who allocated it
 *   MEMORY_RETURNED      the allocator gave a block back to the device: as MEMORY_OBTAINED
 *   PLACEMENT            under HAUL_PLACE_MOVE: operation, device (where it runs), text (an operand), bytes (its size),
 *                        other. other is NULL: the operation runs where this operand is; else this operand moves from
 *                        there
 *   IMPLEMENTATION       one of several ways to compute was chosen: operation, device, text (its name, "onednn"),
 *                        problem (dtype and shapes in words), refused (those preferred to it and why each was not
 *                        taken, "cudnn: it was not found; ..."; "" if it was the first)
 *   KERNEL_COMPILED      operation (the kernel), device, duration, text (its dtype)
 *   CALL_BEGIN           forward of a module begins: module, x (the inputs as given, before they are moved), text (the
 *                        module's kind)
 *   CALL_END             it ended: the same, duration, y (the results; none when it failed)
 *   LABEL_BEGIN          text (the label that begins, which is not yet `label`)
 *   LABEL_END            text, duration
 *
 * operation is the public function, "haul_matmul", or what else is named above.
 *
 * A command that the device refuses makes no events. On the CPU all three come when the command is done, with the times
 * of its beginning and end. On other devices SUBMITTED comes when the device has the command. STARTED and DONE come
 * when a thread has waited for the device, by haul_item or haul_device_sync for example: on that thread, but with
 * thread, depth, origin and label of the one that submitted the command. Subscribers of the submitting thread alone
 * hear them when that thread waits. Times of devices are put on the host's clock as well as can be told; where the
 * device keeps none, they say when the host came to know. */
#define HAUL_EVENT_LIST(X)                                                                                             \
    X(OPERATION_BEGIN, 0, "operation begun")                                                                           \
    X(OPERATION_END, 1, "operation ended")                                                                             \
    X(COMMAND_SUBMITTED, 2, "command submitted")                                                                       \
    X(COMMAND_STARTED, 3, "command started")                                                                           \
    X(COMMAND_DONE, 4, "command done")                                                                                 \
    X(COPY_TO_DEVICE, 5, "copy to device")                                                                             \
    X(COPY_TO_HOST, 6, "copy to host")                                                                                 \
    X(COPY_BETWEEN, 7, "copy between devices")                                                                         \
    X(WAITED, 8, "waited")                                                                                             \
    X(FOUND_DONE, 9, "found done")                                                                                     \
    X(DRIVER_CALLED, 10, "driver called")                                                                              \
    X(MEMORY_OBTAINED, 11, "memory obtained")                                                                          \
    X(MEMORY_ALLOCATED, 12, "memory allocated")                                                                        \
    X(MEMORY_FREED, 13, "memory freed")                                                                                \
    X(MEMORY_RETURNED, 14, "memory returned")                                                                          \
    X(PLACEMENT, 15, "placement")                                                                                      \
    X(IMPLEMENTATION, 16, "implementation")                                                                            \
    X(KERNEL_COMPILED, 17, "kernel compiled")                                                                          \
    X(CALL_BEGIN, 18, "call begun")                                                                                    \
    X(CALL_END, 19, "call ended")                                                                                      \
    X(LABEL_BEGIN, 20, "label begun")                                                                                  \
    X(LABEL_END, 21, "label ended")

/* An event has one of these. */
typedef enum haul_event_kind {
    HAUL_EVENT_NONE = 0,
#define X(NAME, bit, text) HAUL_EVENT_##NAME = 1 << bit,
    HAUL_EVENT_LIST(X)
#undef X
        HAUL_EVENT_END
} haul_event_kind;

/* What belongs together, for subscriptions. */
enum {
    HAUL_EVENT_OPERATION = HAUL_EVENT_OPERATION_BEGIN | HAUL_EVENT_OPERATION_END,
    HAUL_EVENT_COMMAND = HAUL_EVENT_COMMAND_SUBMITTED | HAUL_EVENT_COMMAND_STARTED | HAUL_EVENT_COMMAND_DONE,
    HAUL_EVENT_COPY = HAUL_EVENT_COPY_TO_DEVICE | HAUL_EVENT_COPY_TO_HOST | HAUL_EVENT_COPY_BETWEEN,
    HAUL_EVENT_WAIT = HAUL_EVENT_WAITED | HAUL_EVENT_FOUND_DONE | HAUL_EVENT_DRIVER_CALLED,
    HAUL_EVENT_MEMORY =
        HAUL_EVENT_MEMORY_OBTAINED | HAUL_EVENT_MEMORY_ALLOCATED | HAUL_EVENT_MEMORY_FREED | HAUL_EVENT_MEMORY_RETURNED,
    HAUL_EVENT_CALL = HAUL_EVENT_CALL_BEGIN | HAUL_EVENT_CALL_END,
    HAUL_EVENT_LABEL = HAUL_EVENT_LABEL_BEGIN | HAUL_EVENT_LABEL_END,
    HAUL_EVENT_ALL = 2 * (HAUL_EVENT_END - 1) - 1
};

/* "operation begun"; "invalid" for what is not one kind. */
HAUL_API const char *haul_event_kind_name(haul_event_kind kind);

/* The inputs or the results of a module's call. */
typedef struct haul_call_values {
    int                 count;
    haul_tensor *const *tensors;
    const char *const  *names; /* "x", "mask" */
} haul_call_values;

/* The event, its texts, tensors and frames are valid until the subscriber returns: copy what is to be kept. Devices
 * live as long as the process. */
typedef struct haul_event {
    haul_event_kind         kind;
    int                     thread; /* where it happened: threads are numbered from 1 as their first events come */
    int                     depth;  /* operations, calls and labels of the thread around it, of those that were heard */
    const char             *operation; /* "haul_matmul" */
    const char             *origin;    /* the path of the module under way, "features.0"; "" outside of modules */
    const char             *label;     /* the innermost label of the thread */
    const char             *text;
    const char             *stream;         /* "compute", "upload", "download" */
    const haul_device      *device, *other; /* `other` is the source of a copy or move */
    uint64_t                storage, block; /* numbers that are never used again */
    uint64_t                command;        /* the same in SUBMITTED, STARTED and DONE */
    int64_t                 bytes;
    int64_t                 requested; /* bytes that were asked for: blocks are rounded up */
    int64_t                 time;      /* of a monotonic clock, in ns: when it happened, or ended */
    int64_t                 duration;  /* ns: it began at time - duration */
    haul_module            *module;
    const haul_call_values *x, *y; /* of CALL_BEGIN and CALL_END; NULL else */
    void *const *frames; /* return addresses, innermost first, beginning in the library; NULL unless asked for */
    int          frame_count;
    const char  *problem, *refused; /* of IMPLEMENTATION */
} haul_event;

/* Who listens. `take` is called on the thread on which the event happened, before that thread goes on:
 *   - It may use Haul as anybody may: no lock of the library is held, but that which serialises process-wide
 *     subscribers. Whatever it does makes no events, and an error it meets does not replace one of the thread. It
 * should open a scope for the tensors it makes, and leave open scopes, the graph and tensors of the event alone.
 *   - It may subscribe and unsubscribe, itself included.
 *   - With `everywhere` it hears all threads, those included that start later; all such subscribers are called by one
 *     thread at a time. It must not wait for another thread that uses Haul. Else it hears the thread that subscribed,
 * and ends with it. */
typedef struct HAUL__DESIGNATED haul_subscription {
    void (*take)(const haul_event *event, void *context); /* positional */
    HAUL__GUARD
    uint32_t kinds; /* of haul_event_kind; default: all */
    void    *context;
    bool     everywhere;
    uint32_t frames; /* kinds that come with `frames`; a walk over the stack takes microseconds */
} haul_subscription;

/* haul_events_subscribe(take, .kinds = HAUL_EVENT_WAIT, .everywhere = true): a positive number for
 * haul_events_unsubscribe; 0 on failure. The subscription is copied. It belongs to no scope. */
#define haul_events_subscribe(...) haul_events_subscribe_with(HAUL__OPTIONS(haul_subscription, .take = __VA_ARGS__))
HAUL_API int64_t haul_events_subscribe_with(const haul_subscription *subscription);

/* When it returns the subscriber is not running on any thread and will not be called again (unless it called this
 * itself, and is still about to return). 0 is ignored; a number that is no subscription of this thread or of the
 * process is refused. */
HAUL_API haul_status haul_events_unsubscribe(int64_t id);

/* Name a part of the program, "epoch 3" or "validation": events within it carry the label. Labels nest, at most 32
 * deep, and belong to the thread, which ends each before it ends itself. `text` must stay valid until haul_label_end.
 */
HAUL_API haul_status haul_label_begin(const char *text);
HAUL_API haul_status haul_label_end(void);

HAUL_END

#endif
