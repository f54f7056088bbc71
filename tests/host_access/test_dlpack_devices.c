/* DLPack on GPUs: memory of Haul that another user of the driver works on, and theirs that Haul works on. On the
 * stand-in driver, whose work runs as late as CUDA's rules allow.
 *
 * ctest: labels=threads */
#include <haul/dlpack.h>
#include <haul/estimate.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "backends/cuda/cuda.h"
#include "base/alloc.h"
#include "core/tensor.h"
#include "host_access/dlpack.h"
#include "support/devices/standin.h"
#include "support/failure.h"
#include "support/scope.h"

enum { DEVICES = 2, COUNT = 64, BYTES = COUNT * 4, KIND = 2 };

/* ---- another user of the driver ---- */

static haul__cuda_driver cu;
static haul_device      *gpus[DEVICES];
static CUcontext         contexts[DEVICES];
static CUstream          streams[DEVICES];
static int (*plan_faults)(const char *);
static int64_t (*pending)(void);

static void find_driver(void)
{
#define X(name, symbol, arguments) *(void **)&cu.name = symbol_of("libcuda.so.1", #symbol);
#include "backends/cuda/driver.def"
#undef X
    *(void **)&plan_faults = symbol_of("libcuda.so.1", "standin_fail");
    *(void **)&pending = symbol_of("libcuda.so.1", "standin_pending");
    for (int i = 0; i < DEVICES; i++) {
        gpus[i] = haul_device_get(i ? "cuda:1" : "cuda:0");
        cu.DevicePrimaryCtxRetain(&contexts[i], i);
        cu.CtxSetCurrent(contexts[i]);
        cu.StreamCreate(&streams[i], CU_STREAM_NON_BLOCKING);
    }
    cu.CtxSetCurrent(NULL);
}

#define ON(device, call)                                                                                               \
    do {                                                                                                               \
        assert_int_equal(cu.CtxSetCurrent(contexts[device]), CUDA_SUCCESS);                                            \
        assert_int_equal(cu.call, CUDA_SUCCESS);                                                                       \
        assert_int_equal(cu.CtxSetCurrent(NULL), CUDA_SUCCESS);                                                        \
    } while (0)

static CUdeviceptr address(const void *data)
{
    return (CUdeviceptr)(uintptr_t)data;
}

/* The words at an address, read on the default terms of the other user: it waits for its own stream alone. */
static void fetch(int device, CUdeviceptr from, uint32_t *words, size_t count)
{
    ON(device, MemcpyDtoHAsync(words, from, count * sizeof *words, streams[device]));
    ON(device, StreamSynchronize(streams[device]));
}

