/* Weights: prefixes, files that fit in part, conversion, mapping, metadata, and reports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/tensor.h"
#include "support/conformance/conformance.h"

#define FILE_NAME "w.safetensors"

static haul_module *make(uint64_t seed)
{
    haul_manual_seed(seed);
    haul_module *net = HAUL_SEQUENTIAL(haul_nn_linear(3, 4), haul_nn_batch_norm(4), haul_nn_linear(4, 2));
    assert_non_null(net);
    return net;
}

enum { TENSORS = 9 };

/* All values of a module as bytes. */
typedef struct content {
    uint8_t bytes[1024];
    size_t  size;
} content;

static content content_of(haul_module *module)
{
    haul_named_tensor tensors[32];
    content           c;
    int               count = haul_module_tensors(module, tensors, 32);
    memset(&c, 0, sizeof c);
    for (int i = 0; i < count; i++) {
        assert_int_equal(haul_read(tensors[i].tensor, c.bytes + c.size, sizeof c.bytes - c.size), HAUL_OK);
        c.size += haul_tensor_bytes(tensors[i].tensor);
    }
    return c;
}

static void assert_same(const content *a, const content *b)
{
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->bytes, b->bytes, a->size);
}

static void assert_ok(haul_status status)
{
    if (status)
        fail_msg("%s", haul_error_message());
}

/* Loading failed with this status and these words, as haul_load_weights, and the module is as it was. */
static void assert_refused(haul_status got, haul_status wanted, const char *words, haul_module *net, const content *old)
{
    content now = content_of(net);
    if (got != wanted || !strstr(haul_error_message(), words))
        fail_msg("%d: \"%s\", expected \"%s\"", got, haul_error_message(), words);
    assert_string_equal(haul_error_operation(), "haul_load_weights");
    assert_same(old, &now);
    haul_error_clear();
}

