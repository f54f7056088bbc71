/* Where spilled tensors go: host memory up to a limit, and a file.
 * ctest: cuda; sim */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "support/devices/spilling.h"
#include "support/ledger.h"

static char folder[] = "/tmp/haul-tiers-XXXXXX";

/* ---- the system's calls, which fail where a test wants it ---- */

static atomic_int fail_reads, short_calls, interruptions, full_disk;

ssize_t pread(int fd, void *to, size_t bytes, off_t at);
ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at);
int     posix_fallocate(int fd, off_t at, off_t bytes);

static bool is_interrupted(void)
{
    if (atomic_load(&interruptions) <= 0)
        return false;
    atomic_fetch_sub(&interruptions, 1);
    errno = EINTR;
    return true;
}

static size_t shorter(size_t bytes)
{
    return atomic_load(&short_calls) && bytes > 1000 ? 1000 : bytes;
}

ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
    if (is_interrupted())
        return -1;
    if (atomic_load(&fail_reads)) {
        errno = EIO;
        return -1;
    }
    return preadv(fd, &(struct iovec){to, shorter(bytes)}, 1, at);
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
    return is_interrupted() ? -1 : pwritev(fd, &(struct iovec){(void *)from, shorter(bytes)}, 1, at);
}

int posix_fallocate(int fd, off_t at, off_t bytes)
{
    return atomic_load(&full_disk) ? ENOSPC : fallocate(fd, 0, at, bytes) == 0 ? 0 : errno;
}

/* ---- tiers ---- */

/* Room for `fit` tensors on the device, `host` in host memory, and `disk` in the file; 0: no file. */
static void begin_tiers(haul_device *device, int fit, int host, int disk)
{
    begin_limit(device, fit * BYTES);
    assert_int_equal(haul_memory_set_spill_tiers(device, .host_limit = host ? (int64_t)host * BYTES : HAUL_ZERO,
                                                 .folder = disk ? folder : NULL, .folder_limit = (int64_t)disk * BYTES),
                     HAUL_OK);
}

static void end_tiers(haul_device *device)
{
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    assert_int_equal(haul_memory_set_spill_tiers(device, .host_limit = 0), HAUL_OK);
    const haul_memory_stats s = stats_of(device);
    assert_true(s.spilled_to_file == 0 && s.spill_host == 0 && s.spill_file == 0);
    end_limit(device);
}

static void test_spill_tiers__fill_one_after_the_other(void **state)
{
    enum { COUNT = 9, FIT = 2, HOST = 3, DISK = 4 };
    haul_device *device;
    (void)state;
    for (int d = 0; (device = spilling(d)); d++) {
        haul_scope *part = haul_scope_push();
        begin_tiers(device, FIT, HOST, DISK);
        haul_tensor *t[COUNT];
        fill_each(t, COUNT, device);
        haul_memory_stats s = stats_of(device);
        assert_int_equal(s.spilled, (HOST + DISK) * BYTES);
        assert_int_equal(s.spilled_to_file, DISK * BYTES);
        assert_int_equal(s.spill_host, HOST * BYTES);
        assert_int_equal(s.spill_file, DISK * BYTES);
        haul_tensor *more = haul_to(filled(COUNT), device);
        assert_false(haul_tensor_is_valid(more));
        assert_error(HAUL_OUT_OF_MEMORY, folder);
        haul_drop(t[0]); /* what comes back changes places with another one, which needs a free place */
        for (int i = 0; i < 3 * COUNT; i++)
            if (i * 4 % COUNT)
                assert_filled(t[i * 4 % COUNT], (float)(i * 4 % COUNT));
        s = stats_of(device);
        assert_true(s.spill_host <= HOST * BYTES && s.spill_file <= DISK * BYTES);
        assert_true(s.peak_reserved <= s.limit);
        haul_scope_pop(part);
        assert_int_equal(stats_of(device).spilled, 0);
        end_tiers(device);
    }
}

static void test_spill_tiers__without_host_memory(void **state)
{
    haul_device *device;
    (void)state;
    for (int d = 0; (device = spilling(d)); d++) {
        haul_scope *part = haul_scope_push();
        begin_tiers(device, 2, 0, 100);
        haul_tensor *t[6];
        fill_each(t, 6, device);
        assert_int_equal(stats_of(device).spill_host, 0);
        assert_each_filled(t, 0, 6);
        assert_int_equal(stats_of(device).spilled, stats_of(device).spilled_to_file);
        haul_scope_pop(part);
        end_tiers(device);
    }
}

