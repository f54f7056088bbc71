/* Launches, streams and events of the OpenCL backend: each item is done once, threads do not disturb each other, and
 * what events order stays in order. Two devices of PoCL where the environment does not say otherwise.
 *
 * ctest: labels=threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <haul/haul.h>

#include "haul_config.h"

#ifdef HAUL_HAVE_OPENCL

#include "backends/opencl/opencl.h"
#include "base/alloc.h"
#include "support/devices/opencl_kernels.h"

/* ---- launches ---- */

static haul_status launch(haul__stream *stream, const haul__kernel *kernel, const haul__buffer *const *buffers,
                          int count, const axpy_params *params, int64_t grain)
{
    haul__storage storages[3] = {{.device = NULL}};
    haul__region  regions[3];
    for (int i = 0; i < count; i++) {
        storages[i].buffer = *buffers[i];
        regions[i] = (haul__region){&storages[i], 0};
    }
    return table->submit(stream, &(haul__command){.kind = HAUL__COMMAND_LAUNCH,
                                                  .operation = "test",
                                                  .device = stream->device,
                                                  .buffers = regions,
                                                  .write_count = 1,
                                                  .buffer_count = count,
                                                  .params = params,
                                                  .params_size = sizeof *params,
                                                  .kernel = kernel,
                                                  .items = params->items,
                                                  .grain = grain});
}

/* Every item is done once whatever the number of items, on grids for processors and for GPUs. */
static void test_opencl_streams__launches_do_each_item_once(void **state)
{
    static const int64_t sizes[] = {0, 1, 2, 7, 8, 9, 63, 64, 65, 1000, 4097, 100000};
    enum { ROOM = 100001 };
    haul_device        *device = device_at(0);
    bool                strided = device->strided;
    haul__stream        s = {.device = device};
    haul__buffer        z;
    int32_t            *got = malloc(ROOM * sizeof *got);
    const haul__buffer *buffers[] = {&z};
    (void)state;
    assert_non_null(got);
    OK(table->alloc(device, ROOM * sizeof *got, NULL, &z));
    OK(table->stream_open(device, &s.queue));
    for (int gpu = 0; gpu < 2; gpu++) {
        haul__unit unit = {
            .name = gpu ? "test_grid" : "test_runs",
            .text = "typedef struct axpy_params { I64 items; I32 scale, offset; } axpy_params;\n"
                    "KERNEL1(bump, axpy_params, T, z) { FOR_ITEMS(i) STORE(z, i, LOAD(z, i) + p.scale); }\n",
            .kernel = "bump",
            .dtype = HAUL_I32,
        };
        haul__kernel kernel;

        device->strided = gpu;
        OK(table->compile(device, &unit, &kernel));
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            axpy_params params = {.items = sizes[k], .scale = 3};

            OK(table_fill(table, &s, &z, 0, ROOM * sizeof *got, &(int32_t){5}, 4));
            OK(launch(&s, &kernel, buffers, 1, &params, k % 2 ? 1 : 1000));
            OK(table_read(table, &s, got, &z, 0, ROOM * sizeof *got));
            OK(table->sync(&s, NULL));
            for (int64_t i = 0; i < ROOM; i++)
                assert_int_equal(got[i], i < sizes[k] ? 8 : 5);
        }
        kernel_free(&kernel);
    }
    device->strided = strided;
    table->stream_close(device, s.queue);
    table->free(device, &z);
    free(got);
}

/* Sums of rows of two lengths in turn: the params have the layout of axpy_params. */
static const char sums_text[] =
    "typedef struct sums_params { I64 items; I32 length[2]; } sums_params;\n"
    "KERNEL2(first, sums_params, T, z, const T, x) { FOR_ITEMS(i) STORE(z, i, LOAD(x, 0)); }\n"
    "KERNEL2(row_sums, sums_params, T, z, const T, x)\n"
    "{\n"
    "    FOR_ROWS(i) {\n"
    "        GLOBAL const T *v = x + i;\n"
    "        const I64 n = p.length[i % 2];\n"
    "        const I64 whole = n - n % SUM_LANES;\n"
    "        LANE_VALUES(A, s);\n"
    "        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = 0;\n"
    "        for (I64 j = 0; j < whole; j += SUM_LANES)\n"
    "            EACH_LANE(l, SUM_LANES) OF_LANE(s, l) += LOAD(v, j + l);\n"
    "        EACH_REST(l, n - whole)\n"
    "            OF_LANE(s, l) = IN_REST(l, n - whole, OF_LANE(s, l) + LOAD(v, whole + l), OF_LANE(s, l));\n"
    "        LANE_TREE(A, s, SUM_OF)\n"
    "        if (IS_FIRST_LANE) STORE(z, i, OF_FIRST_LANE(s));\n"
    "    }\n"
    "}\n";

