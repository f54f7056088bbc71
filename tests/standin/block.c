/* The threads of a block are user-level contexts, fibers, on stacks of their own; one runs at a time, until it has to
 * wait for others. A fiber runs one thread after the other until one of them waits; only then another fiber is begun.
 * So a kernel without barriers costs one switch a block. Threads that go on after waiting hand over to each other in
 * turn, and the last of them to the scheduler. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define STANDIN_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STANDIN_ASAN 1
#endif
#endif

#ifdef STANDIN_ASAN
#include <sanitizer/common_interface_defs.h>
enum { STACK = 256 * 1024 };
#else
enum { STACK = 64 * 1024 };
#endif

/* ---- changing stacks ---- */

#if defined(__x86_64__)

/* Leaves the stack, saving where in *from, and goes on where `to` was saved. (swapcontext asks the kernel for the
 * signal mask, which costs 300 ns; longjmp is watched by sanitizers, which do not know these stacks.) */
void standin_switch(void **from, void *to);
__asm__(".text\n"
        ".p2align 4\n"
        ".globl standin_switch\n"
        ".hidden standin_switch\n"
        ".type standin_switch, @function\n"
        "standin_switch:\n"
        "pushq %rbp\n"
        "pushq %rbx\n"
        "pushq %r12\n"
        "pushq %r13\n"
        "pushq %r14\n"
        "pushq %r15\n"
        "movq %rsp, (%rdi)\n"
        "movq %rsi, %rsp\n"
        "popq %r15\n"
        "popq %r14\n"
        "popq %r13\n"
        "popq %r12\n"
        "popq %rbx\n"
        "popq %rbp\n"
        "ret\n"
        ".size standin_switch, . - standin_switch\n");

typedef void *saved;

/* As if `begin` had been called, and had left at once: six registers, and where to return to. */
static void prepare(saved *at, char *stack, size_t size, void (*begin)(void))
{
    uintptr_t top = ((uintptr_t)stack + size) & ~(uintptr_t)15;
    void    **words = (void **)top - 8;
    memset(words, 0, 8 * sizeof *words);
    words[6] = (void *)(uintptr_t)begin;
    *at = words;
}

static void change_stack(saved *from, saved *to)
{
    standin_switch(from, *to);
}

#else
#include <ucontext.h>

typedef ucontext_t saved;

static void prepare(saved *at, char *stack, size_t size, void (*begin)(void))
{
    getcontext(at);
    at->uc_stack.ss_sp = stack;
    at->uc_stack.ss_size = size;
    at->uc_link = NULL;
    makecontext(at, begin, 0);
}

static void change_stack(saved *from, saved *to)
{
    swapcontext(from, to);
}
#endif

/* ---- fibers ---- */

enum thread_state { WAITING_TO_START, RUNNING, AT_BARRIER, AT_EXCHANGE, FINISHED, STATES };

typedef struct fiber {
    saved         at; /* where to go on */
    const void   *stack;
    size_t        stack_size;
    unsigned      thread; /* of the block, while it runs one */
    struct fiber *next;   /* in the pool */
    struct fiber *made;   /* of all, so that leak checkers see them */
} fiber;

static struct {
    const standin_launch *launch;
    unsigned              threads, started, finished, round;
    enum thread_state     states[STANDIN_MAX_THREADS];
    fiber                *fibers[STANDIN_MAX_THREADS];
    unsigned long long    slots[2][STANDIN_MAX_THREADS]; /* two: a lane may be one exchange ahead of others */
    unsigned char         turns[STANDIN_MAX_THREADS];
} block;

/* The threads that go on one after the other. */
static struct {
    unsigned from, to, done;
    bool     backwards;
} order;

static struct standin_state state;
static fiber               *pool, *current, *all;
static fiber                scheduler; /* where run_block goes on; its stack is the calling thread's */
#ifdef STANDIN_ASAN
static fiber *before; /* the one that handed over last */
#endif

static void switch_fiber(fiber *from, fiber *to)
{
#ifdef STANDIN_ASAN
    void       *fake = NULL;
    const void *stack;
    size_t      size;

    before = from;
    __sanitizer_start_switch_fiber(&fake, to->stack, to->stack_size);
    change_stack(&from->at, &to->at);
    __sanitizer_finish_switch_fiber(fake, &stack, &size);
    if (before == &scheduler) { /* it may be on another thread than last time */
        scheduler.stack = stack;
        scheduler.stack_size = size;
    }
#else
    change_stack(&from->at, &to->at);
#endif
}

/* Whose turn it is after the running fiber. */
static fiber *next_fiber(void)
{
    if (order.done == order.to - order.from)
        return &scheduler;
    const unsigned at = order.done++;
    return block.fibers[order.backwards ? order.to - 1 - at : order.from + at];
}

static void hand_over(void)
{
    fiber *self = current;
    current = next_fiber();
    switch_fiber(self, current);
}

static void set_thread(unsigned t)
{
    const struct standin_dim size = state.blockDim;
    state.threadIdx = (struct standin_dim){t % size.x, t / size.x % size.y, t / (size.x * size.y)};
}

