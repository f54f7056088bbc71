/* Events: what the library does, as it happens.
 *
 * A profiler, a count of transfers, a memory timeline, a log: each is a function that subscribes to some kinds of
 * events. The placement log (placement.h), the sync report (sync.h), haul_watch_calls (nn.h) and the transfer
 * statistics (transfer.h) read the same stream. Without subscribers, an event costs one branch.
 *
 *     static void note(const haul_event *e, void *context)
 *     {
 *         printf("%s %s, %lld bytes\n", haul_event_kind_name(e->kind), e->operation, (long long)e->bytes);
 *     }
 *
 *     int64_t id = haul_events_subscribe(note, .kinds = HAUL_EVENT_COPY | HAUL_EVENT_WAIT);
 *     run();
 *     haul_events_unsubscribe(id);
 *
 * A command that a device refuses makes no events. On the CPU, submitted, started and done are reported together when
 * the command is done, with the times of its beginning and end. On other devices HAUL_EVENT_COMMAND_SUBMITTED comes
 * when the device has the command. Started and done come when a thread has waited for the device, for instance in
 * haul_item or haul_device_sync: on that thread, but with `thread`, `depth`, `origin` and `label` of the thread that
 * submitted the command. Subscribers of the submitting thread alone get them when that thread waits. The times of
 * devices are converted to the host's clock as well as possible; if the device keeps none, they say when the host
 * learned of the event. */
#ifndef HAUL_EVENTS_H
#define HAUL_EVENTS_H

#include <haul/base.h>
#include <haul/error.h>

HAUL_BEGIN

/* X(NAME, bit, text) for each kind of event: its name without HAUL_EVENT_, its bit, and the text of
 * haul_event_kind_name. */
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
    X(LABEL_END, 21, "label ended")                                                                                    \
    X(WORK_BEGIN, 22, "work begun")                                                                                    \
    X(WORK_END, 23, "work ended")                                                                                      \
    X(COLLECTIVE_BEGIN, 24, "collective begun")                                                                        \
    X(COLLECTIVE_END, 25, "collective ended")

