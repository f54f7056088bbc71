/* Profiles: what they record, what their tables sum up to, and what they refuse.
 * ctest: cuda; env=POCL_DEVICES=pthread pthread; labels=threads */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "support/moves.h"

enum { ROWS = 128, STEPS = 4 };

typedef struct listing {
    haul_profile_row rows[ROWS];
    int              count;
} listing;

static void list(haul_profile *p, haul_profile_key by, listing *out)
{
    out->count = haul_profile_rows(p, out->rows, ROWS, .by = by);
    assert_in_range(out->count, 1, ROWS);
}

/* device: NULL for events without a device */
static const haul_profile_row *row(const listing *l, const char *name, const haul_device *device)
{
    for (int i = 0; i < l->count; i++)
        if (!strcmp(l->rows[i].name, name) && l->rows[i].device == device)
            return &l->rows[i];
    fail_msg("there is no row of %s", name);
    return NULL;
}

typedef struct training {
    haul_module    *net;
    haul_optimizer *sgd;
    haul_loader    *loader;
} training;

static training make_training(haul_device *device)
{
    haul_set_device(device);
    training t = {.net = HAUL_SEQUENTIAL(haul_nn_linear(10, 64, .relu = true), haul_nn_linear(64, 1))};
    assert_int_equal(haul_module_to(t.net, device), HAUL_OK);
    t.sgd = haul_sgd(t.net, 0.01);
    t.loader = haul_loader_new(haul_blobs(256), .batch = 32, .workers = 1, .device = device);
    assert_int_equal(haul_loader_start(t.loader, 0), HAUL_OK);
    haul_set_device(haul_cpu());
    return t;
}

static void step(const training *t)
{
    haul_scope       *part = haul_scope_push();
    const haul_batch *b = haul_loader_next(t->loader);
    assert_non_null(b);
    haul_tensor *loss = haul_bce_with_logits(haul_call(t->net, b->x), b->y);
    assert_int_equal(haul_optimizer_zero_grad(t->sgd), HAUL_OK);
    assert_int_equal(haul_backward(loss), HAUL_OK);
    assert_int_equal(haul_optimizer_step(t->sgd), HAUL_OK);
    assert_true(isfinite(haul_item(loss)));
    haul_scope_pop(part);
}

static haul_profile *profiled(haul_device *device)
{
    const training t = make_training(device);
    step(&t); /* compiles */
    haul_profile *p = haul_profile_begin(.everywhere = true);
    assert_non_null(p);
    for (int i = 0; i < STEPS; i++) {
        step(&t);
        assert_int_equal(haul_profile_step(p), HAUL_OK);
    }
    assert_int_equal(haul_profile_end(p), HAUL_OK);
    return p;
}

/* ---- sums ---- */

static void test_profile__sums_agree(void **state)
{
    (void)state;
    for (int d = 0; d < device_count; d++) {
        static listing       operations, modules, kernels;
        haul_profile_summary s;
        haul_profile        *p = profiled(devices[d]);
        double               host = 0, in_operations = 0, in_kernels = 0;
        assert_int_equal(haul_profile_summary_get(p, &s), HAUL_OK);
        list(p, HAUL_PROFILE_OPERATION, &operations);
        list(p, HAUL_PROFILE_MODULE, &modules);
        list(p, HAUL_PROFILE_KERNEL, &kernels);
        for (int i = 0; i < operations.count; i++) {
            host += operations.rows[i].host_ms;
            in_operations += operations.rows[i].device_ms;
        }
        for (int i = 0; i < kernels.count; i++)
            in_kernels += kernels.rows[i].device_ms;
        assert_int_equal(s.steps, STEPS);
        assert_int_equal(s.lost, 0);
        assert_true(s.wall_ms > 0 && fabs(s.step_ms * STEPS - s.wall_ms) < 1e-6);
        assert_true(fabs(host - s.wall_ms) < 1e-6 * s.wall_ms + 1e-9);
        assert_true(fabs(s.data_ms + s.forward_ms + s.backward_ms + s.optimizer_ms + s.wait_ms + s.other_ms -
                         s.wall_ms) < 1e-6 * s.wall_ms + 1e-9);
        assert_true(s.forward_ms > 0 && s.backward_ms > 0 && s.optimizer_ms > 0 && s.other_ms >= 0);
        assert_true(fabs(in_operations - in_kernels) < 1e-6 * in_kernels + 1e-9);
        for (int i = 1; i < operations.count; i++)
            assert_true(operations.rows[i - 1].share >= operations.rows[i].share);
    }
}

