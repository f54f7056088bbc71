/* Tensors for and from other libraries by DLPack: shared memory, refusals, and deleters. */
#include <haul/dlpack.h>
#include <string.h>

#include "core/tensor.h"
#include "host_access/dlpack.h"
#include "support/failure.h"
#include "support/scope.h"

/* ---- a tensor of another library ---- */

typedef struct foreign {
    haul__dl_versioned v;
    haul__dl_legacy    l;
    int64_t            shape[9], strides[9];
    float              data[24];
    int                deleted; /* how often */
} foreign;

static void delete_versioned(haul__dl_versioned *self)
{
    ((foreign *)self->context)->deleted++;
}

static void delete_legacy(haul__dl_legacy *self)
{
    ((foreign *)self->context)->deleted++;
}

/* f32[2,3] of 0, 1, 2 ... by both structs. */
static void make(foreign *f)
{
    *f = (foreign){.shape = {2, 3}, .strides = {3, 1}};
    for (int i = 0; i < 24; i++)
        f->data[i] = (float)i;
    const haul__dl_tensor t = {.data = f->data,
                               .device_type = HAUL__DL_CPU,
                               .ndim = 2,
                               .code = HAUL__DL_FLOAT,
                               .bits = 32,
                               .lanes = 1,
                               .shape = f->shape,
                               .strides = f->strides};
    f->v = (haul__dl_versioned){.major = 1, .context = f, .deleter = delete_versioned, .tensor = t};
    f->l = (haul__dl_legacy){.tensor = t, .context = f, .deleter = delete_legacy};
}

static void assert_values(haul_tensor *t, const float *wanted, size_t count)
{
    float values[64];
    assert_valid(t);
    assert_int_equal(haul_tensor_count(t), count);
    assert_int_equal(haul_read(t, values, sizeof values), HAUL_OK);
    assert_memory_equal(values, wanted, count * sizeof *wanted);
}

/* ---- from Haul ---- */

static void test_dlpack__shares_memory_of_views(void **state)
{
    (void)state;
    haul_tensor        *x = haul_from_host(HAUL_F32, HAUL_SHAPE(2, 3), (float[]){0, 1, 2, 3, 4, 5});
    haul_tensor        *view = haul_select(haul_transpose(x, 0, 1), 0, 1);
    haul__dl_versioned *v = haul_to_dlpack(view);
    assert_non_null(v);
    assert_int_equal(v->major, 1);
    assert_int_equal(v->flags, 0);
    assert_int_equal(v->tensor.device_type, HAUL__DL_CPU);
    assert_int_equal(v->tensor.ndim, 1);
    assert_int_equal(v->tensor.shape[0], 2);
    assert_int_equal(v->tensor.strides[0], 3);
    assert_int_equal(v->tensor.byte_offset, 0);
    float *data = v->tensor.data;
    assert_true(data[0] == 1 && data[3] == 4);
    data[3] = 40;
    assert_values(x, (float[]){0, 1, 2, 3, 40, 5}, 6);
    v->deleter(v);
}

static void test_dlpack__memory_outlives_the_tensor(void **state)
{
    (void)state;
    haul_scope         *inner = haul_scope_push();
    haul__dl_versioned *v = haul_to_dlpack(haul_full(HAUL_F64, HAUL_SHAPE(1000), 7));
    haul__dl_legacy    *l = haul_to_dlpack_legacy(haul_full(HAUL_BF16, HAUL_SHAPE(3), 1));
    assert_int_equal(haul_scope_pop(inner), HAUL_OK);
    assert_true(((double *)v->tensor.data)[999] == 7);
    assert_int_equal(v->tensor.bits, 64);
    assert_int_equal(l->tensor.code, HAUL__DL_BFLOAT);
    assert_int_equal(((uint16_t *)l->tensor.data)[2], 0x3f80);
    v->deleter(v);
    l->deleter(l);
}

static void test_dlpack__knows_every_dtype(void **state)
{
    (void)state;
    for (haul_dtype dtype = HAUL_BOOL; dtype < HAUL_DTYPE_END; dtype++) {
        haul_tensor *x = haul_full(dtype, HAUL_SHAPE(4), 1);
        haul_tensor *y = haul_from_dlpack(haul_to_dlpack(x));
        assert_valid(y);
        assert_int_equal(haul_tensor_dtype(y), dtype);
        assert_ptr_equal(y->storage->buffer.host, x->storage->buffer.host);
        assert_true(haul_item(haul_select(y, 0, 3)) == 1);
    }
}