/* A file with this header and eight bytes of data at most. */
static void write_file(const char *json, const char *data, size_t bytes)
{
    FILE    *file = fopen(FILE_NAME, "wb");
    uint64_t length = strlen(json);
    assert_non_null(file);
    assert_int_equal(fwrite(&length, 8, 1, file), 1);
    assert_int_equal(fwrite(json, 1, length, file), length);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* ---- names ---- */

static void train(haul_module *net)
{
    haul_scope     *scope = haul_scope_push();
    haul_optimizer *sgd = haul_sgd(net, 0.1, .momentum = 0.9);
    for (int i = 0; i < 3; i++) {
        haul_tensor *loss = haul_sum(haul_square(haul_call(net, haul_ones(HAUL_F32, HAUL_SHAPE(2, 3)))));
        haul_optimizer_zero_grad(sgd);
        haul_backward(loss);
        assert_ok(haul_optimizer_step(sgd));
    }
    haul_scope_pop(scope);
}

static void test_weights__a_prefix_is_removed(void **state)
{
    (void)state;
    haul_weights_report report;
    haul_scope         *scope = haul_scope_push();
    haul_module        *encoder = make(1), *whole = HAUL_SEQUENTIAL(encoder, haul_nn_linear(2, 2));
    assert_ok(haul_save_weights(FILE_NAME, whole)); /* 0.0.weight ... 1.bias */
    haul_module *other = make(2);
    content      expected = content_of(encoder), before = content_of(other);
    assert_refused(haul_load_weights(FILE_NAME, other), HAUL_FORMAT, "lacks '0.weight' and", other, &before);
    assert_ok(haul_load_weights(FILE_NAME, other, .prefix = "0.", .report = &report));
    content got = content_of(other);
    assert_same(&expected, &got);
    assert_int_equal(report.loaded, TENSORS);
    assert_true(report.missing_count == 0 && report.unexpected_count == 0 && report.converted == 0);

    before = content_of(other);
    assert_refused(haul_load_weights(FILE_NAME, other, .prefix = "encoder.", .partial = true), HAUL_INVALID_ARGUMENT,
                   "has no tensor whose name begins with 'encoder.'; its first tensor is '0.", other, &before);
    assert_refused(haul_load_weights(FILE_NAME, other, .prefix = "1."), HAUL_FORMAT, "lacks '1.0.weight' and", other,
                   &before);
    haul_scope_pop(scope);
}

/* Of two networks that differ in their last layer. */
static void test_weights__a_part_is_left_out(void **state)
{
    (void)state;
    haul_weights_report report;
    haul_scope         *scope = haul_scope_push();
    haul_module        *old_head = haul_nn_linear(2, 5), *new_head = haul_nn_linear(2, 3);
    haul_module        *encoder = make(1), *old_net = HAUL_SEQUENTIAL(encoder, old_head);
    haul_module        *other = make(2), *net = HAUL_SEQUENTIAL(other, new_head);
    assert_ok(haul_save_weights(FILE_NAME, old_net));
    content before = content_of(net), head = content_of(new_head), expected = content_of(encoder);
    assert_refused(haul_load_weights(FILE_NAME, net), HAUL_SHAPE,
                   "holds '1.weight' as f32[5,2], the module as f32[3,2]", net, &before);
    assert_refused(haul_load_weights(FILE_NAME, net, .without = "2."), HAUL_INVALID_ARGUMENT,
                   "the module has no tensor whose name begins with '2.'; its first tensor is '0.0.weight'", net,
                   &before);
    assert_ok(haul_load_weights(FILE_NAME, net, .without = "1.", .report = &report));
    content got = content_of(other), kept = content_of(new_head);
    assert_same(&expected, &got);
    assert_same(&head, &kept);
    assert_true(report.loaded == TENSORS && report.missing_count == 0 && report.unexpected_count == 0);

    /* the rest must be there as always, under any prefix, and the file may lack the part */
    before = content_of(net);
    assert_refused(haul_load_weights(FILE_NAME, net, .without = "0."), HAUL_SHAPE, "holds '1.weight'", net, &before);
    assert_ok(haul_save_weights("w2.safetensors", HAUL_SEQUENTIAL(old_net, make(3))));
    assert_ok(haul_load_weights("w2.safetensors", net, .prefix = "0.", .without = "1."));
    assert_ok(haul_save_weights(FILE_NAME, encoder));
    assert_ok(haul_load_weights(FILE_NAME, HAUL_SEQUENTIAL(HAUL_SEQUENTIAL(other, new_head)), .add_prefix = "0.0.",
                                .without = "0.1."));
    assert_refused(haul_load_weights(FILE_NAME, net, .without = "1."), HAUL_FORMAT, "lacks '0.0.weight'", net, &before);
    assert_refused(haul_load_weights("w2.safetensors", net, .without = "1."), HAUL_FORMAT, "lacks '0.0.weight' and",
                   net, &before);
    haul_scope_pop(scope);
}

/* In a dry run, which reads no file. */
static haul_status load_dry(void *context)
{
    return haul_load_weights(FILE_NAME, context);
}

static void test_weights__loading_is_estimated(void **state)
{
    (void)state;
    haul_estimate_result r;
    haul_scope          *scope = haul_scope_push();
    haul_module         *net = make(2);
    assert_ok(haul_save_weights(FILE_NAME, make(1)));
    const content before = content_of(net);
    assert_ok(haul_estimate(load_dry, net, &r));
    content after = content_of(net);
    assert_same(&before, &after);
    haul_memory_stats stats;
    assert_ok(haul_memory_stats_get(haul_cpu(), &stats));
    assert_ok(haul_memory_reset_peak(haul_cpu()));
    assert_ok(load_dry(net));
    const int64_t start = stats.allocated;
    assert_ok(haul_memory_stats_get(haul_cpu(), &stats));
    assert_int_equal(r.devices[0].peak_bytes - r.devices[0].start_bytes, stats.peak_allocated - start);
    haul_estimate_free(&r);
    haul_scope_pop(scope);
}

static void test_weights__a_prefix_is_added(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_module *encoder = make(1), *inner = make(2), *whole = HAUL_SEQUENTIAL(haul_nn_linear(2, 3), inner);
    assert_ok(haul_save_weights(FILE_NAME, encoder));
    float before[6], after[6];
    assert_int_equal(haul_read(haul_module_parameter(whole, "0.weight"), before, sizeof before), HAUL_OK);
    assert_ok(haul_load_weights(FILE_NAME, whole, .add_prefix = "1."));
    content expected = content_of(encoder), got = content_of(inner);
    assert_same(&expected, &got);
    assert_int_equal(haul_read(haul_module_parameter(whole, "0.weight"), after, sizeof after), HAUL_OK);
    assert_memory_equal(before, after, sizeof before);
    content all = content_of(whole);
    assert_refused(haul_load_weights(FILE_NAME, whole, .add_prefix = "2."), HAUL_INVALID_ARGUMENT,
                   "the module has no tensor whose name begins with '2.'; its first tensor is '0.weight'", whole, &all);

    /* one prefix in place of another */
    haul_module *moved = HAUL_SEQUENTIAL(haul_nn_linear(2, 3), make(3));
    assert_ok(haul_save_weights(FILE_NAME, whole));
    assert_ok(haul_load_weights(FILE_NAME, make(4), .prefix = "1."));
    assert_ok(haul_load_weights(FILE_NAME, moved, .prefix = "1.", .add_prefix = "1."));
    got = content_of(haul_module_child(moved, "1"));
    assert_same(&expected, &got);
    haul_scope_pop(scope);
}

static void test_weights__of_a_checkpoint_load_alone(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_module *trained = make(1), *other = make(2);
    train(trained);
    assert_ok(haul_save_checkpoint("w.checkpoint", trained, haul_adam(trained, 0.001),
                                   .position = &(haul_training_position){1, 3}));
    assert_ok(haul_load_weights("w.checkpoint", other, .prefix = "model."));
    content expected = content_of(trained), got = content_of(other);
    assert_same(&expected, &got);
    haul_scope_pop(scope);
}

/* ---- missing and unexpected tensors ---- */

static void test_weights__partial_loading_tells_what_was_left_out(void **state)
{
    (void)state;
    static const float  ones[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    haul_weights_report report;
    haul_scope         *outer = haul_scope_push();
    haul_module        *net = make(1);
    haul_named_tensor   tensors[] = {
          {"0.weight", haul_from_host(HAUL_F32, HAUL_SHAPE(4, 3), ones), false},
          {"new.b", haul_zeros(HAUL_F32, HAUL_SHAPE(1)), false},
          {"new.a", haul_zeros(HAUL_F32, HAUL_SHAPE(1)), false},
    };
    assert_ok(haul_save_safetensors(FILE_NAME, tensors, 3, NULL, 0));
    content before = content_of(net);
    assert_refused(haul_load_weights(FILE_NAME, net), HAUL_FORMAT,
                   "lacks '0.bias' and 7 more, which the module has; .partial = true", net, &before);
    assert_ok(haul_load_weights(FILE_NAME, net, .partial = true, .report = &report));
    float got[12];
    assert_int_equal(haul_read(haul_module_parameter(net, "0.weight"), got, sizeof got), HAUL_OK);
    assert_memory_equal(got, ones, sizeof ones);
    assert_int_equal(report.loaded, 1);
    assert_int_equal(report.missing_count, TENSORS - 1);
    assert_int_equal(report.unexpected_count, 2);
    assert_string_equal(report.missing[0], "0.bias");
    assert_string_equal(report.missing[TENSORS - 2], "1.num_batches_tracked");
    assert_string_equal(report.unexpected[0], "new.b");
    assert_string_equal(report.unexpected[1], "new.a");

    /* nothing in common, and a shape that differs, are mistakes in any case */
    before = content_of(net);
    assert_ok(haul_save_safetensors(FILE_NAME, tensors + 1, 2, NULL, 0));
    assert_refused(haul_load_weights(FILE_NAME, net, .partial = true, .report = &report), HAUL_FORMAT,
                   "no name in common: the file begins with 'new.b', the module with '0.weight'", net, &before);
    assert_true(report.loaded == 0 && report.missing_count == 0 && !report.missing);
    tensors[0].tensor = haul_from_host(HAUL_F32, HAUL_SHAPE(3, 4), ones);
    assert_ok(haul_save_safetensors(FILE_NAME, tensors, 3, NULL, 0));
    assert_refused(haul_load_weights(FILE_NAME, net, .partial = true), HAUL_SHAPE,
                   "holds '0.weight' as f32[3,4], the module as f32[4,3]", net, &before);
    haul_scope_pop(outer);
}

static void test_weights__of_unexpected_tensors_only_names_matter(void **state)
{
    (void)state;
    haul_weights_report report;
    haul_scope         *scope = haul_scope_push();
    haul_module        *net = HAUL_SEQUENTIAL(haul_nn_linear(1, 1, .no_bias = true));
    write_file("{\"0.weight\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]},"
               "\"q\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[4,8]}}",
               "\0\0\0\x40wxyz", 8);
    assert_int_equal(haul_load_weights(FILE_NAME, net), HAUL_FORMAT);
    assert_non_null(strstr(haul_error_message(), "holds 'q', which the module lacks; .partial = true"));
    haul_error_clear();
    assert_ok(haul_load_weights(FILE_NAME, net, .partial = true, .report = &report));
    assert_true(haul_item(haul_module_parameter(net, "0.weight")) == 2);
    assert_string_equal(report.unexpected[0], "q");
    haul_scope_pop(scope);
}

static haul_tensor *identity(haul_module *self, haul_args *args)
{
    (void)self;
    return args->x[0];
}

static void test_weights__a_dtype_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_module *net = haul_module_new("net", identity);
    write_file("{\"q\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]}} ", "wxyz", 4);
    haul_module_add_parameter(net, "q", haul_zeros(HAUL_F32, HAUL_SHAPE(4)));
    content before = content_of(net);
    assert_refused(haul_load_weights(FILE_NAME, net, .convert = true), HAUL_DTYPE,
                   "holds 'q' as F8_E4M3[4], the module as f32[4]; Haul does not convert between these dtypes", net,
                   &before);
    haul_scope_pop(scope);
}

static void test_weights__a_tensor_under_two_names_is_wanted_once(void **state)
{
    (void)state;
    haul_scope       *scope = haul_scope_push();
    haul_module      *net = haul_module_new("tied", identity);
    haul_tensor      *shared = haul_zeros(HAUL_F32, HAUL_SHAPE(2));
    haul_named_tensor tensor = {"b", haul_from_host(HAUL_F32, HAUL_SHAPE(2), ((const float[]){3, 4})), false};
    assert_ok(haul_module_add_parameter(net, "a", shared));
    assert_ok(haul_module_add_parameter(net, "b", shared));
    assert_ok(haul_save_safetensors(FILE_NAME, &tensor, 1, NULL, 0));
    assert_ok(haul_load_weights(FILE_NAME, net));
    assert_true(haul_item(haul_sum(shared)) == 7);
    haul_scope_pop(scope);
}

static void test_weights__under_two_names_must_be_the_same(void **state)
{
    (void)state;
    haul_scope       *scope = haul_scope_push();
    haul_module      *net = haul_module_new("tied", identity);
    haul_tensor      *shared = haul_zeros(HAUL_F32, HAUL_SHAPE(2));
    haul_named_tensor two[] = {{"a", haul_from_host(HAUL_F32, HAUL_SHAPE(2), ((const float[]){3, 5})), false},
                               {"b", haul_from_host(HAUL_F32, HAUL_SHAPE(2), ((const float[]){3, 4})), false}};
    assert_ok(haul_module_add_parameter(net, "a", shared));
    assert_ok(haul_module_add_parameter(net, "b", shared));
    assert_ok(haul_save_safetensors(FILE_NAME, two, 2, NULL, 0));
    content before = content_of(net);
    for (int map = 0; map < 2; map++)
        assert_refused(haul_load_weights(FILE_NAME, net, .map = map), HAUL_FORMAT,
                       "holds different values as 'a' and as 'b', which are names of one tensor", net, &before);
    two[0].tensor = two[1].tensor;
    assert_ok(haul_save_safetensors(FILE_NAME, two, 2, NULL, 0));
    assert_ok(haul_load_weights(FILE_NAME, net));
    assert_true(haul_item(haul_sum(shared)) == 7);
    haul_scope_pop(scope);
}

/* ---- dtypes ---- */

static haul_module *holder(haul_dtype dtype)
{
    haul_module *net = haul_module_new("holder", identity);
    haul_tensor *t = haul_zeros(dtype, HAUL_SHAPE(3));
    assert_ok(haul_module_add_buffer(net, "t", t));
    return net;
}

static void test_weights__are_converted_when_asked_for(void **state)
{
    (void)state;
    static const struct {
        haul_dtype file, module;
        bool       converts;
    } pairs[] = {
        {HAUL_F16, HAUL_F32, true},  {HAUL_F32, HAUL_F16, true},  {HAUL_BF16, HAUL_F32, true},
        {HAUL_F32, HAUL_BF16, true}, {HAUL_F64, HAUL_F32, true},  {HAUL_F16, HAUL_BF16, true},
        {HAUL_U8, HAUL_I64, true},   {HAUL_I32, HAUL_I64, true},  {HAUL_I64, HAUL_I32, false},
        {HAUL_I8, HAUL_U8, false},   {HAUL_I32, HAUL_F32, false}, {HAUL_F32, HAUL_I32, false},
        {HAUL_BOOL, HAUL_U8, false}, {HAUL_U8, HAUL_BOOL, false},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int map = 0; map <= 1; map++) {
            haul_weights_report report;
            haul_scope         *scope = haul_scope_push();
            haul_module        *net = holder(pairs[i].module);
            haul_tensor        *values = haul_from_host(HAUL_F32, HAUL_SHAPE(3), ((const float[]){0, 1, 5}));
            haul_named_tensor   tensor = {"t", haul_cast(values, pairs[i].file), false};
            content             before = content_of(net);
            assert_ok(haul_save_safetensors(FILE_NAME, &tensor, 1, NULL, 0));
            assert_refused(haul_load_weights(FILE_NAME, net), HAUL_DTYPE,
                           pairs[i].converts ? "; set .convert = true to convert it"
                                             : "; Haul does not convert between these dtypes",
                           net, &before);
            if (pairs[i].converts) {
                assert_ok(haul_load_weights(FILE_NAME, net, .convert = true, .map = map, .report = &report));
                assert_true(haul_item(haul_sum(haul_module_buffer(net, "t"))) == 6);
                assert_int_equal(haul_tensor_dtype(haul_module_buffer(net, "t")), pairs[i].module);
                assert_true(report.converted == 1 && report.mapped == 0);
            } else {
                assert_refused(haul_load_weights(FILE_NAME, net, .convert = true), HAUL_DTYPE, "does not convert", net,
                               &before);
            }
            haul_scope_pop(scope);
        }
}

/* ---- mapping ---- */

static void test_weights__mapped_ones_lie_in_the_file_and_train_the_same(void **state)
{
    (void)state;
    haul_weights_report report;
    haul_scope         *scope = haul_scope_push();
    haul_module        *source = make(1), *read = make(2), *mapped = make(3);
    assert_ok(haul_save_weights(FILE_NAME, source));
    haul_tensor *handle = haul_module_parameter(mapped, "0.weight");
    assert_ok(haul_load_weights(FILE_NAME, read));
    assert_ok(haul_load_weights(FILE_NAME, mapped, .map = true, .report = &report));
    assert_int_equal(report.mapped, TENSORS);
    assert_ptr_equal(handle, haul_module_parameter(mapped, "0.weight"));
    content a = content_of(read), b = content_of(mapped), c = content_of(source);
    assert_same(&a, &b);
    assert_same(&a, &c);
    train(read);
    train(mapped);
    a = content_of(read), b = content_of(mapped);
    assert_same(&a, &b);
    assert_ok(haul_load_weights(FILE_NAME, read)); /* the file is as it was */
    a = content_of(read);
    assert_same(&a, &c);
    haul_scope_pop(scope);
}

static void test_weights__mapped_where_layout_and_device_allow(void **state)
{
    (void)state;
    haul_device        *devices[16];
    haul_weights_report report;
    haul_scope         *scope = haul_scope_push();
    haul_module        *source = HAUL_SEQUENTIAL(haul_nn_conv2d(2, 3, 3));
    haul_module        *last = HAUL_SEQUENTIAL(haul_nn_conv2d(2, 3, 3));
    assert_ok(haul_save_weights(FILE_NAME, source));
    assert_ok(haul_module_to_memory_format(last, HAUL_CHANNELS_LAST));
    assert_ok(haul_load_weights(FILE_NAME, last, .map = true, .report = &report));
    assert_int_equal(report.mapped, 1); /* the bias */
    assert_true(haul_tensor_is_channels_last(haul_module_parameter(last, "0.weight")));
    content a = content_of(source), b = content_of(last);
    assert_same(&a, &b);
    int count = test_devices(devices, 16);
    for (int i = 0; i < count; i++) {
        haul_module *net = HAUL_SEQUENTIAL(haul_nn_conv2d(2, 3, 3));
        assert_ok(haul_module_to(net, devices[i]));
        assert_ok(haul_load_weights(FILE_NAME, net, .map = true, .report = &report));
        assert_int_equal(report.mapped, devices[i] == haul_cpu() ? 2 : 0);
        assert_ptr_equal(haul_tensor_device(haul_module_parameter(net, "0.weight")), devices[i]);
        b = content_of(net);
        assert_same(&a, &b);
    }
    haul_scope_pop(scope);
}

/* ---- metadata ---- */

static void test_weights__say_that_they_are_pytorchs(void **state)
{
    (void)state;
    const haul_text_pair more[] = {{"author", "somebody"}, {"note", "n"}}, own[] = {{"format", "haul"}};
    haul_scope          *scope = haul_scope_push();
    haul_module         *net = make(1);
    assert_ok(haul_save_weights(FILE_NAME, net));
    haul_safetensors *file = haul_open_safetensors(FILE_NAME);
    assert_int_equal(haul_safetensors_metadata_count(file), 1);
    assert_string_equal(haul_safetensors_metadata(file, "format"), "pt");
    assert_ok(haul_save_weights(FILE_NAME, net, .metadata = more, .metadata_count = 2));
    file = haul_open_safetensors(FILE_NAME);
    assert_int_equal(haul_safetensors_metadata_count(file), 3);
    assert_string_equal(haul_safetensors_metadata(file, "format"), "pt");
    assert_string_equal(haul_safetensors_metadata(file, "author"), "somebody");
    assert_ok(haul_save_weights(FILE_NAME, net, .metadata = own, .metadata_count = 1));
    file = haul_open_safetensors(FILE_NAME);
    assert_int_equal(haul_safetensors_metadata_count(file), 1);
    assert_string_equal(haul_safetensors_metadata(file, "format"), "haul");
    assert_ok(haul_load_weights(FILE_NAME, net));
    haul_scope_pop(scope);
}

static void test_weights__errors_of_saving_name_the_function(void **state)
{
    (void)state;
    const haul_text_pair twice[] = {{"a", "1"}, {"a", "2"}}, null = {"a", NULL}, latin = {"a", "\xe9"};
    haul_scope          *scope = haul_scope_push();
    haul_module         *net = make(1);
    const haul_status    got[] = {
           haul_save_weights("no/folder/w.safetensors", net),
           haul_save_weights(FILE_NAME, net, .metadata = twice, .metadata_count = 2),
           haul_save_weights(FILE_NAME, net, .metadata = &latin, .metadata_count = 1),
           haul_save_weights(FILE_NAME, net, .metadata = twice, .metadata_count = -2),
           haul_save_weights(FILE_NAME, net, .metadata_count = 1),
           haul_save_weights(FILE_NAME, net, .metadata = &null, .metadata_count = 1),
    };
    assert_int_equal(got[0], HAUL_IO);
    for (size_t i = 1; i < sizeof got / sizeof *got; i++)
        assert_int_equal(got[i], HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_int_equal(haul_save_weights_with(FILE_NAME, NULL), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_load_weights_with(FILE_NAME, NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_int_equal(haul_save_weights("no/folder/w.safetensors", net), HAUL_IO);
    assert_string_equal(haul_error_operation(), "haul_save_weights");
    assert_int_equal(strncmp(haul_error_message(), "haul_save_weights: cannot ", 26), 0);
    assert_int_equal(haul_load_weights("no/folder/w.safetensors", net), HAUL_IO);
    assert_string_equal(haul_error_operation(), "haul_load_weights");
    assert_int_equal(haul_save_weights(FILE_NAME, net, .metadata = &null, .metadata_count = 1), HAUL_INVALID_ARGUMENT);
    assert_string_equal(haul_error_operation(), "haul_save_weights");
    assert_string_equal(haul_error_argument(), "metadata");
    haul_error_clear();
    haul_scope_pop(scope);
}

/* ---- failures ---- */

static void test_weights__every_failure_changes_nothing(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_module *source = make(1);
    assert_ok(haul_save_weights(FILE_NAME, source));
    content expected = content_of(source);
    for (int map = 0; map <= 1; map++) {
        haul_module *net = make(2);
        content      before = content_of(net);
        for (int64_t nth = 1;; nth++) {
            haul_weights_report report;
            int64_t             blocks = haul__host_blocks();
            haul_scope         *inner = haul_scope_push();
            haul__fault_plan(
                HAUL__FAULT_HOST | HAUL__FAULT_DEVICE | HAUL__FAULT_COPY | HAUL__FAULT_LAUNCH | HAUL__FAULT_FILE, nth);
            haul_status status = haul_load_weights(FILE_NAME, net, .partial = true, .map = map, .report = &report);
            haul__fault_plan(0, 0);
            content after = content_of(net);
            assert_same(status ? &before : &expected, &after);
            assert_string_equal(haul_error_operation(), status ? "haul_load_weights" : "");
            assert_int_equal(report.loaded, status ? 0 : TENSORS);
            haul_error_clear();
            haul_scope_pop(inner);
            if (!status)
                break;
            assert_int_equal(haul__host_blocks(), blocks);
        }
    }
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights__a_prefix_is_removed),
        cmocka_unit_test(test_weights__a_part_is_left_out),
        cmocka_unit_test(test_weights__loading_is_estimated),
        cmocka_unit_test(test_weights__a_prefix_is_added),
        cmocka_unit_test(test_weights__of_a_checkpoint_load_alone),
        cmocka_unit_test(test_weights__partial_loading_tells_what_was_left_out),
        cmocka_unit_test(test_weights__of_unexpected_tensors_only_names_matter),
        cmocka_unit_test(test_weights__a_dtype_that_cannot_be_read_is_named),
        cmocka_unit_test(test_weights__a_tensor_under_two_names_is_wanted_once),
        cmocka_unit_test(test_weights__under_two_names_must_be_the_same),
        cmocka_unit_test(test_weights__are_converted_when_asked_for),
        cmocka_unit_test(test_weights__mapped_ones_lie_in_the_file_and_train_the_same),
        cmocka_unit_test(test_weights__mapped_where_layout_and_device_allow),
        cmocka_unit_test(test_weights__say_that_they_are_pytorchs),
        cmocka_unit_test(test_weights__errors_of_saving_name_the_function),
        cmocka_unit_test(test_weights__every_failure_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
