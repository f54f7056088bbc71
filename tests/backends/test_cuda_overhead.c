/* The memory that the driver takes for itself is the difference of free memory before and after a call, while other
 * threads obtain memory. On the stand-in driver, which takes nothing here.
 *
 * ctest: wraps=haul__cuda_alloc */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "backends/cuda/cuda.h"
#include "device/wait.h"
#include "support/devices/standin.h"
#include "support/linalg.h"

enum { ROUNDS = 400000, BYTES = 64 << 10 };

static haul_device *device;
static atomic_bool  stopped;

haul_status __real_haul__cuda_alloc(haul_device *, size_t, const haul__buffer_address *, haul__buffer *);
haul_status __wrap_haul__cuda_alloc(haul_device *, size_t, const haul__buffer_address *, haul__buffer *);

/* The memory is taken, and not counted yet. */
haul_status __wrap_haul__cuda_alloc(haul_device *d, size_t bytes, const haul__buffer_address *of, haul__buffer *out)
{
    const haul_status status = __real_haul__cuda_alloc(d, bytes, of, out);
    sched_yield();
    return status;
}

static void *obtain(void *failed)
{
    while (!atomic_load(&stopped)) {
        haul__buffer buffer = {0};
        if (haul__device_alloc(device, BYTES, &buffer, "test")) {
            *(bool *)failed = true;
            break;
        }
        haul__device_free(device, &buffer, BYTES, "test");
    }
    return NULL;
}

static void test_cuda_overhead__leaves_out_the_memory_of_other_threads(void **state)
{
    bool      failed = false;
    pthread_t other;
    (void)state;
    assert_int_equal(haul_set_device(device), HAUL_OK);
    assert_int_equal(atomic_load(&device->overhead), 0);
    assert_int_equal(pthread_create(&other, NULL, obtain, &failed), 0);
    for (int i = 0; i < ROUNDS; i++) {
        void *queue;
        assert_int_equal(haul__cuda_stream_open(device, &queue), HAUL_OK);
        haul__cuda_stream_close(device, queue);
    }
    atomic_store(&stopped, true);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_false(failed);
    assert_int_equal(atomic_load(&device->overhead), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_overhead__leaves_out_the_memory_of_other_threads),
    };
    setenv("HAUL_CUDA_LIBRARIES", STANDIN, 1);
    device = haul_device_get("cuda:0");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