static void test_dlpack__marks_expanded_tensors(void **state)
{
    (void)state;
    haul_tensor        *x = haul_expand(haul_full(HAUL_F32, HAUL_SHAPE(1, 3), 2), HAUL_SHAPE(4, 3));
    haul__dl_versioned *v = haul_to_dlpack(x);
    assert_int_equal(v->flags, HAUL__DL_READ_ONLY);
    assert_int_equal(v->tensor.strides[0], 0);
    haul_tensor *y = haul_from_dlpack(v); /* copied */
    assert_true(y->storage->buffer.host != x->storage->buffer.host);
    assert_values(y, (float[]){2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 12);
    assert_failed(haul_to_dlpack_legacy(x));
    assert_non_null(strstr(haul_error_message(), "haul_contiguous"));
}

static void test_dlpack__has_no_address_without_elements(void **state)
{
    (void)state;
    haul__dl_versioned *v = haul_to_dlpack(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3)));
    assert_null(v->tensor.data);
    haul_tensor *y = haul_from_dlpack(v);
    assert_valid(y);
    assert_int_equal(haul_tensor_shape(y).dims[1], 3);
    haul__dl_versioned *scalar = haul_to_dlpack(haul_full(HAUL_I32, HAUL_SCALAR_SHAPE, 5));
    assert_int_equal(scalar->tensor.ndim, 0);
    assert_true(haul_item(haul_from_dlpack(scalar)) == 5);
}

static void test_dlpack__refuses_gradients_and_devices(void **state)
{
    (void)state;
    haul_tensor *w = haul_set_requires_grad(haul_zeros(HAUL_F32, HAUL_SHAPE(2)), true);
    assert_failed(haul_to_dlpack(w));
    assert_int_equal(haul_error_status(), HAUL_STATE);
    assert_failed(haul_to_dlpack(haul_exp(w)));
    assert_non_null(strstr(haul_error_message(), "haul_detach"));
    haul_error_clear();
    haul__dl_versioned *v = haul_to_dlpack(haul_detach(w));
    assert_non_null(v);
    v->deleter(v);
    assert_failed(haul_to_dlpack(haul_to(haul_detach(w), haul_device_get("meta"))));
    assert_failed(haul_to_dlpack(NULL));
    haul_error_clear();
}

/* ---- to Haul ---- */

static void test_dlpack__takes_memory_over(void **state)
{
    (void)state;
    foreign f;
    make(&f);
    haul_scope  *inner = haul_scope_push();
    haul_tensor *t = haul_from_dlpack(&f.v);
    assert_values(t, (float[]){0, 1, 2, 3, 4, 5}, 6);
    assert_ptr_equal(t->storage->buffer.host, f.data);
    haul_tensor *row = haul_select(t, 0, 1);
    haul_fill_into(row, 9);
    assert_true(f.data[3] == 9 && f.data[5] == 9 && f.data[2] == 2);
    assert_int_equal(f.deleted, 0);
    assert_int_equal(haul_scope_pop(inner), HAUL_OK);
    assert_int_equal(f.deleted, 1);

    make(&f);
    inner = haul_scope_push();
    f.l.tensor.strides = NULL;
    assert_values(haul_from_dlpack_legacy(&f.l), (float[]){0, 1, 2, 3, 4, 5}, 6);
    assert_int_equal(haul_scope_pop(inner), HAUL_OK);
    assert_int_equal(f.deleted, 1);
}

static void test_dlpack__keeps_strides_and_offset(void **state)
{
    (void)state;
    foreign f;
    make(&f);
    f.strides[0] = 1; /* columns of 4 */
    f.strides[1] = 4;
    f.v.tensor.byte_offset = 8;
    haul_scope  *inner = haul_scope_push();
    haul_tensor *t = haul_from_dlpack(&f.v);
    assert_values(t, (float[]){2, 6, 10, 3, 7, 11}, 6);
    assert_values(haul_add_scalar(t, 1), (float[]){3, 7, 11, 4, 8, 12}, 6);
    assert_int_equal(haul_scope_pop(inner), HAUL_OK);
    assert_int_equal(f.deleted, 1);
}

static void test_dlpack__ignores_strides_that_lead_nowhere(void **state)
{
    (void)state;
    for (int64_t rows = 0; rows < 2; rows++) {
        foreign f;
        make(&f);
        f.shape[0] = rows;
        f.strides[0] = INT64_MAX;
        if (!rows)
            f.strides[1] = INT64_MIN;
        haul_scope  *inner = haul_scope_push();
        haul_tensor *t = haul_slice(haul_from_dlpack(&f.v), 0, 0, rows, 4);
        assert_values(haul_slice(t, 1, 0, 3, 2), (float[]){0, 2}, (size_t)rows * 2);
        assert_int_equal(haul_scope_pop(inner), HAUL_OK);
        assert_int_equal(f.deleted, 1);
    }
}