/* What has not changed since it was written to the file is not written again. */
static void test_spill_tiers__the_file_keeps_what_does_not_change(void **state)
{
    haul_scope  *part = haul_scope_push();
    haul_device *device = late_device(0);
    (void)state;
    begin_tiers(device, 1, 0, 100);
    haul_tensor *a = on(device, 1), *b = on(device, 2);
    assert_filled(a, 1);
    assert_filled(b, 2);
    haul_ledger_row rows[8];
    haul_ledger    *of = haul_ledger_begin(.everywhere = false);
    assert_filled(a, 1);
    const int count = haul_ledger_rows(of, rows, 8, .by = HAUL_LEDGER_OPERATION | HAUL_LEDGER_TO);
    for (int i = 0; i < count; i++)
        assert_true(strcmp(rows[i].operation, "spill") != 0 || rows[i].to == device);
    haul_ledger_end(of);
    haul_scope_pop(part);
    end_tiers(device);
}

static void test_spill_tiers__host_memory_alone_is_named(void **state)
{
    haul_device *device;
    (void)state;
    for (int d = 0; (device = spilling(d)); d++) {
        haul_scope *part = haul_scope_push();
        begin_tiers(device, 2, 1, 0);
        haul_tensor *t[3];
        fill_each(t, 3, device);
        assert_false(haul_tensor_is_valid(haul_to(filled(3), device)));
        assert_error(HAUL_OUT_OF_MEMORY, "host memory for spilled tensors");
        haul_drop(t[0]);
        assert_each_filled(t, 1, 3);
        haul_scope_pop(part);
        end_tiers(device);
    }
}

/* ---- failures ---- */

static void test_spill_tiers__a_full_disk_is_named(void **state)
{
    haul_scope  *part = haul_scope_push();
    haul_device *device = late_device(0);
    haul_tensor *t[4];
    (void)state;
    begin_tiers(device, 2, 0, 100);
    fill_each(t, 3, device);
    atomic_store(&full_disk, 1);
    assert_false(haul_tensor_is_valid(haul_to(filled(3), device)));
    const char *message = haul_error_message();
    assert_non_null(strstr(message, "needs 64.0 KiB more"));
    assert_non_null(strstr(message, "are free there"));
    assert_error(HAUL_OUT_OF_MEMORY, folder);
    atomic_store(&full_disk, 0);
    t[3] = on(device, 3);
    assert_each_filled(t, 0, 4);
    haul_scope_pop(part);
    end_tiers(device);
}

/* Where the process may not make the file so large, there is an error, and no signal. */
static void test_spill_tiers__the_limit_of_file_sizes_is_named(void **state)
{
    struct rlimit before, small;
    haul_scope   *part = haul_scope_push();
    haul_device  *device = late_device(0);
    (void)state;
    begin_tiers(device, 1, 0, 100);
    haul_tensor *a = on(device, 1);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){BYTES / 2, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_false(haul_tensor_is_valid(haul_to(filled(2), device)));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_error(HAUL_OUT_OF_MEMORY, "ulimit -f");
    assert_filled(a, 1);
    haul_scope_pop(part);
    end_tiers(device);
}

static void test_spill_tiers__a_read_error_keeps_the_elements(void **state)
{
    static float values[SIDE * SIDE];
    haul_device *device;
    (void)state;
    for (int d = 0; (device = spilling(d)); d++) {
        haul_scope *part = haul_scope_push();
        begin_tiers(device, 2, 0, 100);
        haul_tensor *t[4];
        fill_each(t, 4, device);
        assert_true(is_away(t[0]));
        ledger_stop(); /* the other tensor leaves, although the read fails */
        atomic_store(&fail_reads, 1);
        assert_int_equal(haul_read(t[0], values, sizeof values), HAUL_IO);
        assert_non_null(strstr(haul_error_message(), "read from the file for spilled tensors"));
        assert_error(HAUL_IO, folder);
        atomic_store(&fail_reads, 0);
        ledger_go_on();
        assert_each_filled(t, 0, 4);
        haul_scope_pop(part);
        end_tiers(device);
    }
}