static void assert_floats(int device, const void *data, float first, float step)
{
    float values[COUNT];
    fetch(device, address(data), (uint32_t *)values, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_true(values[i] == first + (float)i * step);
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* f32[64] of 0, 1, 2 ... by both structs, or what a test makes of them. */
typedef struct foreign {
    haul__dl_versioned v;
    haul__dl_legacy    l;
    int64_t            shape[2], strides[2];
    int                device, deleted;
    CUdeviceptr        memory;
    float              first; /* of the elements when it was deleted */
} foreign;

/* The memory goes at once, as it may: no use of Haul's is under way. */
static void end_foreign(foreign *f)
{
    f->deleted++;
    if (f->deleted > 1 || !f->memory)
        return;
    uint32_t bits;
    fetch(f->device, f->memory, &bits, 1);
    memcpy(&f->first, &bits, sizeof bits);
    ON(f->device, MemFree(f->memory));
}

static void delete_versioned(haul__dl_versioned *self)
{
    end_foreign(self->context);
}

static void delete_legacy(haul__dl_legacy *self)
{
    end_foreign(self->context);
}

/* The elements are still being written. */
static void make_on(foreign *f, int device)
{
    static float values[COUNT];
    *f = (foreign){.shape = {COUNT, 1}, .strides = {1, 1}, .device = device};
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)i;
    ON(device, MemAlloc(&f->memory, BYTES));
    for (int i = 0; i < COUNT; i++)
        ON(device, MemsetD32Async(f->memory + (CUdeviceptr)i * 4, bits_of(values[i]), 1, streams[device]));
    const haul__dl_tensor t = {.data = (void *)(uintptr_t)f->memory,
                               .device_type = KIND,
                               .device_id = device,
                               .ndim = 1,
                               .code = HAUL__DL_FLOAT,
                               .bits = 32,
                               .lanes = 1,
                               .shape = f->shape,
                               .strides = f->strides};
    f->v = (haul__dl_versioned){.major = 1, .context = f, .deleter = delete_versioned, .tensor = t};
    f->l = (haul__dl_legacy){.tensor = t, .context = f, .deleter = delete_legacy};
}

static void make(foreign *f)
{
    make_on(f, 0);
}

static haul_tensor *ramp(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *x = haul_arange(HAUL_F32, 0, COUNT, 1);
    haul_set_device(haul_cpu());
    assert_valid(x);
    return x;
}

static haul_tensor *first_of(haul_tensor *x, int64_t count)
{
    return haul_slice(x, 0, 0, count, 1);
}

static int64_t allocated(void)
{
    haul_memory_stats stats;
    assert_int_equal(haul_memory_stats_get(gpus[0], &stats), HAUL_OK);
    return stats.allocated;
}

/* ---- from Haul ---- */

static void test_dlpack_devices__the_other_library_finds_the_elements(void **state)
{
    (void)state;
    for (int i = 0; i < DEVICES; i++) {
        haul_tensor        *x = haul_add_scalar(ramp(gpus[i]), 1);
        haul__dl_versioned *v = haul_to_dlpack(x);
        haul__dl_legacy    *l = haul_to_dlpack_legacy(haul_slice(x, 0, 2, 7, 1));
        assert_non_null(v);
        assert_non_null(l);
        assert_int_equal(v->tensor.device_type, KIND);
        assert_int_equal(v->tensor.device_id, i);
        assert_int_equal(l->tensor.device_id, i);
        assert_int_equal(v->tensor.byte_offset, 0);
        assert_ptr_equal(l->tensor.data, (char *)v->tensor.data + 8);
        assert_floats(i, v->tensor.data, 1, 1);
        v->deleter(v);
        l->deleter(l);
    }
    haul__dl_versioned *column = haul_to_dlpack(haul_select(haul_reshape(ramp(gpus[0]), HAUL_SHAPE(8, 8)), 1, 3));
    assert_true(column->tensor.ndim == 1 && column->tensor.strides[0] == 8 && column->flags == 0);
    column->deleter(column);
    haul__dl_versioned *wide = haul_to_dlpack(haul_expand(first_of(ramp(gpus[0]), 1), HAUL_SHAPE(5)));
    assert_int_equal(wide->flags, HAUL__DL_READ_ONLY);
    wide->deleter(wide);
    haul__dl_versioned *empty = haul_to_dlpack(first_of(ramp(gpus[0]), 0));
    assert_true(empty->tensor.data == NULL && empty->tensor.device_type == KIND);
    empty->deleter(empty);
}

/* The other library's work is under way when it ends its use: what Haul does with the memory then comes after it. */
static void test_dlpack_devices__the_deleter_waits_for_the_other_library(void **state)
{
    (void)state;
    haul_tensor        *x = ramp(gpus[0]);
    haul__dl_versioned *v = haul_to_dlpack(x);
    ON(0, MemsetD32Async(address(v->tensor.data), bits_of(7), COUNT, streams[0]));
    assert_true(pending() > 0);
    v->deleter(v);
    assert_true(haul_item(haul_sum(x)) == 7 * COUNT);
}

static void test_dlpack_devices__memory_is_not_used_again_before_the_deleter(void **state)
{
    (void)state;
    haul_scope         *inner = haul_scope_push();
    haul__dl_versioned *v = haul_to_dlpack(haul_add_scalar(ramp(gpus[0]), 1));
    void *const         data = v->tensor.data;
    assert_int_equal(haul_scope_pop(inner), HAUL_OK);
    const int64_t held = allocated();
    bool          again = false;
    for (int i = 0; i < 20; i++)
        assert_ptr_not_equal(ramp(gpus[0])->storage->buffer.handle, data);
    assert_floats(0, data, 1, 1);
    assert_int_equal(haul_memory_release_cached(gpus[0]), HAUL_OK);
    assert_floats(0, data, 1, 1);
    assert_true(held > 0);
    v->deleter(v);
    for (int i = 0; i < 20; i++)
        again = again || ramp(gpus[0])->storage->buffer.handle == data;
    assert_true(again);
}

/* 64 KiB each, more than there is room for. */
static haul_tensor *large(float value)
{
    haul_tensor *x = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(1 << 14), value), gpus[0]);
    assert_valid(x);
    return x;
}