static void test_profile__rows_have_their_numbers(void **state)
{
    (void)state;
    for (int d = 0; d < device_count; d++) {
        static listing operations, modules, kernels;
        haul_profile  *p = profiled(devices[d]);
        list(p, HAUL_PROFILE_OPERATION, &operations);
        list(p, HAUL_PROFILE_MODULE, &modules);
        list(p, HAUL_PROFILE_KERNEL, &kernels);
        const haul_profile_row *linear = row(&operations, "haul_linear", devices[d]);
        assert_int_equal(linear->calls, 2 * STEPS);
        assert_true(linear->flops >= STEPS * 2. * 32 * (10 * 64 + 64));
        assert_true(linear->bytes > 0 && linear->made_bytes > 0 && linear->host_ms > 0);
        assert_int_equal(linear->bound, HAUL_BOUND_UNKNOWN); /* no peak was set */
        assert_int_equal(row(&operations, "haul_backward", NULL)->calls, STEPS);
        assert_int_equal(row(&operations, "haul_optimizer_step", NULL)->calls, STEPS);
        assert_int_equal(row(&operations, "haul_loader_next", NULL)->calls, STEPS);
        row(&operations, "(program)", NULL);
        const haul_profile_row *first = row(&modules, "0", NULL);
        assert_string_equal(first->kind, "linear");
        assert_int_equal(first->calls, STEPS);
        assert_true(first->forward_ms > 0 && first->backward_ms > 0 && first->flops > 0);
        const haul_profile_row *update = NULL;
        for (int i = 0; i < kernels.count; i++)
            update = strcmp(kernels.rows[i].operation, "haul_sgd") ? update : &kernels.rows[i];
        assert_true(update && !strncmp(update->name, "sgd", 3));
        assert_string_equal(update->kind, "compute");
        assert_ptr_equal(update->device, devices[d]);
        assert_true(update->calls >= STEPS && update->bytes > 0);
    }
}

static void test_profile__bounds_follow_the_peaks(void **state)
{
    static listing l;
    (void)state;
    haul_profile *p = haul_profile_begin(.everywhere = true);
    assert_valid(haul_matmul(iota(128, 128), iota(128, 128)));
    assert_int_equal(haul_profile_end(p), HAUL_OK);
    const struct {
        double     flops, bytes;
        haul_bound bound;
    } cases[] = {{1e6, 1e15, HAUL_BOUND_COMPUTE},
                 {1e15, 1e6, HAUL_BOUND_MEMORY},
                 {1e18, 1e18, HAUL_BOUND_OVERHEAD},
                 {0, 1e9, HAUL_BOUND_UNKNOWN}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(haul_profile_set_peak(p, haul_cpu(), cases[i].flops, cases[i].bytes), HAUL_OK);
        list(p, HAUL_PROFILE_OPERATION, &l);
        assert_int_equal(row(&l, "haul_matmul", haul_cpu())->bound, cases[i].bound);
    }
}

/* ---- memory ---- */

static void test_profile__knows_what_is_live_at_the_peak(void **state)
{
    (void)state;
    for (int d = 0; d < device_count; d++) {
        static listing l;
        haul_tensor   *before = haul_to(iota(64, 64), devices[d]);
        haul_profile  *p = haul_profile_begin(.everywhere = true);
        haul_scope    *part = haul_scope_push();
        haul_tensor   *x = haul_exp(before), *y = haul_exp(x);
        haul_drop(haul_cos(y));
        haul_scope_pop(part);
        assert_int_equal(haul_profile_end(p), HAUL_OK);
        list(p, HAUL_PROFILE_OPERATION, &l);
        assert_int_equal(row(&l, "haul_exp", devices[d])->made_bytes, 2 * 64 * 64 * 4);
        assert_int_equal(row(&l, "haul_exp", devices[d])->peak_bytes, 2 * 64 * 64 * 4);
        assert_int_equal(row(&l, "haul_cos", devices[d])->peak_bytes, 64 * 64 * 4);
        assert_true(row(&l, d ? "haul_to" : "haul_from_host", devices[d])->peak_bytes >= 64 * 64 * 4);
        assert_valid(before);
    }
}