static void test_spill_tiers__short_and_interrupted_transfers_go_on(void **state)
{
    haul_scope  *part = haul_scope_push();
    haul_device *device = late_device(0);
    haul_tensor *t[4];
    (void)state;
    begin_tiers(device, 2, 0, 100);
    atomic_store(&short_calls, 1);
    atomic_store(&interruptions, 5);
    fill_each(t, 4, device);
    assert_int_equal(atomic_load(&interruptions), 0);
    atomic_store(&interruptions, 5);
    assert_each_filled(t, 0, 4);
    assert_int_equal(atomic_load(&interruptions), 0);
    atomic_store(&short_calls, 0);
    haul_scope_pop(part);
    end_tiers(device);
}

/* Whatever is refused, what a tensor holds is right or an error. */
static void test_spill_tiers__survives_failures(void **state)
{
    enum { COUNT = 5, MOST = 30 };
    static const haul__fault faults[] = {HAUL__FAULT_HOST, HAUL__FAULT_COPY, HAUL__FAULT_FILE, HAUL__FAULT_PINNED};
    static float             values[SIDE * SIDE];
    haul_device             *device = late_device(0);
    (void)state;
    ledger_stop();
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
        for (int64_t nth = 1; nth < MOST; nth++) {
            haul_scope  *part = haul_scope_push();
            haul_tensor *sources[COUNT], *t[COUNT];
            begin_tiers(device, 2, 1, 100);
            for (int i = 0; i < COUNT; i++)
                sources[i] = filled((float)i);
            haul__fault_plan(faults[f], nth);
            for (int i = 0; i < COUNT; i++)
                t[i] = haul_to(sources[i], device);
            haul__fault_plan(faults[f], nth);
            for (int i = 0; i < COUNT; i++)
                if (haul_tensor_is_valid(t[i]) && !haul_read(t[i], values, sizeof values))
                    assert_true(values[0] == (float)i && values[SIDE * SIDE - 1] == (float)i);
            haul__fault_plan(0, 0);
            haul_error_clear();
            for (int i = 0; i < COUNT; i++)
                if (haul_tensor_is_valid(t[i]))
                    assert_filled(t[i], (float)i);
            haul_scope_pop(part);
            end_tiers(device);
        }
    }
    ledger_go_on();
}

/* ---- settings ---- */