static void test_dlpack_devices__spilling_leaves_it_in_place(void **state)
{
    (void)state;
    haul_memory_stats stats;
    assert_int_equal(haul_memory_release_cached(gpus[0]), HAUL_OK);
    assert_int_equal(haul_memory_stats_get(gpus[0], &stats), HAUL_OK);
    assert_int_equal(haul_memory_set_spill(gpus[0], true), HAUL_OK);
    assert_int_equal(haul_memory_set_tensor_limit(gpus[0], stats.reserved + (3 << 16)), HAUL_OK);
    haul_tensor *x = large(1);
    for (int i = 0; i < 8; i++)
        large(2);
    assert_true(atomic_load(&x->storage->uses->away));
    haul__dl_versioned *v = haul_to_dlpack(x); /* returns, and has a copy in host memory */
    assert_non_null(v);
    for (int i = 0; i < 8; i++)
        large(3);
    assert_false(atomic_load(&x->storage->uses->away));
    uint32_t words[2];
    fetch(0, address(v->tensor.data), words, 2);
    assert_int_equal(words[0], bits_of(1));
    ON(0, MemsetD32Async(address(v->tensor.data), bits_of(5), 1 << 14, streams[0]));
    v->deleter(v);
    for (int i = 0; i < 8; i++)
        large(4);
    assert_true(atomic_load(&x->storage->uses->away));
    assert_true(haul_item(haul_mean(x)) == 5); /* not the copy from before */
    assert_int_equal(haul_memory_set_limit(gpus[0], 0), HAUL_OK);
    assert_int_equal(haul_memory_set_spill(gpus[0], false), HAUL_OK);
}

static void *call_deleter(void *v)
{
    ((haul__dl_versioned *)v)->deleter(v);
    return NULL;
}