/* The kinds of events, and the members of haul_event that each kind sets. Every event has `kind`, `thread`, `depth`,
 * `origin`, `label` and `time`. Members that are not listed are 0, "" or NULL. `operation` is the public function,
 * "haul_matmul", unless the list says otherwise.
 *
 * - HAUL_EVENT_NONE: no kind
 * - HAUL_EVENT_OPERATION_BEGIN: `operation`
 * - HAUL_EVENT_OPERATION_END: `operation`, `duration`, `x` (the operands as given, at most 16 of them), `y` (the
 *   results; none of either if it failed), `device` (where it was computed), `flops` and `bytes` (the arithmetic, and
 *   the bytes that it reads and writes; 0 for a view and for an operation that consists of others), `node` (if a
 *   gradient may be taken)
 * - HAUL_EVENT_COMMAND_SUBMITTED: `operation`, `device`, `stream`, `command`, `bytes` (for a copy or fill those that it
 *   writes, otherwise those of its buffers), `copy` (if it is a part of one), `text` ("launch", "library call", "copy",
 *   "fill" or "callback"), `kernel` (of a launch the kernel, "softmax_f32"; of a library call the implementation,
 *   "onednn", if it has a name)
 * - HAUL_EVENT_COMMAND_STARTED: as HAUL_EVENT_COMMAND_SUBMITTED, and `submitted`
 * - HAUL_EVENT_COMMAND_DONE: as HAUL_EVENT_COMMAND_STARTED; `time` and `duration` are the device's, and `duration` is
 *   0 if it keeps none
 * - HAUL_EVENT_COPY_TO_DEVICE: a copy over a link was submitted: `operation`, `device` (the target), `other` (the
 *   source), `bytes`, `copy`, `storage` (the one at the device's end), `host` (where the bytes are in host memory),
 *   `settled`, `tensor` (its name if it is known: that of a parameter, an input of a module, an operand, a field of a
 *   batch or a tensor in a file), `text` (the memory at the host's end: "pinned", "pageable", or "" if the device makes
 *   no difference), `problem` ("f32 to f16" if the elements are converted on their way), `duration` (how long the host
 *   waited in the call), `submitted` (when the call began; 0 if it is not known), `planned` (what HAUL_PLACE_AUTO
 *   counted for the copy; 0 if the program asked for it)
 * - HAUL_EVENT_COPY_TO_HOST: the same, to host memory, where it may not have arrived yet
 * - HAUL_EVENT_COPY_BETWEEN: the same, between two devices without a stop in host memory
 * - HAUL_EVENT_WAITED: the host waited for work: `operation`, `device`, `stream`, `bytes` (of the copy, if it waited
 *   for one), `duration`, `text` ("waited")
 * - HAUL_EVENT_FOUND_DONE: the host would have waited, but the work was done: as HAUL_EVENT_WAITED, `text` "found done"
 * - HAUL_EVENT_DRIVER_CALLED: a call in which a driver may wait: `operation` (for a compilation the kernel), `device`,
 *   `bytes`, `duration`, `text` ("obtained memory", "gave memory back", "obtained pinned memory", "gave pinned memory
 *   back", "was compiled", "was compiled for its first run" if the driver compiles when a kernel first runs, "planned a
 *   convolution")
 * - HAUL_EVENT_MEMORY_OBTAINED: the allocator got a block from the device: `operation` (which needed it), `device`,
 *   `block`, `bytes` of the block, `duration`, `text` ("pinned" for pinned host memory, else "")
 * - HAUL_EVENT_MEMORY_ALLOCATED: a storage got a block: `operation`, `device`, `storage`, `block`, `bytes` of the
 *   block, `requested`, `host` (its memory if it is the host's), `text` as above
 * - HAUL_EVENT_MEMORY_FREED: a storage gave its block back to the allocator: the same, where `operation` is the one
 *   that allocated it, and `role` (what it was used for)
 * - HAUL_EVENT_MEMORY_RETURNED: the allocator gave a block back to the device: as HAUL_EVENT_MEMORY_OBTAINED
 * - HAUL_EVENT_PLACEMENT: under a policy that moves operands: `operation`, `device` (where it runs), `text` (an
 *   operand), `bytes` (its size), `other`. If `other` is NULL, the operation runs where this operand is; otherwise this
 *   operand moves from there. Under HAUL_PLACE_AUTO each operation gives one with neither `text` nor `other`: `problem`
 *   is the reason in words
 * - HAUL_EVENT_IMPLEMENTATION: one of several implementations was chosen: `operation`, `device`, `text` (its name,
 *   "onednn"), `problem` (dtype and shapes in words), `refused` (those before it in the list and why each was not used,
 *   "cudnn: it was not found; ..."; "" if it was the first). Where memory was short, the reason is "winograd: 12.0 MiB
 *   of scratch memory were refused". The chosen one is in this list, too, if it used another algorithm for this reason:
 *   "cudnn: 12.0 MiB of scratch memory were refused, so it computed with less"
 * - HAUL_EVENT_KERNEL_COMPILED: `operation` (the kernel), `device`, `duration`, `text` (its dtype)
 * - HAUL_EVENT_CALL_BEGIN: the forward function of a module begins: `module`, `x` (the inputs as given, before they are
 *   moved), `text` (the module's kind)
 * - HAUL_EVENT_CALL_END: it ended: the same, `duration`, `y` (the results; none if it failed)
 * - HAUL_EVENT_LABEL_BEGIN: `text` (the label that begins, which is not yet `label`)
 * - HAUL_EVENT_LABEL_END: `text`, `duration`
 * - HAUL_EVENT_WORK_BEGIN: work that consists of operations begins: `operation`, `text` ("backward pass", "gradient" of
 *   the operation, "optimizer step", "next batch" that a loader is asked for, "batch made" by a loader), `node` (the
 * node whose gradient is computed)
 * - HAUL_EVENT_WORK_END: the same, `duration`
 * - HAUL_EVENT_COLLECTIVE_BEGIN: this rank begins an exchange with the other ranks of its group:
 *   `operation`, `text` (the data, "bucket 2 of step 41"; may be ""), `command` (the number of the collective
 *   in its group, or that of a message of haul_send or haul_receive among those that its two ranks sent that way)
 * - HAUL_EVENT_COLLECTIVE_END: the thread that began it has waited for it: the same, `bytes` (elements that this rank
 *   has sent to others), `time` (when it was over, which may be long before the event), `duration`. The event
 *   also comes if the exchange failed. Other work of the thread may begin and end between the two
 * - HAUL_EVENT_END: one more than the last bit */