/* ---- threads and limits ---- */

static void *compute(void *context)
{
    haul_scope *own = haul_scope_push();
    haul_sin(iota(4, 4));
    haul_scope_pop(own);
    return context;
}

static bool saw_sine(bool everywhere)
{
    static listing l;
    pthread_t      thread;
    haul_profile  *p = haul_profile_begin(.everywhere = everywhere);
    haul_exp(iota(4, 4));
    assert_int_equal(pthread_create(&thread, NULL, compute, NULL), 0);
    pthread_join(thread, NULL);
    assert_int_equal(haul_profile_end(p), HAUL_OK);
    list(p, HAUL_PROFILE_OPERATION, &l);
    for (int i = 0; i < l.count; i++)
        if (!strcmp(l.rows[i].name, "haul_sin") && l.rows[i].calls)
            return true;
    return false;
}

static void test_profile__one_thread_or_all(void **state)
{
    (void)state;
    assert_true(saw_sine(true));
    assert_false(saw_sine(false));
}

static void test_profile__stops_at_its_limit(void **state)
{
    haul_profile_summary s;
    (void)state;
    haul_profile *p = haul_profile_begin(.most_events = 3);
    for (int i = 0; i < 5; i++)
        assert_valid(haul_exp(iota(2, 2)));
    assert_int_equal(haul_profile_end(p), HAUL_OK);
    assert_int_equal(haul_profile_summary_get(p, &s), HAUL_OK);
    assert_int_equal(s.events, 3);
    assert_true(s.lost >= 7);
}

/* ---- refusals ---- */

static void *end_elsewhere(void *profile)
{
    if (haul_profile_step(profile) != HAUL_STATE || haul_profile_end(profile) != HAUL_STATE)
        return profile;
    return NULL;
}

static void test_profile__refuses(void **state)
{
    haul_profile_summary s;
    haul_profile_row     rows[2];
    haul_finding         findings[2];
    pthread_t            thread;
    void                *failed;
    (void)state;
    assert_null(haul_profile_begin(.most_events = -1));
    assert_error(HAUL_INVALID_ARGUMENT, "most_events");
    haul_profile *p = haul_profile_begin(.everywhere = true);
    assert_int_equal(haul_profile_summary_get(p, &s), HAUL_STATE);
    assert_error(HAUL_STATE, "haul_profile_end");
    assert_int_equal(haul_profile_rows(p, rows, 2), -1);
    assert_int_equal(haul_profile_audit(p, findings, 2), -1);
    assert_int_equal(haul_profile_save(p, "nowhere"), HAUL_STATE);
    haul_error_clear();
    assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, p), 0);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(haul_profile_end(p), HAUL_OK);
    assert_int_equal(haul_profile_end(p), HAUL_STATE);
    assert_int_equal(haul_profile_step(p), HAUL_STATE);
    haul_error_clear();
    assert_int_equal(haul_profile_rows(p, NULL, 2), -1);
    assert_int_equal(haul_profile_rows(p, rows, -1), -1);
    assert_int_equal(haul_profile_rows(p, rows, 2, .by = 9), -1);
    assert_error(HAUL_INVALID_ARGUMENT, "haul_profile_key");
    assert_int_equal(haul_profile_audit(p, NULL, 1), -1);
    assert_int_equal(haul_profile_audit(p, findings, -1), -1);
    assert_int_equal(haul_profile_set_peak(p, haul_cpu(), -1, 0), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_profile_set_peak(p, haul_cpu(), 0, (double)NAN), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_profile_set_peak(p, NULL, 0, 0), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_profile_save(p, NULL), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_profile_save(p, "/dev/null/folder"), HAUL_IO);
    assert_error(HAUL_IO, "/dev/null/folder cannot be made");
    assert_int_equal(haul_profile_summary_get((haul_profile *)(void *)scope, &s), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_string_equal(haul_finding_name(HAUL_FINDING_CPU_ISLAND), "cpu-island");
    assert_string_equal(haul_finding_name(HAUL_FINDING_END), "invalid");
}

static void in_subscriber(const haul_event *event, void *failed)
{
    (void)event;
    *(bool *)failed = !haul_profile_begin(.everywhere = true) && haul_error_status() == HAUL_STATE;
}