static void test_dlpack_devices__the_deleter_runs_on_any_thread(void **state)
{
    (void)state;
    pthread_t     thread;
    const int64_t before = allocated();
    haul_scope   *inner = haul_scope_push();
    void         *v = haul_to_dlpack(ramp(gpus[0]));
    assert_int_equal(haul_scope_pop(inner), HAUL_OK);
    assert_int_equal(pthread_create(&thread, NULL, call_deleter, v), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(allocated(), before);
}

static haul_status exports(void *unused)
{
    (void)unused;
    assert_null(haul_to_dlpack(ramp(gpus[0])));
    return haul_error_status();
}

static void test_dlpack_devices__refuses_to_export(void **state)
{
    (void)state;
    haul_tensor *w = haul_set_requires_grad(ramp(gpus[0]), true);
    assert_failed(haul_to_dlpack(w));
    assert_int_equal(haul_error_status(), HAUL_STATE);
    haul_error_clear();
    assert_failed(haul_to_dlpack_legacy(haul_expand(first_of(ramp(gpus[0]), 1), HAUL_SHAPE(5))));
    haul_error_clear();
    haul_device *const other = haul_device_get("sim:h200");
    if (haul_device_is_valid(other)) {
        assert_failed(haul_to_dlpack(haul_to(ramp(gpus[0]), other)));
        assert_int_equal(haul_error_status(), HAUL_DEVICE);
        assert_non_null(strstr(haul_error_message(), "no addresses"));
    }
    haul_error_clear();
    haul_estimate_result r;
    assert_int_equal(haul_estimate(exports, NULL, &r), HAUL_STATE);
    assert_non_null(strstr(haul_error_message(), "dry run"));
    haul_error_clear();
}

/* ---- to Haul ---- */

static void test_dlpack_devices__takes_memory_over(void **state)
{
    (void)state;
    for (int i = 0; i < DEVICES; i++) {
        foreign f;
        make_on(&f, i);
        haul_scope  *inner = haul_scope_push();
        haul_tensor *t = i ? haul_from_dlpack_legacy(&f.l) : haul_from_dlpack(&f.v);
        assert_valid(t);
        assert_ptr_equal(haul_tensor_device(t), gpus[i]);
        assert_ptr_equal(t->storage->buffer.handle, (void *)(uintptr_t)f.memory);
        assert_true(haul_item(haul_sum(t)) == COUNT * (COUNT - 1) / 2);
        assert_int_equal(haul_fill_into(first_of(t, 1), 9), HAUL_OK);
        haul_tensor *kept = haul_add_scalar(t, 1); /* reads it, and is under way when the scope ends */
        assert_valid(kept);
        assert_int_equal(f.deleted, 0);
        assert_int_equal(haul_scope_pop(inner), HAUL_OK);
        assert_int_equal(f.deleted, 1);
        assert_true(f.first == 9); /* Haul's last use was over */
    }
}

static void test_dlpack_devices__keeps_strides_and_offset(void **state)
{
    (void)state;
    foreign f;
    for (uint64_t offset = 0; offset < 24; offset += 4) {
        make(&f);
        f.v.tensor.ndim = 2;
        f.shape[0] = 3;
        f.shape[1] = 2;
        f.strides[0] = 1;
        f.strides[1] = 16;
        f.v.tensor.byte_offset = offset;
        haul_scope  *inner = haul_scope_push();
        haul_tensor *t = haul_from_dlpack(&f.v);
        float        values[6];
        assert_valid(t);
        assert_int_equal(haul_tensor_stride(t, 1), 16);
        assert_int_equal(haul_read(haul_add_scalar(t, 1), values, sizeof values), HAUL_OK);
        for (int i = 0; i < 6; i++)
            assert_true(values[i] == (float)(offset / 4 + 1) + (float)(i / 2) + 16 * (float)(i % 2));
        assert_int_equal(haul_scope_pop(inner), HAUL_OK);
        assert_int_equal(f.deleted, 1);
    }
}

static void test_dlpack_devices__copies_read_only_memory(void **state)
{
    (void)state;
    foreign f;
    make(&f);
    f.v.flags = HAUL__DL_READ_ONLY;
    haul_tensor *t = haul_from_dlpack(&f.v);
    assert_int_equal(f.deleted, 1);
    assert_ptr_equal(haul_tensor_device(t), gpus[0]);
    assert_int_equal(haul_fill_into(t, 9), HAUL_OK);
    assert_true(f.first == 0 && haul_item(haul_sum(t)) == 9 * COUNT);
}

static void make_bools(foreign *f)
{
    make(f);
    f->v.tensor.code = HAUL__DL_BOOL;
    f->v.tensor.bits = 8;
    f->shape[0] = 4;
    ON(0, MemsetD8Async(f->memory, 0, 8, streams[0]));
    ON(0, MemsetD8Async(f->memory + 1, 7, 5, streams[0]));
}

static void test_dlpack_devices__normalises_bools(void **state)
{
    (void)state;
    foreign f;
    make_bools(&f);
    uint32_t     words[2];
    haul_scope  *inner = haul_scope_push();
    haul_tensor *t = haul_from_dlpack(&f.v);
    assert_true(haul_item(haul_sum(t)) == 3);
    assert_int_equal(haul_device_sync(gpus[0]), HAUL_OK);
    fetch(0, f.memory, words, 2);
    assert_int_equal(words[0], 0x01010100);
    assert_int_equal(words[1], 0x0707); /* beyond its elements */
    assert_int_equal(haul_scope_pop(inner), HAUL_OK);
    assert_int_equal(f.deleted, 1);
}

static void test_dlpack_devices__returns_its_own_memory(void **state)
{
    (void)state;
    haul_tensor *x = ramp(gpus[1]), *y = haul_from_dlpack(haul_to_dlpack(x));
    assert_valid(y);
    assert_int_equal(haul_fill_into(y, 2), HAUL_OK);
    assert_int_equal(haul_device_sync(gpus[1]), HAUL_OK);
    assert_true(haul_item(haul_sum(x)) == 2 * COUNT);
    haul_tensor *none = haul_from_dlpack(haul_to_dlpack(first_of(x, 0)));
    assert_valid(none);
    assert_ptr_equal(haul_tensor_device(none), gpus[1]);
}

/* Memory of others is none of Haul's: limits do not count it, and spilling does not move it. */
static void test_dlpack_devices__limits_do_not_count_it(void **state)
{
    (void)state;
    foreign           f;
    haul_memory_stats before, after;
    make(&f);
    assert_int_equal(haul_memory_stats_get(gpus[0], &before), HAUL_OK);
    assert_int_equal(haul_memory_set_limit(gpus[0], before.reserved + 1), HAUL_OK);
    haul_scope  *inner = haul_scope_push();
    haul_tensor *t = haul_from_dlpack(&f.v);
    assert_valid(t);
    assert_int_equal(haul_memory_pin(t), HAUL_OK);
    assert_int_equal(haul_memory_stats_get(gpus[0], &after), HAUL_OK);
    assert_int_equal(after.allocated, before.allocated);
    assert_int_equal(after.reserved, before.reserved);
    assert_int_equal(haul_scope_pop(inner), HAUL_OK);
    assert_int_equal(haul_memory_set_limit(gpus[0], 0), HAUL_OK);
    assert_int_equal(f.deleted, 1);
}

/* A refused tensor is deleted, too. */
static void refused(foreign *f, haul_status status, const char *words)
{
    assert_failed(haul_from_dlpack(&f->v));
    if (!strstr(haul_error_message(), words))
        fail_msg("%s: expected '%s'", haul_error_message(), words);
    assert_int_equal(haul_error_status(), status);
    assert_int_equal(f->deleted, 1);
    haul_error_clear();
    make(f);
}

static void test_dlpack_devices__refuses(void **state)
{
    (void)state;
    foreign     f;
    CUdeviceptr gone = 0;
    void       *pinned = NULL;
    make(&f);
    f.v.tensor.device_id = 7;
    refused(&f, HAUL_DEVICE, "cuda has 2 devices");
    f.v.tensor.device_id = -1;
    refused(&f, HAUL_DEVICE, "cuda:-1");
    f.v.tensor.device_id = 1;
    refused(&f, HAUL_INVALID_ARGUMENT, "not memory of cuda:1");
    f.v.tensor.device_type = 4;
    refused(&f, HAUL_UNSUPPORTED, "device type 4");
    f.v.tensor.device_type = 13;
    refused(&f, HAUL_UNSUPPORTED, "device type 13");
    f.v.tensor.device_type = -2;
    refused(&f, HAUL_UNSUPPORTED, "device type -2");
    f.v.tensor.device_type = 0;
    refused(&f, HAUL_UNSUPPORTED, "device type 0");
    f.v.tensor.data = NULL;
    refused(&f, HAUL_INVALID_ARGUMENT, "data");
    f.v.tensor.data = &f;
    refused(&f, HAUL_INVALID_ARGUMENT, "not memory of cuda:0");
    f.v.tensor.byte_offset = 2;
    refused(&f, HAUL_INVALID_ARGUMENT, "not aligned for f32");
    f.v.tensor.byte_offset = 4;
    refused(&f, HAUL_INVALID_ARGUMENT, "the 256 bytes from");
    f.shape[0] = 1 << 20;
    refused(&f, HAUL_INVALID_ARGUMENT, "not memory of cuda:0");
    f.strides[0] = 2;
    refused(&f, HAUL_INVALID_ARGUMENT, "not memory of cuda:0");
    f.v.tensor.lanes = 4;
    refused(&f, HAUL_UNSUPPORTED, "4 lanes");
    f.v.major = 2;
    refused(&f, HAUL_UNSUPPORTED, "DLPack 2.0");
    ON(0, MemAlloc(&gone, BYTES));
    ON(0, MemFree(gone));
    f.v.tensor.data = (void *)(uintptr_t)gone;
    refused(&f, HAUL_INVALID_ARGUMENT, "not memory of cuda:0");
    ON(0, MemHostAlloc(&pinned, BYTES, 0));
    f.v.tensor.data = pinned;
    refused(&f, HAUL_INVALID_ARGUMENT, "not memory of cuda:0");
    ON(0, MemFreeHost(pinned));
    assert_true(plan_faults("cuCtxSynchronize:1:1"));
    refused(&f, HAUL_BACKEND, "cuCtxSynchronize");
    assert_true(plan_faults(NULL));
    f.v.tensor.data = &f; /* its memory is not touched */
    refused(&f, HAUL_INVALID_ARGUMENT, "not memory");
    end_foreign(&f);
}

/* ---- failures, one at a time ---- */

static const unsigned any_fault =
    HAUL__FAULT_HOST | HAUL__FAULT_DEVICE | HAUL__FAULT_COPY | HAUL__FAULT_COMPILE | HAUL__FAULT_LAUNCH;

static void test_dlpack_devices__deletes_once_whatever_fails(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        int64_t failures = 0;
        for (int64_t nth = 1, more = true; more; nth++) {
            foreign f;
            if (kind == 2)
                make_bools(&f);
            else
                make(&f);
            f.v.flags = kind == 1 ? HAUL__DL_READ_ONLY : 0;
            haul_scope *inner = haul_scope_push();
            haul__fault_plan(any_fault, nth);
            haul_tensor *t = haul_from_dlpack(&f.v);
            more = haul__fault_count() >= nth;
            haul__fault_plan(0, 0);
            failures += !haul_tensor_is_valid(t);
            assert_int_equal(f.deleted, !haul_tensor_is_valid(t) || kind == 1);
            haul_error_clear();
            assert_int_equal(haul_scope_pop(inner), HAUL_OK);
            assert_int_equal(f.deleted, 1);
        }
        assert_true(failures > 0);
    }
}

