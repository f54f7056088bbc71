/* The ledger of every test program (support/ledger.c): a copy that only one side knows fails the program.
 *
 * ctest: labels=threads */
#include <sys/wait.h>
#include <unistd.h>

#include "support/commands.h"
#include "support/record.h"

static haul_device *device;
static haul_tensor *host, *there;

static void copy(void)
{
    haul_to(host, device);
    haul_to(there, haul_cpu());
}

static void command_alone(void)
{
    submit_write(there->storage, host->storage->buffer.host, host->storage, 64);
}

static void command_that_is_no_copy_of_tests(void)
{
    haul__submit(&(haul__command){.kind = HAUL__COMMAND_WRITE,
                                  .stream = HAUL__STREAM_UPLOAD,
                                  .operation = "test",
                                  .device = device,
                                  .buffers = (haul__region[]){{there->storage, 0}, {host->storage, 0}},
                                  .write_count = 1,
                                  .buffer_count = 2,
                                  .bytes = 64});
}

static void event_alone(void)
{
    haul__emit_counted(&(haul_event){
        .kind = HAUL_EVENT_COPY_TO_HOST, .operation = "test", .device = haul_cpu(), .other = device, .bytes = 64});
}

/* The exit status of a process that does that. */
static int status_of(void (*work)(void))
{
    int   status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        work();
        exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_ledger__both_sides_must_know(void **state)
{
    (void)state;
    device = late_device(0);
    host = iota(4, 4);
    there = haul_to(host, device);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_int_equal(status_of(copy), 0);
    assert_int_equal(status_of(command_alone), 0);
    assert_int_equal(status_of(command_that_is_no_copy_of_tests), 1);
    assert_int_equal(status_of(event_alone), 1);
}

static haul_status copy_there_and_back(void *context)
{
    haul_tensor *x = context;
    return haul_tensor_check(haul_to(haul_to(x, device), haul_cpu()));
}

/* Once for each step, also if it is followed. */
static void test_ledger__a_followed_step_copies(void **state)
{
    enum { STEPS = 4 };
    haul_recording_report report;
    haul_tensor          *x = haul_pin(iota(4, 4), device);
    haul_recording       *r = haul_recording_new(copy_there_and_back, x);
    haul_transfer_stats   before = ledger();
    (void)state;
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(haul_recording_run(r), HAUL_OK);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    assert_int_equal(report.followed, STEPS - 1);
    assert_int_equal(ledger().h2d_bytes - before.h2d_bytes, STEPS * 64);
    assert_int_equal(ledger().d2h_bytes - before.d2h_bytes, STEPS * 64);
    assert_int_equal(ledger().h2d_count - before.h2d_count, STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EVENT_TEST(test_ledger__both_sides_must_know),
        EVENT_TEST(test_ledger__a_followed_step_copies),
    };
    return run_moves("ledger", tests, sizeof tests / sizeof *tests);
}