static void test_profile__refuses_in_a_subscriber(void **state)
{
    bool failed = false;
    (void)state;
    int64_t id = haul_events_subscribe(in_subscriber, .kinds = HAUL_EVENT_OPERATION_END, .context = &failed);
    assert_valid(haul_exp(iota(2, 2)));
    assert_int_equal(haul_events_unsubscribe(id), HAUL_OK);
    assert_true(failed);
}

/* ---- odd uses ---- */

static void end_and_release(const haul_event *event, void *profile)
{
    (void)event;
    haul_profile **p = profile;
    if (*p)
        haul_profile_end(*p);
    if (*p)
        haul_release(*p);
    *p = NULL;
}

/* The subscriber may come before or after the profile in the list. */
static void test_profile__ends_in_a_subscriber(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        haul_scope   *part = haul_scope_push();
        haul_profile *p = NULL;
        int64_t       id = 0;
        if (first)
            id = haul_events_subscribe(end_and_release, .context = &p, .kinds = HAUL_EVENT_OPERATION_END,
                                       .everywhere = true);
        haul_profile *begun = haul_keep(haul_profile_begin(.everywhere = true));
        if (!first)
            id = haul_events_subscribe(end_and_release, .context = &p, .kinds = HAUL_EVENT_OPERATION_END,
                                       .everywhere = true);
        haul_scope_pop(part);
        p = begun;
        assert_valid(haul_exp(iota(2, 2)));
        assert_null(p);
        assert_valid(haul_exp(iota(2, 2)));
        assert_int_equal(haul_events_unsubscribe(id), HAUL_OK);
    }
}

static haul_profile *inner;

static haul_tensor *begin_profile(haul_module *m, haul_args *args)
{
    (void)m;
    const int64_t until = haul__now_ns() + 20000000;
    while (haul__now_ns() < until) {}
    inner = haul_keep(haul_profile_begin(.everywhere = true));
    return haul_exp(args->x[0]);
}

/* What began before a profile counts from its beginning on. */
static void test_profile__begins_within_a_call(void **state)
{
    haul_profile_summary s;
    (void)state;
    haul_profile *outer = haul_profile_begin(.everywhere = true); /* makes calls begin with events */
    haul_module  *m = haul_module_new("waiting", begin_profile);
    assert_valid(haul_call(m, iota(2, 2)));
    assert_int_equal(haul_profile_end(inner), HAUL_OK);
    assert_int_equal(haul_profile_end(outer), HAUL_OK);
    assert_int_equal(haul_profile_summary_get(inner, &s), HAUL_OK);
    assert_true(s.forward_ms <= s.wall_ms && s.other_ms >= 0);
    haul_release(inner);
}

static void *release_all(void *tensors)
{
    for (haul_tensor **t = tensors; *t; t++)
        haul_release(*t);
    return NULL;
}

/* A profile of one thread knows what others free, because memory is the device's. */
static void test_profile__memory_is_the_devices(void **state)
{
    static listing l;
    pthread_t      thread;
    (void)state;
    haul_profile *p = haul_profile_begin(.everywhere = false);
    for (int i = 0; i < 4; i++) {
        haul_scope  *part = haul_scope_push();
        haul_tensor *kept[2] = {haul_keep(haul_ones(HAUL_F32, HAUL_SHAPE(4096))), NULL};
        haul_scope_pop(part);
        assert_int_equal(pthread_create(&thread, NULL, release_all, kept), 0);
        pthread_join(thread, NULL);
    }
    assert_int_equal(haul_profile_end(p), HAUL_OK);
    list(p, HAUL_PROFILE_OPERATION, &l);
    assert_int_equal(row(&l, "haul_ones", haul_cpu())->peak_bytes, 4096 * 4);
    assert_int_equal(row(&l, "haul_ones", haul_cpu())->made_bytes, 4 * 4096 * 4);
}

/* ---- exhausted memory, and files that cannot be written ---- */