static void test_dlpack_devices__exports_or_leaves_it(void **state)
{
    (void)state;
    const int64_t before = allocated();
    int64_t       failures = 0;
    for (int64_t nth = 1, more = true; more; nth++) {
        haul_scope  *inner = haul_scope_push();
        haul_tensor *x = ramp(gpus[0]);
        haul__fault_plan(any_fault, nth);
        haul__dl_versioned *v = haul_to_dlpack(x);
        more = haul__fault_count() >= nth;
        haul__fault_plan(0, 0);
        failures += !v;
        if (v)
            v->deleter(v);
        haul_error_clear();
        assert_int_equal(atomic_load(&x->storage->uses->fixed), 0);
        assert_int_equal(haul_scope_pop(inner), HAUL_OK);
    }
    assert_true(failures > 0);
    assert_int_equal(allocated(), before);
}

/* ---- forks ---- */

static void test_dlpack_devices__a_child_may_end_both(void **state)
{
    (void)state;
    foreign f;
    int     status = 0;
    make(&f);
    haul_scope         *inner = haul_scope_push();
    haul_tensor        *t = haul_from_dlpack(&f.v);
    haul__dl_versioned *v = haul_to_dlpack(ramp(gpus[0]));
    assert_true(haul_tensor_is_valid(haul_add_scalar(t, 1)) && v);
    const pid_t child = fork();
    if (child == 0) {
        f.memory = 0; /* its library's deleter must not call the driver there either */
        v->deleter(v);
        const bool refuses = !haul_to_dlpack(t);
        haul_error_clear();
        _exit(refuses && !haul_scope_pop(inner) && f.deleted == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    v->deleter(v);
    assert_true(haul_item(haul_sum(t)) == COUNT * (COUNT - 1) / 2);
    assert_int_equal(haul_scope_pop(inner), HAUL_OK);
    assert_int_equal(f.deleted, 1);
}

#define T(name) cmocka_unit_test_setup_teardown(test_dlpack_devices__##name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_other_library_finds_the_elements),
        T(the_deleter_waits_for_the_other_library),
        T(memory_is_not_used_again_before_the_deleter),
        T(spilling_leaves_it_in_place),
        T(the_deleter_runs_on_any_thread),
        T(refuses_to_export),
        T(takes_memory_over),
        T(keeps_strides_and_offset),
        T(copies_read_only_memory),
        T(normalises_bools),
        T(returns_its_own_memory),
        T(limits_do_not_count_it),
        T(refuses),
        T(deletes_once_whatever_fails),
        T(exports_or_leaves_it),
        T(a_child_may_end_both),
    };
    setenv("HAUL_CUDA_LIBRARIES", STANDIN, 1);
    setenv("STANDIN_DEVICES", "2", 1);
    find_driver();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