/* Drivers differ in what they compile quickly. The text in each driver's form computes bit-identical results. */
static void test_opencl_streams__forms_of_text_compute_the_same(void **state)
{
    enum { ROWS = 40, ROOM = 700 };
    static const struct form {
        const char *unit;
        bool        late, strided, llvmpipe;
    } forms[] = {{"test_pocl", true, false, false},
                 {"test_one", false, false, false},
                 {"test_gpu", false, true, false},
                 {"test_llvmpipe", false, true, true}};
    haul_device        *device = device_at(0);
    haul__cl_device    *d = haul__cl_of(device);
    const bool          late = d->late, llvmpipe = d->llvmpipe, strided = device->strided;
    haul__stream        s = {.device = device};
    haul__buffer        z, x;
    const haul__buffer *buffers[] = {&z, &x};
    float               in[ROOM], first[ROWS], got[ROWS];
    (void)state;
    for (int i = 0; i < ROOM; i++)
        in[i] = 1.0f / (float)(i + 3);
    OK(table->alloc(device, sizeof got, NULL, &z));
    OK(table->alloc(device, sizeof in, NULL, &x));
    OK(table->stream_open(device, &s.queue));
    OK(table_write(table, &s, &x, 0, in, sizeof in));
    for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
        haul__unit   unit = {.name = forms[k].unit, .text = sums_text, .kernel = "row_sums", .dtype = HAUL_F32};
        axpy_params  params = {.items = ROWS, .scale = 29, .offset = 517};
        haul__kernel kernel = {0};

        d->late = forms[k].late;
        device->strided = forms[k].strided;
        d->llvmpipe = forms[k].llvmpipe;
        OK(table->compile(device, &unit, &kernel));
        OK(launch(&s, &kernel, buffers, 2, &params, 1));
        OK(table_read(table, &s, got, &z, 0, sizeof got));
        OK(table->sync(&s, NULL));
        kernel_free(&kernel);
        if (k == 0)
            memcpy(first, got, sizeof first);
        assert_memory_equal(got, first, sizeof first);
        assert_true(got[1] > got[0] && got[0] > 0);
    }
    d->late = late;
    d->llvmpipe = llvmpipe;
    device->strided = strided;
    table->stream_close(device, s.queue);
    table->free(device, &z);
    table->free(device, &x);
}

/* Two threads launch one kernel with other arguments on streams of their own, as fast as they can: each launch must
 * find its own arguments. */
enum { LAUNCHES = 20000, PLACES = 4 };

typedef struct racer {
    haul_device        *device;
    const haul__kernel *kernel;
    int32_t             first;
    int32_t             got[LAUNCHES][PLACES];
    haul_status         status;
} racer;

static void *race(void *context)
{
    racer       *r = context;
    haul__stream s = {.device = r->device};
    haul__buffer z = {0};
    r->status = table->stream_open(r->device, &s.queue);
    if (r->status)
        return NULL;
    r->status = table->alloc(r->device, sizeof r->got, NULL, &z);
    for (int k = 0; k < LAUNCHES && !r->status; k++) {
        axpy_params params = {.items = PLACES, .scale = r->first + k, .offset = k * PLACES};

        r->status = launch(&s, r->kernel, (const haul__buffer *[]){&z}, 1, &params, PLACES);
    }
    if (!r->status)
        r->status = table_read(table, &s, r->got, &z, 0, sizeof r->got);
    if (!r->status)
        r->status = table->sync(&s, NULL);
    table->stream_close(r->device, s.queue);
    table->free(r->device, &z);
    return NULL;
}