static void test_spill_tiers__wrong_uses(void **state)
{
    haul_scope  *part = haul_scope_push();
    haul_device *device = late_device(0);
    (void)state;
    assert_int_equal(haul_memory_set_spill_tiers(haul_cpu(), .folder = folder), HAUL_UNSUPPORTED);
    haul_error_clear();
    assert_int_equal(haul_memory_set_spill_tiers(NULL, .folder = folder), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_int_equal(haul_memory_set_spill_tiers_with(device, NULL), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_memory_set_spill_tiers(device, .host_limit = -1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_memory_set_spill_tiers(device, .folder_limit = -1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_memory_set_spill_tiers(device, .folder = "/nowhere/at/all"), HAUL_IO);
    assert_error(HAUL_IO, "/nowhere/at/all: No such file");
    begin_tiers(device, 1, 0, 100);
    haul_tensor *a = on(device, 1), *b = on(device, 2);
    assert_int_equal(haul_memory_set_spill_tiers(device, .folder = "/tmp"), HAUL_STATE);
    assert_error(HAUL_STATE, folder);
    assert_filled(a, 1);
    assert_filled(b, 2);
    haul_scope_pop(part);
    end_tiers(device);
}

/* Nothing has a name in the folder, so it may vanish. */
static void test_spill_tiers__the_folder_stays_empty(void **state)
{
    char         vanishing[] = "/tmp/haul-tiers-XXXXXX";
    haul_scope  *part = haul_scope_push();
    haul_device *device = late_device(0);
    (void)state;
    assert_non_null(mkdtemp(vanishing));
    begin_limit(device, BYTES);
    assert_int_equal(haul_memory_set_spill_tiers(device, .host_limit = HAUL_ZERO, .folder = vanishing), HAUL_OK);
    haul_tensor *a = on(device, 1), *b = on(device, 2);
    assert_true(stats_of(device).spilled_to_file == BYTES);
    assert_int_equal(rmdir(vanishing), 0);
    haul_tensor *c = on(device, 3);
    assert_filled(a, 1);
    assert_filled(b, 2);
    assert_filled(c, 3);
    assert_int_equal(haul_memory_set_spill_tiers(device, .folder = vanishing), HAUL_OK); /* the same file */
    haul_scope_pop(part);
    end_tiers(device);
    assert_int_equal(haul_memory_set_spill_tiers(device, .folder = vanishing), HAUL_IO);
    assert_error(HAUL_IO, vanishing);
}

static void test_spill_tiers__training_has_the_same_bits(void **state)
{
    static struct {
        float losses[4], weights[64 * 64];
    } plain, limited;
    (void)state;
    for (int d = 1; d < device_count; d++) {
        int64_t peak = 0;
        for (int run = 0; run < 2; run++) {
            haul_scope   *part = haul_scope_push();
            const int64_t waited = stats_of(devices[d]).spill_file_nanoseconds;
            train_begin(devices[d], run ? peak / 2 : 0);
            if (run)
                assert_int_equal(haul_memory_set_spill_tiers(devices[d], .host_limit = peak / 16, .folder = folder),
                                 HAUL_OK);
            haul_module *net =
                HAUL_SEQUENTIAL(haul_nn_linear(64, 64), haul_nn_relu(), haul_nn_linear(64, 64), haul_nn_relu(),
                                haul_nn_linear(64, 64), haul_nn_relu(), haul_nn_linear(64, 8));
            haul_optimizer *adam = haul_adam(net, 0.01);
            for (int i = 0; i < 4; i++) {
                haul_scope  *step = haul_scope_push();
                haul_tensor *x = haul_normal(HAUL_F32, HAUL_SHAPE(96, 64), 0, 1);
                haul_tensor *y = haul_normal(HAUL_F32, HAUL_SHAPE(96, 8), 0, 1);
                haul_optimizer_zero_grad(adam);
                haul_tensor *loss = haul_mse_loss(haul_call(net, x), y);
                haul_backward(loss);
                haul_optimizer_step(adam);
                (run ? limited : plain).losses[i] = (float)haul_item(loss);
                haul_scope_pop(step);
            }
            const bool waits = run && strncmp(haul_device_name(devices[d]), "sim:", 4) != 0;
            assert_int_equal(stats_of(devices[d]).spill_file_nanoseconds > waited, waits);
            assert_int_equal(haul_read(haul_module_parameter(net, "0.weight"), (run ? limited : plain).weights,
                                       sizeof plain.weights),
                             HAUL_OK);
            const haul_memory_stats s = stats_of(devices[d]);
            peak = run ? peak : s.peak_reserved;
            assert_true(!run ||
                        (s.spilled_to_file_total > 0 && s.peak_reserved <= s.limit && s.spill_host <= peak / 16));
            haul_scope_pop(part);
            end_tiers(devices[d]);
        }
        assert_memory_equal(&plain, &limited, sizeof plain);
    }
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

#define TIERS_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TIERS_TEST(test_spill_tiers__fill_one_after_the_other),
        TIERS_TEST(test_spill_tiers__without_host_memory),
        TIERS_TEST(test_spill_tiers__the_file_keeps_what_does_not_change),
        TIERS_TEST(test_spill_tiers__host_memory_alone_is_named),
        TIERS_TEST(test_spill_tiers__a_full_disk_is_named),
        TIERS_TEST(test_spill_tiers__the_limit_of_file_sizes_is_named),
        TIERS_TEST(test_spill_tiers__a_read_error_keeps_the_elements),
        TIERS_TEST(test_spill_tiers__short_and_interrupted_transfers_go_on),
        TIERS_TEST(test_spill_tiers__survives_failures),
        TIERS_TEST(test_spill_tiers__wrong_uses),
        TIERS_TEST(test_spill_tiers__the_folder_stays_empty),
        TIERS_TEST(test_spill_tiers__training_has_the_same_bits),
    };
    device_count = test_devices(devices, 16);
    return cmocka_run_group_tests_name("spill_tiers", tests, make_folder, remove_folder);
}