typedef enum haul_event_kind {
    HAUL_EVENT_NONE = 0,
#define X(NAME, bit, text) HAUL_EVENT_##NAME = 1 << bit,
    HAUL_EVENT_LIST(X)
#undef X
        HAUL_EVENT_END
} haul_event_kind;

/* Groups of kinds, for subscriptions.
 *
 * - HAUL_EVENT_OPERATION: beginning and end of operations
 * - HAUL_EVENT_COMMAND: commands submitted, started and done
 * - HAUL_EVENT_COPY: copies over links, in all directions
 * - HAUL_EVENT_WAIT: waits, and calls of drivers that may wait
 * - HAUL_EVENT_MEMORY: memory obtained, allocated, freed and returned
 * - HAUL_EVENT_CALL: beginning and end of modules' forward functions
 * - HAUL_EVENT_LABEL: beginning and end of labels
 * - HAUL_EVENT_WORK: beginning and end of work that consists of operations
 * - HAUL_EVENT_COLLECTIVE: beginning and end of exchanges between the ranks of a group
 * - HAUL_EVENT_ALL: all kinds */
enum {
    HAUL_EVENT_OPERATION = HAUL_EVENT_OPERATION_BEGIN | HAUL_EVENT_OPERATION_END,
    HAUL_EVENT_COMMAND = HAUL_EVENT_COMMAND_SUBMITTED | HAUL_EVENT_COMMAND_STARTED | HAUL_EVENT_COMMAND_DONE,
    HAUL_EVENT_COPY = HAUL_EVENT_COPY_TO_DEVICE | HAUL_EVENT_COPY_TO_HOST | HAUL_EVENT_COPY_BETWEEN,
    HAUL_EVENT_WAIT = HAUL_EVENT_WAITED | HAUL_EVENT_FOUND_DONE | HAUL_EVENT_DRIVER_CALLED,
    HAUL_EVENT_MEMORY =
        HAUL_EVENT_MEMORY_OBTAINED | HAUL_EVENT_MEMORY_ALLOCATED | HAUL_EVENT_MEMORY_FREED | HAUL_EVENT_MEMORY_RETURNED,
    HAUL_EVENT_CALL = HAUL_EVENT_CALL_BEGIN | HAUL_EVENT_CALL_END,
    HAUL_EVENT_LABEL = HAUL_EVENT_LABEL_BEGIN | HAUL_EVENT_LABEL_END,
    HAUL_EVENT_WORK = HAUL_EVENT_WORK_BEGIN | HAUL_EVENT_WORK_END,
    HAUL_EVENT_COLLECTIVE = HAUL_EVENT_COLLECTIVE_BEGIN | HAUL_EVENT_COLLECTIVE_END,
    HAUL_EVENT_ALL = 2 * (HAUL_EVENT_END - 1) - 1
};

/* The name of a kind of event: "operation begun"; "invalid" for anything that is not one kind. */
HAUL_API const char *haul_event_kind_name(haul_event_kind kind);

/* The inputs or the results of a module's call or of an operation. */
typedef struct haul_call_values {
    int                 count;   /* how many there are */
    haul_tensor *const *tensors; /* the tensors */
    const char *const  *names;   /* their names, "x", "mask" */
} haul_call_values;

/* An event. The struct, its texts, tensors and frames are valid until the subscriber returns: copy what you keep.
 * Devices live as long as the process. */