/* Each host allocation fails once: the work is done all the same, and readers fail with the reason, or not at all. */
static void test_profile__survives_exhausted_memory(void **state)
{
    (void)state;
    for (int64_t failing = 1; failing < 300; failing += failing < 60 ? 1 : 11) {
        haul_scope   *part = haul_scope_push();
        haul_tensor  *x = iota(4, 4);
        haul_profile *p = haul_profile_begin(.everywhere = true);
        haul__fault_plan(HAUL__FAULT_HOST, failing);
        haul_tensor *y = haul_exp(x);
        if (haul_tensor_is_valid(y))
            haul_profile_step(p);
        haul_profile_end(p);
        haul_error_clear();
        const int rows = haul_profile_rows(p, NULL, 0);
        assert_true(rows > 0 || haul_error_status() == HAUL_OUT_OF_MEMORY);
        haul_error_clear();
        const haul_status saved = haul_profile_save(p, "saved");
        assert_true(saved == HAUL_OK || saved == HAUL_OUT_OF_MEMORY);
        haul_error_clear();
        haul__fault_plan(0, 0);
        haul_scope_pop(part);
    }
}

/* The files of a profile, one behind the other. */
static size_t read_files(const char *folder, char *out, size_t size)
{
    static const char *const names[] = {"trace.json", "profile.json", "audit.json"};
    size_t                   used = 0;
    for (int i = 0; i < 3; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        used += fread(out + used, 1, size - used, file);
        fclose(file);
    }
    assert_in_range(used, 1, size - 1);
    return used;
}

/* A file is saved as it is, or not at all. */
static void test_profile__files_are_whole_with_little_memory(void **state)
{
    enum { MOST = 1 << 18 };
    static char whole[MOST], little[MOST];
    (void)state;
    haul_profile *p = haul_profile_begin(.everywhere = true);
    assert_valid(haul_exp(iota(4, 4)));
    assert_int_equal(haul_profile_end(p), HAUL_OK);
    assert_int_equal(haul_profile_save(p, "enough"), HAUL_OK);
    const size_t size = read_files("enough", whole, MOST);
    for (int64_t failing = 1; failing < 40; failing++) {
        haul__fault_plan(HAUL__FAULT_HOST, failing);
        const haul_status saved = haul_profile_save(p, "little");
        haul__fault_plan(0, 0);
        assert_true(saved == HAUL_OK || saved == HAUL_OUT_OF_MEMORY);
        haul_error_clear();
        if (saved)
            continue;
        assert_int_equal(read_files("little", little, MOST), size);
        assert_memory_equal(little, whole, size);
    }
}

static void test_profile__files_are_whole_or_not_there(void **state)
{
    static const char *const names[] = {"made/whole/trace.json", "made/whole/profile.json", "made/whole/audit.json"};
    (void)state;
    haul_profile *p = haul_profile_begin(.everywhere = true);
    assert_valid(haul_exp(iota(4, 4)));
    assert_int_equal(haul_profile_end(p), HAUL_OK);
    bool whole = false;
    for (int64_t failing = 1; failing < 60 && !whole; failing++) {
        haul__fault_plan(HAUL__FAULT_FILE, failing);
        const haul_status status = haul_profile_save(p, "made/whole");
        haul__fault_plan(0, 0);
        haul_error_clear();
        int there = 0;
        for (int i = 0; i < 3; i++) {
            struct stat file;
            there += stat(names[i], &file) == 0 && file.st_size > 2;
        }
        whole = status == HAUL_OK;
        assert_true(status == HAUL_OK ? there == 3 : status == HAUL_IO);
        for (int i = 0; i < 3; i++)
            unlink(names[i]);
    }
    assert_true(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(test_profile__sums_agree),
        TEST(test_profile__rows_have_their_numbers),
        TEST(test_profile__bounds_follow_the_peaks),
        TEST(test_profile__knows_what_is_live_at_the_peak),
        TEST(test_profile__one_thread_or_all),
        TEST(test_profile__stops_at_its_limit),
        TEST(test_profile__refuses),
        TEST(test_profile__refuses_in_a_subscriber),
        TEST(test_profile__ends_in_a_subscriber),
        TEST(test_profile__begins_within_a_call),
        TEST(test_profile__memory_is_the_devices),
        TEST(test_profile__survives_exhausted_memory),
        TEST(test_profile__files_are_whole_with_little_memory),
        TEST(test_profile__files_are_whole_or_not_there),
#undef TEST
    };
    return run_moves("profile", tests, sizeof tests / sizeof *tests);
}