static void test_dlpack__copies_read_only_memory(void **state)
{
    (void)state;
    foreign f;
    make(&f);
    f.v.flags = HAUL__DL_READ_ONLY;
    haul_tensor *t = haul_from_dlpack(&f.v);
    assert_int_equal(f.deleted, 1);
    haul_fill_into(t, 9);
    assert_true(f.data[0] == 0 && f.data[5] == 5);
}

static void test_dlpack__normalises_bools(void **state)
{
    (void)state;
    foreign f;
    uint8_t bytes[8] = {0, 2, 7, 1, 255, 3, 0, 9};
    make(&f);
    f.v.tensor.code = HAUL__DL_BOOL;
    f.v.tensor.bits = 8;
    f.v.tensor.data = bytes;
    f.strides[0] = 4;
    haul_scope *inner = haul_scope_push();
    assert_valid(haul_from_dlpack(&f.v));
    assert_int_equal(haul_scope_pop(inner), HAUL_OK);
    assert_memory_equal(bytes, ((uint8_t[]){0, 1, 1, 1, 1, 1, 0, 9}), 8); /* the last one is between rows */
}

/* A refused tensor is deleted, too. */
static void refused(foreign *f, haul_status status, const char *words)
{
    assert_failed(haul_from_dlpack(&f->v));
    assert_int_equal(haul_error_status(), status);
    if (!strstr(haul_error_message(), words))
        fail_msg("%s: expected '%s'", haul_error_message(), words);
    assert_int_equal(f->deleted, 1);
    haul_error_clear();
    make(f);
}

static void test_dlpack__refuses(void **state)
{
    (void)state;
    foreign f;
    make(&f);
    f.v.major = 2;
    f.v.tensor.ndim = 1000; /* is not read */
    refused(&f, HAUL_UNSUPPORTED, "DLPack 2.0");
    f.v.tensor.device_type = 4;
    refused(&f, HAUL_UNSUPPORTED, "device type 4");
    f.v.tensor.lanes = 4;
    refused(&f, HAUL_UNSUPPORTED, "4 lanes");
    f.v.tensor.code = 5;
    refused(&f, HAUL_UNSUPPORTED, "code 5");
    f.v.tensor.bits = 128;
    refused(&f, HAUL_UNSUPPORTED, "128 bits");
    f.v.tensor.ndim = 9;
    refused(&f, HAUL_UNSUPPORTED, "9 dimensions");
    f.v.tensor.ndim = -1;
    refused(&f, HAUL_UNSUPPORTED, "-1 dimensions");
    f.v.tensor.shape = NULL;
    refused(&f, HAUL_INVALID_ARGUMENT, "shape");
    f.shape[0] = -1;
    refused(&f, HAUL_SHAPE, "-1");
    f.shape[0] = f.shape[1] = INT64_MAX / 2;
    refused(&f, HAUL_SHAPE, "");
    f.strides[0] = -3;
    refused(&f, HAUL_UNSUPPORTED, "stride of dimension 0 is -3");
    f.strides[0] = INT64_MAX / 2;
    refused(&f, HAUL_INVALID_ARGUMENT, "beyond the address space");
    f.v.tensor.data = NULL;
    refused(&f, HAUL_INVALID_ARGUMENT, "data");
    f.v.tensor.byte_offset = 2;
    refused(&f, HAUL_INVALID_ARGUMENT, "not aligned for f32");
    f.v.tensor.byte_offset = UINT64_MAX - 3;
    refused(&f, HAUL_INVALID_ARGUMENT, "not aligned");
    f.v.deleter = NULL;
    haul_scope *inner = haul_scope_push();
    assert_valid(haul_from_dlpack(&f.v));
    assert_int_equal(haul_scope_pop(inner), HAUL_OK);
    assert_failed(haul_from_dlpack(NULL));
    assert_failed(haul_from_dlpack_legacy(NULL));
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_dlpack__shares_memory_of_views, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dlpack__memory_outlives_the_tensor, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dlpack__knows_every_dtype, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dlpack__marks_expanded_tensors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dlpack__has_no_address_without_elements, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dlpack__refuses_gradients_and_devices, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dlpack__takes_memory_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dlpack__keeps_strides_and_offset, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dlpack__ignores_strides_that_lead_nowhere, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dlpack__copies_read_only_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dlpack__normalises_bools, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dlpack__refuses, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