static void test_opencl_streams__threads_may_launch_one_kernel(void **state)
{
    haul_device *device = device_at(0);
    haul__kernel kernel = kernel_of(device, "count_up");
    racer       *racers = calloc(2, sizeof *racers);
    pthread_t    threads[2];
    (void)state;
    assert_non_null(racers);
    for (int i = 0; i < 2; i++) {
        racers[i] = (racer){.device = device, .kernel = &kernel, .first = i * 1000000};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        OK(racers[i].status);
        for (int k = 0; k < LAUNCHES; k++)
            for (int j = 0; j < PLACES; j++)
                assert_int_equal(racers[i].got[k][j], racers[i].first + k + j);
    }
    kernel_free(&kernel);
    free(racers);
}

/* ---- events ---- */

/* Random commands on streams of two devices, ordered by events only where two streams touch one buffer; a model on the
 * host does the same one after the other. Buffers are large enough that a missing wait is seen. */
enum { STREAMS = 4, BUFFERS = 6, ITEMS = 1 << 14, STEPS = 120 };

typedef struct lane {
    haul__stream stream;
    haul__kernel kernel;
    void        *last; /* event behind its newest command */
} lane;

typedef struct cell {
    haul__buffer buffer;
    int          device; /* which one's */
    int32_t      model[ITEMS];
    int          users[STREAMS]; /* 0: not touched, 1: read, 2: written since the last command that waited for it */
} cell;

typedef struct schedule {
    haul_device *devices[2];
    lane         lanes[STREAMS]; /* two on each device */
    cell        *cells;
    uint32_t     random;
} schedule;

static uint32_t roll(schedule *s, uint32_t below)
{
    s->random = s->random * 1664525u + 1013904223u;
    return (s->random >> 8) % below;
}

/* Let `stream` wait for whoever must come before it, and note its own use. */
static void order(schedule *s, int stream, cell *c, bool write)
{
    for (int i = 0; i < STREAMS; i++) {
        if (i == stream || c->users[i] == 0 || (!write && c->users[i] == 1))
            continue;
        OK(table->event_wait(&s->lanes[stream].stream, s->lanes[i].last));
    }
    if (write)
        memset(c->users, 0, sizeof c->users);
    if (c->users[stream] < 1 + write)
        c->users[stream] = 1 + write;
}

static void step(schedule *s)
{
    int      stream = (int)roll(s, STREAMS), own = stream / 2;
    lane    *l = &s->lanes[stream];
    cell    *to = &s->cells[own * 3 + roll(s, 3)], *a = &s->cells[own * 3 + roll(s, 3)];
    cell    *far = &s->cells[(1 - own) * 3 + roll(s, 3)];
    int32_t  value = (int32_t)roll(s, 1000);
    uint32_t what = roll(s, 4);
    if (what == 0) {
        order(s, stream, to, true);
        OK(table_fill(table, &l->stream, &to->buffer, 0, sizeof to->model, &value, sizeof value));
        for (int i = 0; i < ITEMS; i++)
            to->model[i] = value;
    } else if (what == 1 && a != to) {
        order(s, stream, a, false);
        order(s, stream, to, true);
        OK(table_copy(table, &l->stream, &to->buffer, 0, &a->buffer, 0, sizeof to->model));
        memcpy(to->model, a->model, sizeof to->model);
    } else if (what == 2) {
        order(s, stream, far, false);
        order(s, stream, to, true);
        OK(table_peer_copy(table, &l->stream, &to->buffer, s->devices[1 - own], &far->buffer, sizeof to->model));
        memcpy(to->model, far->model, sizeof to->model);
    } else {
        axpy_params params = {.items = ITEMS, .scale = 1 + value % 3};

        order(s, stream, a, false);
        order(s, stream, to, true);
        OK(launch(&l->stream, &l->kernel, (const haul__buffer *[]){&to->buffer, &a->buffer, &to->buffer}, 3, &params,
                  512));
        for (int i = 0; i < ITEMS; i++)
            to->model[i] = (int32_t)((uint32_t)a->model[i] * (uint32_t)params.scale + (uint32_t)to->model[i]);
    }
    if (l->last)
        table->event_free(l->stream.device, l->last);
    OK(table->event_record(&l->stream, &l->last));
}