typedef struct haul_event {
    haul_event_kind kind; /* the kind of event */
    /* the thread on which it happened; threads are numbered from 1 as their first events come */
    int thread;
    /* operations, calls and labels of the thread around it, counting those that were reported */
    int         depth;
    const char *operation; /* the operation, "haul_matmul" */
    /* path of the module being called, "features.0", or whose gradient is being computed; "" outside of modules. A
     * gradient has it if events had a subscriber when its operation was called */
    const char        *origin;
    const char        *label;          /* the innermost label of the thread */
    const char        *text;           /* depends on the kind */
    const char        *stream;         /* the stream: "compute", "upload", "download" or "ahead" */
    const char        *tensor;         /* the name of the tensor that is copied; "" if none is known */
    const char        *kernel;         /* the kernel of a launch, or of a copy that one makes; the implementation; "" */
    const haul_device *device, *other; /* device: the device; other: the source of a copy or move */
    /* storage: number of a storage, never used again; block: number of a block of memory, never used again */
    uint64_t     storage, block;
    uint64_t     command;          /* number of a command, the same in all its events */
    uint64_t     copy;             /* number of a copy, the same in its event and in those of its commands */
    uint64_t     node;             /* number of a node of the graph, the same in the events of its gradient */
    const void  *host;             /* the address of a copy or block in host memory, or NULL */
    bool         settled;          /* `bytes` bytes at `host` may be read until the subscriber returns */
    double       flops;            /* floating-point operations */
    int64_t      bytes;            /* depends on the kind */
    int64_t      requested;        /* bytes that were asked for; blocks are rounded up */
    int64_t      time;             /* nanoseconds of a monotonic clock: when it happened, or ended */
    int64_t      duration;         /* nanoseconds: it began at time - duration */
    int64_t      submitted;        /* nanoseconds of that clock: when the command was submitted, or the copy begun */
    int64_t      planned;          /* nanoseconds: what a copy should take by the speeds of the two devices */
    haul_module *module;           /* the module that is called */
    const haul_call_values *x, *y; /* x: inputs of the call or operation; y: its results */
    void *const *frames;      /* return addresses, innermost first, beginning in the library; NULL unless requested */
    int          frame_count; /* the number of `frames` */
    /* problem: dtype and shapes, or the conversion of a copy, in words; refused: the implementations that were not
     * used, and why */
    const char *problem, *refused;
    const char *role; /* of memory: what it is used for, as in haul_memory_by_role */
} haul_event;

/* A subscription to events. The function `take` is called on the thread on which the event happened, before that thread
 * goes on.
 *
 * - It may use Haul like any other code: the library holds no lock. Nothing that it does makes events, and its errors
 *   do not replace an error of the thread.
 * - It runs in a scope of its own, in which objects that it makes end with it: haul_keep holds them longer. The
 *   thread's settings are those of the code that called Haul, for instance whether graphs are recorded, even where Haul
 *   has changed them for its own work. It is not recomputed (haul_checkpoint).
 * - It must not change the graph, or tensors of the event. The rules of scope.h hold for it: it must close only scopes
 *   that it opened, and must return. A thread on which a subscriber was left by longjmp or an exception keeps no other
 *   thread waiting.
 * - It may subscribe and unsubscribe, itself included.
 * - With .everywhere it gets the events of all threads, including those that start later. Several threads may call it
 *   at the same time.
 * - Without .everywhere it gets the events of the thread that subscribed, and ends with that thread. */
typedef struct HAUL__DESIGNATED haul_subscription {
    void (*take)(const haul_event *event, void *context); /* the subscriber; positional */
    HAUL__GUARD(kinds)
    uint32_t kinds;      /* the kinds, joined with |; default HAUL_EVENT_ALL */
    void    *context;    /* passed to `take` */
    bool     everywhere; /* events of all threads */
    uint32_t frames;     /* kinds that come with `frames`; walking the stack takes microseconds */
} haul_subscription;

/* Subscribe to events: haul_events_subscribe(take, .kinds = HAUL_EVENT_WAIT, .everywhere = true). The subscription is
 * copied, and belongs to no scope. Returns a positive number for haul_events_unsubscribe, 0 on failure. */
#define haul_events_subscribe(...) haul_events_subscribe_with(HAUL__OPTIONS(haul_subscription, .take = __VA_ARGS__))
HAUL_API int64_t haul_events_subscribe_with(const haul_subscription *subscription);

/* End a subscription. The subscriber is not called again. When the function returns, it is not running on any thread,
 * unless a subscriber called the function: that one waits for no other thread. 0 is ignored. Fails for a number that
 * does not belong to a subscription of the calling thread or of the process. */
HAUL_API haul_status haul_events_unsubscribe(int64_t id);

/* Name a part of the program, "epoch 3" or "validation": events within it carry the label. Labels nest, at most 32
 * deep, and belong to the thread, which must end each of them.
 *
 * - text: must stay valid until haul_label_end */
HAUL_API haul_status haul_label_begin(const char *text);
HAUL_API haul_status haul_label_end(void);

HAUL_END

#endif