static void fiber_main(void)
{
#ifdef STANDIN_ASAN
    __sanitizer_finish_switch_fiber(NULL, &scheduler.stack, &scheduler.stack_size);
#endif
    for (;;) {
        while (block.started < block.threads) {
            unsigned t = block.started++;
            current->thread = t;
            block.fibers[t] = current;
            block.states[t] = RUNNING;
            set_thread(t);
            block.launch->kernel->call(block.launch->arguments);
            block.states[current->thread] = FINISHED;
            block.finished++;
        }
        current->next = pool;
        pool = current;
        hand_over();
    }
}

static fiber *take_fiber(void)
{
    fiber *f = pool;
    char  *stack;
    if (f) {
        pool = f->next;
        return f;
    }
    f = calloc(1, sizeof *f);
    stack = malloc(STACK);
    if (!f || !stack) {
        free(f);
        free(stack);
        return NULL;
    }
    f->stack = stack;
    f->stack_size = STACK;
    prepare(&f->at, stack, STACK, fiber_main);
    f->made = all;
    all = f;
    return f;
}

static void go_on(fiber *f)
{
    current = f;
    switch_fiber(&scheduler, f);
}

/* ---- what kernels call ---- */

static void wait_in(enum thread_state where)
{
    fiber *self = current;
    block.states[self->thread] = where;
    hand_over();
    block.states[self->thread] = RUNNING;
    set_thread(self->thread);
}

static void barrier(void)
{
    wait_in(AT_BARRIER);
}

static unsigned long long *put_slot(unsigned long long value)
{
    const unsigned t = current->thread, turn = block.turns[t] ^= 1;
    block.slots[turn][t] = value;
    wait_in(AT_EXCHANGE);
    return block.slots[turn];
}

static unsigned long long exchange(unsigned long long value, int to)
{
    const unsigned            t = current->thread, source = t / STANDIN_WARP * STANDIN_WARP + (unsigned)to;
    const unsigned long long *slots = put_slot(value);
    return to >= 0 && to < STANDIN_WARP && source < block.threads ? slots[source] : value;
}

static unsigned vote(int predicate)
{
    const unsigned            t = current->thread, first = t / STANDIN_WARP * STANDIN_WARP;
    const unsigned long long *slots = put_slot(predicate != 0);
    unsigned                  bits = 0;
    for (unsigned lane = 0; lane < STANDIN_WARP && first + lane < block.threads; lane++)
        bits |= (unsigned)(slots[first + lane] & 1) << lane;
    return bits;
}

const struct standin_api standin_api = {&state, barrier, exchange, vote};

/* ---- blocks ---- */

/* Lets threads [from, to) go on if all of them wait there: forwards and backwards in turn, so that no order between
 * them can be relied upon. */
static bool release(unsigned from, unsigned to, enum thread_state where)
{
    for (unsigned t = from; t < to; t++)
        if (block.states[t] != where)
            return false;
    block.round++;
    order.from = from;
    order.to = to;
    order.done = 0;
    order.backwards = block.round % 2;
    go_on(next_fiber());
    return true;
}

static CUresult report_parting(void)
{
    unsigned at[STATES] = {0};
    for (unsigned t = 0; t < block.threads; t++)
        at[block.states[t]]++;
    fprintf(stderr,
            "standin: %s: threads part ways in block %u: %u are at a barrier, %u at an exchange, %u have returned\n",
            block.launch->kernel->name, state.blockIdx.x, at[AT_BARRIER], at[AT_EXCHANGE], at[FINISHED]);
    return CUDA_ERROR_LAUNCH_FAILED; /* their fibers are left where they are */
}

static CUresult run_block(void)
{
    block.started = block.finished = 0;
    memset(block.states, WAITING_TO_START, block.threads * sizeof block.states[0]);
    while (block.started < block.threads) {
        fiber *f = take_fiber();
        if (!f)
            return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        go_on(f);
    }
    while (block.finished < block.threads) {
        bool moved = release(0, block.threads, AT_BARRIER);
        for (unsigned first = 0; first < block.threads; first += STANDIN_WARP) {
            unsigned rest = block.threads - first;
            moved |= release(first, first + (rest < STANDIN_WARP ? rest : STANDIN_WARP), AT_EXCHANGE);
        }
        if (!moved)
            return report_parting();
    }
    return CUDA_SUCCESS;
}

CUresult standin_run(const standin_launch *launch)
{
    const struct standin_dim grid = launch->grid;
    CUresult                 code = CUDA_SUCCESS;
    state.gridDim = grid;
    state.blockDim = launch->block;
    block.launch = launch;
    block.threads = launch->block.x * launch->block.y * launch->block.z;
    for (unsigned z = 0; z < grid.z && !code; z++)
        for (unsigned y = 0; y < grid.y && !code; y++)
            for (unsigned x = 0; x < grid.x && !code; x++) {
                state.blockIdx = (struct standin_dim){x, y, z};
                memset(launch->shared, 0xFF, launch->shared_bytes); /* shared memory starts undefined */
                code = run_block();
            }
    return code;
}