static void run_schedule(uint32_t seed)
{
    schedule s = {.random = seed, .devices = {device_at(0), device_at(1)}};
    int32_t *got = malloc(sizeof s.cells->model);
    s.cells = calloc(BUFFERS, sizeof *s.cells);
    assert_true(got && s.cells);
    for (int i = 0; i < STREAMS; i++) {
        s.lanes[i].stream.device = s.devices[i / 2];
        OK(table->stream_open(s.devices[i / 2], &s.lanes[i].stream.queue));
        s.lanes[i].kernel = kernel_of(s.devices[i / 2], "axpy");
    }
    for (int i = 0; i < BUFFERS; i++) {
        s.cells[i].device = i / 3;
        OK(table->alloc(s.devices[i / 3], sizeof s.cells[i].model, NULL, &s.cells[i].buffer));
        OK(table_write(table, &s.lanes[i / 3 * 2].stream, &s.cells[i].buffer, 0, s.cells[i].model,
                       sizeof s.cells[i].model));
    }
    for (int i = 0; i < STREAMS; i++)
        OK(table->sync(&s.lanes[i].stream, NULL));
    for (int i = 0; i < STEPS; i++)
        step(&s);
    for (int i = 0; i < STREAMS; i++)
        OK(s.lanes[i].last ? table->sync(&s.lanes[i].stream, s.lanes[i].last) : HAUL_OK);
    for (int i = 0; i < BUFFERS; i++) {
        lane *l = &s.lanes[i / 3 * 2];

        OK(table_read(table, &l->stream, got, &s.cells[i].buffer, 0, sizeof s.cells[i].model));
        OK(table->sync(&l->stream, NULL));
        assert_memory_equal(got, s.cells[i].model, sizeof s.cells[i].model);
    }
    for (int i = 0; i < BUFFERS; i++)
        table->free(s.devices[i / 3], &s.cells[i].buffer);
    for (int i = 0; i < STREAMS; i++) {
        if (s.lanes[i].last)
            table->event_free(s.lanes[i].stream.device, s.lanes[i].last);
        table->stream_close(s.lanes[i].stream.device, s.lanes[i].stream.queue);
        kernel_free(&s.lanes[i].kernel);
    }
    free(s.cells);
    free(got);
}

static void test_opencl_streams__events_order_random_schedules(void **state)
{
    (void)state;
    device_at(1);
    for (uint32_t seed = 1; seed <= 12; seed++)
        run_schedule(seed);
}

/* A wait for a copy across the link needs no command of its own. The event of a copy must not stand for what comes
 * after it. */
static void test_opencl_streams__events_of_copies_stand_for_themselves(void **state)
{
    haul_device *device = device_at(0);
    haul__stream s = {.device = device};
    haul__buffer x;
    int32_t      value = 7;
    void        *copied, *again, *filled;
    (void)state;
    OK(table->alloc(device, sizeof value, NULL, &x));
    OK(table->stream_open(device, &s.queue));
    OK(table_write(table, &s, &x, 0, &value, sizeof value));
    OK(table->event_record(&s, &copied));
    OK(table->event_record(&s, &again));
    assert_ptr_equal(copied, again);
    OK(table_fill(table, &s, &x, 0, sizeof value, &(char){1}, 1));
    OK(table->event_record(&s, &filled));
    assert_ptr_not_equal(copied, filled);
    OK(table->sync(&s, filled));
    table->event_free(device, filled);
    table->event_free(device, again);
    OK(table_read(table, &s, &value, &x, 0, sizeof value));
    OK(table->event_record(&s, &again));
    assert_ptr_not_equal(copied, again);
    OK(table->sync(&s, again));
    assert_int_equal(value, 0x01010101);
    table->event_free(device, again);
    table->event_free(device, copied);
    table->stream_close(device, s.queue);
    table->free(device, &x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opencl_streams__events_of_copies_stand_for_themselves),
        cmocka_unit_test(test_opencl_streams__launches_do_each_item_once),
        cmocka_unit_test(test_opencl_streams__forms_of_text_compute_the_same),
        cmocka_unit_test(test_opencl_streams__threads_may_launch_one_kernel),
        cmocka_unit_test(test_opencl_streams__events_order_random_schedules),
    };
    setenv("POCL_DEVICES", "pthread pthread", 0);
    setenv("HAUL_CACHE_DIR", "cache", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 77; /* skipped */
}

#endif
