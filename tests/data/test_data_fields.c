/* Examples with many fields: all dtypes, sizes that vary, datasets without a known count, drawing by weight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/thread.h"

static void expect(haul_status status, const char *words)
{
    if (haul_error_status() != status || !strstr(haul_error_message(), words))
        fail_msg("%s (expected: %s)", haul_error_message(), words);
    haul_error_clear();
}

/* FNV-1a of all values of all fields of an epoch. */
static uint64_t add_bytes(uint64_t hash, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)data)[i]) * UINT64_C(1099511628211);
    return hash;
}

static uint64_t add_tensor(uint64_t hash, haul_tensor *t)
{
    static uint8_t bytes[1 << 16];
    assert_true(haul_tensor_bytes(t) <= sizeof bytes);
    assert_int_equal(haul_read(t, bytes, sizeof bytes), HAUL_OK);
    return add_bytes(hash, bytes, haul_tensor_bytes(t));
}

static uint64_t hash_epoch(haul_loader *loader, int64_t epoch, int64_t first)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    assert_int_equal(haul_loader_start_at(loader, epoch, first), HAUL_OK);
    for (const haul_batch *b; (b = haul_loader_next(loader));) {
        hash = add_bytes(hash, &b->index, sizeof b->index);
        for (int f = 0; f < b->count; f++) {
            hash = add_tensor(hash, b->tensors[f]);
            if (b->lengths[f] != HAUL_NONE)
                hash = add_tensor(hash, b->lengths[f]);
        }
    }
    if (haul_loader_status(loader) != HAUL_END_OF_DATA)
        fail_msg("%s", haul_error_message());
    return hash;
}

/* ---- sentences: tokens that vary, a matrix whose second dimension varies, a flag, a half ---- */

typedef struct sentences {
    int64_t    end; /* of a dataset without a known count */
    int64_t    next;
    atomic_int readers;
    bool       unordered;
} sentences;

static haul_status write_sentence(haul_example *e, int64_t length)
{
    int16_t *tokens = haul_example_resize(e, 0, HAUL_I16, HAUL_SHAPE(length));
    double  *table = haul_example_resize(e, 1, HAUL_F64, HAUL_SHAPE(2, length, 3));
    if (!tokens || !table)
        return haul_error_status();
    for (int64_t i = 0; i < length; i++)
        tokens[i] = (int16_t)(100 * e->index + i);
    for (int64_t i = 0; i < 6 * length; i++)
        table[i] = (double)(1000 * e->index + i);
    *(bool *)e->fields[2].data = e->index % 2;
    *(uint16_t *)e->fields[3].data = 0x3c00; /* 1 */
    return HAUL_OK;
}

static haul_status read_sentence(void *context, haul_example *e)
{
    (void)context;
    return write_sentence(e, e->index % 5);
}

#define SENTENCE_FIELDS                                                                                                \
    {                                                                                                                  \
        {.name = "tokens", .dtype = HAUL_I16, .shape = HAUL_SHAPE(-1), .padding = -100},                               \
            {.name = "table", .dtype = HAUL_F64, .shape = HAUL_SHAPE(2, -1, 3), .padding = 0.5},                       \
            {.name = "odd", .dtype = HAUL_BOOL},                                                                       \
        {                                                                                                              \
            .name = "half", .dtype = HAUL_F16                                                                          \
        }                                                                                                              \
    }

static haul_dataset *known(int64_t count)
{
    return haul_dataset_new(
        &(haul_dataset_source){.fields = SENTENCE_FIELDS, .count = count, .name = "sentences", .read = read_sentence});
}

static void test_fields__varying_ones_are_padded(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_loader *loader = haul_loader_new(known(9), .batch = 4, .workers = 2);
    int16_t      tokens[4][4];
    double       table[4][2][4][3];
    int64_t      lengths[4];
    bool         odd[4];
    assert_int_equal(haul_loader_start(loader, 0), HAUL_OK);
    const haul_batch *b = haul_loader_next(loader); /* lengths 0 1 2 3 */
    assert_non_null(b);
    assert_int_equal(b->count, 4);
    assert_int_equal(haul_tensor_dim(haul_batch_tensor(b, "tokens"), 1), 3);
    b = haul_loader_next(loader); /* lengths 4 0 1 2 */
    assert_non_null(b);
    assert_ptr_equal(b->y, haul_batch_tensor(b, "table"));
    assert_int_equal(haul_read(b->x, tokens, sizeof tokens), HAUL_OK);
    assert_int_equal(haul_read(b->y, table, sizeof table), HAUL_OK);
    assert_int_equal(haul_read(haul_batch_lengths(b, "table"), lengths, sizeof lengths), HAUL_OK);
    assert_int_equal(haul_read(haul_batch_tensor(b, "odd"), odd, sizeof odd), HAUL_OK);
    assert_int_equal(haul_tensor_dtype(haul_batch_tensor(b, "half")), HAUL_F16);
    for (int i = 0; i < 4; i++) {
        int64_t index = 4 + i;
        assert_int_equal(lengths[i], index % 5);
        assert_int_equal(odd[i], index % 2);
        for (int k = 0; k < 4; k++) {
            assert_int_equal(tokens[i][k], k < lengths[i] ? 100 * index + k : -100);
            for (int c = 0; c < 2; c++)
                for (int j = 0; j < 3; j++)
                    assert_true(table[i][c][k][j] ==
                                (k < lengths[i] ? (double)(1000 * index + (c * lengths[i] + k) * 3 + j) : 0.5));
        }
    }
    b = haul_loader_next(loader); /* one example, of length 3 */
    assert_int_equal(b->size, 1);
    assert_int_equal(haul_tensor_dim(b->x, 1), 3);
    assert_false(haul_tensor_is_valid(haul_batch_tensor(b, "words")));
    expect(HAUL_INVALID_ARGUMENT, "no field \"words\"; it has tokens, table, odd, half");
    assert_false(haul_tensor_is_valid(haul_batch_lengths(b, "odd")));
    expect(HAUL_INVALID_ARGUMENT, "odd does not vary in size");
    haul_scope_pop(scope);
}

static void test_fields__all_empty_is_a_batch(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_loader *loader = haul_loader_new(known(1));
    assert_int_equal(haul_loader_start(loader, 0), HAUL_OK);
    const haul_batch *b = haul_loader_next(loader);
    assert_non_null(b);
    assert_int_equal(haul_tensor_dim(b->x, 1), 0);
    haul_scope_pop(scope);
}

static void test_fields__batches_of_varying_ones_can_be_kept(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_loader *loader = haul_loader_new(known(20), .batch = 2, .workers = 1, .device = haul_device_get("cpu"));
    haul_tensor *kept[10];
    assert_int_equal(haul_loader_start(loader, 0), HAUL_OK);
    for (const haul_batch *b; (b = haul_loader_next(loader));)
        kept[b->index] = haul_keep(b->x);
    for (int i = 0; i < 10; i++) {
        int16_t tokens[8] = {0};
        assert_int_equal(haul_read(kept[i], tokens, sizeof tokens), HAUL_OK);
        if (2 * i % 5)
            assert_int_equal(tokens[0], 200 * i);
        haul_release(kept[i]);
    }
    haul_scope_pop(scope);
}

static haul_status forget(void *context, haul_example *e)
{
    (void)context, (void)e;
    return HAUL_OK;
}

static haul_status widen(void *context, haul_example *e)
{
    haul_status status = read_sentence(context, e);
    return haul_example_resize(e, 1, HAUL_F64, HAUL_SHAPE(2, 1, 4)) ? status : haul_error_status();
}

static haul_status resize_wrongly(void *context, haul_example *e)
{
    (void)context;
    if (haul_example_resize(e, 4, HAUL_F32, HAUL_SCALAR_SHAPE) || haul_example_resize(e, -1, HAUL_F32, HAUL_SHAPE(1)) ||
        haul_example_resize(e, 0, HAUL_DTYPE_END, HAUL_SHAPE(1)) || haul_example_field(e, "none"))
        return HAUL_OK;
    return haul_example_resize(e, 0, HAUL_I16, HAUL_SHAPE(-1)) ? HAUL_OK : haul_error_status();
}

static void test_fields__wrong_values_are_refused(void **state)
{
    (void)state;
    static const struct {
        haul_example_function *read;
        haul_status            status;
        const char            *words;
    } cases[] = {{forget, HAUL_INVALID_ARGUMENT, "no value for tokens, which varies in size"},
                 {widen, HAUL_SHAPE, "table of example 0 of wrong is f64[2,1,4]; f64[2,-1,3] was declared"},
                 {resize_wrongly, HAUL_SHAPE, "-1"}};
    haul_scope *scope = haul_scope_push();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        haul_dataset *data = haul_dataset_new(
            &(haul_dataset_source){.fields = SENTENCE_FIELDS, .count = 3, .name = "wrong", .read = cases[i].read});
        haul_loader *loader = haul_loader_new(data);
        assert_int_equal(haul_loader_start(loader, 0), HAUL_OK);
        assert_null(haul_loader_next(loader));
        expect(cases[i].status, cases[i].words);
    }
    assert_null(haul_example_resize(&(haul_example){0}, 0, HAUL_F32, HAUL_SHAPE(1)));
    expect(HAUL_INVALID_ARGUMENT, "example");
    haul_scope_pop(scope);
}

/* ---- random numbers of examples ---- */

static haul_status read_drawn(void *context, haul_example *e)
{
    (void)context;
    haul_status status = write_sentence(e, (int64_t)haul_draw_below(&e->draws, 7));
    *(bool *)e->fields[2].data = haul_draw_unit(&e->draws) < 0.5;
    return status;
}

static haul_status jitter(void *context, haul_example *e)
{
    (void)context;
    double *table = haul_example_field(e, "table")->data;
    for (int64_t i = 0; i < 6 * e->fields[1].shape.dims[1]; i++)
        table[i] += haul_draw_normal(&e->draws);
    return HAUL_OK;
}

static void test_fields__draws_do_not_depend_on_workers(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    haul_dataset *data = haul_dataset_map(
        haul_dataset_new(&(haul_dataset_source){.fields = SENTENCE_FIELDS, .count = 61, .read = read_drawn}),
        haul_transform_new(jitter));
    uint64_t first = 0;
    for (int workers = 0; workers <= 4; workers++) {
        haul_loader *loader = haul_loader_new(data, .batch = 7, .shuffle = true, .seed = 4, .workers = workers);
        uint64_t     hash = hash_epoch(loader, 3, 0), other = hash_epoch(loader, 4, 0);
        if (!workers)
            first = hash;
        assert_true(hash == first && other != first);
        assert_true(hash_epoch(loader, 3, 0) == first);
    }
    assert_true(hash_epoch(haul_loader_new(data, .batch = 7, .shuffle = true, .seed = 5), 3, 0) != first);
    haul_scope_pop(scope);
}

/* ---- no known count ---- */

static haul_status read_next(void *context, haul_example *e)
{
    sentences *s = context;
    if (atomic_fetch_add(&s->readers, 1))
        s->unordered = true;
    if (e->index == 0)
        s->next = 0;
    if (e->index != s->next++)
        s->unordered = true;
    haul_status status = e->index < s->end ? write_sentence(e, e->index % 5) : HAUL_END_OF_DATA;
    atomic_fetch_sub(&s->readers, 1);
    return status;
}

static haul_dataset *unknown(sentences *s)
{
    return haul_dataset_map(
        haul_dataset_new(&(haul_dataset_source){
            .fields = SENTENCE_FIELDS, .count = HAUL_UNKNOWN, .name = "stream", .read = read_next, .context = s}),
        haul_transform_new(jitter));
}

static void test_unknown__is_read_in_order_by_any_number_of_workers(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    sentences   s = {.end = 23};
    uint64_t    first = 0, later = 0;
    assert_int_equal(haul_dataset_count(unknown(&s)), HAUL_UNKNOWN);
    for (int workers = 0; workers <= 4; workers++) {
        haul_loader *loader = haul_loader_new(unknown(&s), .batch = 5, .seed = 4, .workers = workers);
        assert_int_equal(haul_loader_batches(loader), HAUL_UNKNOWN);
        uint64_t hash = hash_epoch(loader, 3, 0), part = hash_epoch(loader, 3, 2);
        assert_null(haul_loader_next(loader));
        assert_int_equal(haul_loader_status(loader), HAUL_END_OF_DATA);
        if (!workers) {
            first = hash;
            later = part;
        }
        assert_true(hash == first && part == later && part != hash);
        assert_false(s.unordered);
    }
    haul_loader *all = haul_loader_new(known(23), .batch = 5);
    haul_loader *ordered =
        haul_loader_new(haul_dataset_new(&(haul_dataset_source){
                            .fields = SENTENCE_FIELDS, .count = HAUL_UNKNOWN, .read = read_next, .context = &s}),
                        .batch = 5, .workers = 3);
    assert_true(hash_epoch(all, 0, 0) == hash_epoch(ordered, 0, 0));
    haul_scope_pop(scope);
}

static void test_unknown__ends_where_a_batch_does(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    for (int workers = 0; workers <= 2; workers += 2)
        for (int64_t end = 0; end <= 8; end++)
            for (int drop = 0; drop < 2; drop++) {
                sentences    s = {.end = end};
                int64_t      batches = 0;
                haul_loader *loader =
                    haul_loader_new(unknown(&s), .batch = 4, .workers = workers, .drop_last = drop != 0);
                assert_int_equal(haul_loader_start(loader, 1), HAUL_OK);
                for (const haul_batch *b; (b = haul_loader_next(loader)); batches++)
                    assert_int_equal(b->size, end - 4 * batches < 4 ? end - 4 * batches : 4);
                assert_int_equal(haul_loader_status(loader), HAUL_END_OF_DATA);
                assert_int_equal(haul_error_status(), HAUL_OK);
                assert_int_equal(batches, drop ? end / 4 : (end + 3) / 4);
            }
    haul_scope_pop(scope);
}

static haul_status fail_at_seven(void *context, haul_example *e)
{
    return e->index == 7 ? haul_error_set(HAUL_IO, "reading", NULL, "the pipe broke") : read_next(context, e);
}

static void test_unknown__early_ends_errors_and_refusals(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    sentences   s = {.end = 1000};
    for (int i = 0; i < 20; i++) {
        haul_loader *loader = haul_loader_new(unknown(&s), .batch = 3, .workers = 3);
        assert_int_equal(haul_loader_start(loader, i), HAUL_OK);
        for (int k = 0; k < i % 4; k++)
            assert_non_null(haul_loader_next(loader));
        haul_drop(loader);
    }
    haul_dataset *broken = haul_dataset_new(
        &(haul_dataset_source){.fields = SENTENCE_FIELDS, .count = HAUL_UNKNOWN, .read = fail_at_seven, .context = &s});
    for (int workers = 0; workers <= 2; workers++) {
        haul_loader *loader = haul_loader_new(broken, .batch = 3, .workers = workers);
        assert_int_equal(haul_loader_start(loader, 1), HAUL_OK);
        assert_non_null(haul_loader_next(loader));
        assert_non_null(haul_loader_next(loader));
        assert_null(haul_loader_next(loader));
        assert_int_equal(haul_loader_status(loader), HAUL_IO);
        expect(HAUL_IO, "the pipe broke");
    }
    assert_null(haul_loader_new(unknown(&s), .shuffle = true));
    expect(HAUL_UNSUPPORTED, "the count of stream is unknown");
    assert_null(haul_loader_new(unknown(&s), .weights = haul_ones(HAUL_F32, HAUL_SHAPE(3))));
    expect(HAUL_UNSUPPORTED, ".weights needs a dataset with a known count");
    haul_dataset *shorter = haul_dataset_new(
        &(haul_dataset_source){.fields = SENTENCE_FIELDS, .count = 2000, .read = read_next, .context = &s});
    haul_loader *loader = haul_loader_new(shorter, .batch = 100);
    assert_int_equal(haul_loader_start_at(loader, 1, 10), HAUL_OK);
    assert_null(haul_loader_next(loader));
    expect(HAUL_IO, "ended at example 1000; its count is 2000");
    haul_scope_pop(scope);
}

/* A dry run reads no examples, so it cannot know these sizes. */
static haul_status load_within(void *context)
{
    return haul_loader_new(context, .batch = 2) ? HAUL_OK : haul_error_status();
}

static void test_unknown__dry_runs_refuse_it(void **state)
{
    (void)state;
    haul_scope          *scope = haul_scope_push();
    haul_estimate_result result;
    sentences            s = {.end = 3};
    assert_int_equal(haul_estimate(load_within, known(3), &result), HAUL_UNSUPPORTED);
    expect(HAUL_UNSUPPORTED, "tokens of sentences varies in size, and a dry run");
    assert_int_equal(haul_estimate(load_within, unknown(&s), &result), HAUL_UNSUPPORTED);
    expect(HAUL_UNSUPPORTED, "the count of stream is unknown, and a dry run");
    haul_scope_pop(scope);
}

/* ---- weights ---- */

static void test_weights__draw_in_proportion(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    haul_tensor  *x = haul_arange(HAUL_F32, 0, 5, 1);
    haul_dataset *data = haul_dataset_from_named(&(haul_named_tensor){.name = "x", .tensor = x}, 1);
    haul_tensor  *weights = haul_from_host(HAUL_F64, HAUL_SHAPE(5), (const double[]){0, 1, 0, 3, 0});
    haul_loader  *loader = haul_loader_new(data, .batch = 100, .weights = weights, .samples = 4000, .seed = 2);
    haul_loader  *workers =
        haul_loader_new(data, .batch = 100, .weights = weights, .samples = 4000, .seed = 2, .workers = 3);
    int counts[5] = {0};
    assert_int_equal(haul_loader_batches(loader), 40);
    assert_int_equal(haul_loader_start(loader, 1), HAUL_OK);
    for (const haul_batch *b; (b = haul_loader_next(loader));) {
        float values[100];
        haul_read(b->x, values, sizeof values);
        for (int i = 0; i < 100; i++)
            counts[(int)values[i]]++;
    }
    assert_int_equal(counts[0] + counts[2] + counts[4], 0);
    assert_in_range(counts[3], 2850, 3150);
    assert_true(hash_epoch(loader, 1, 0) == hash_epoch(workers, 1, 0));
    assert_true(hash_epoch(loader, 1, 0) != hash_epoch(loader, 2, 0));
    assert_int_equal(haul_loader_batches(haul_loader_new(data, .weights = weights)), 5);
    haul_scope_pop(scope);
}

static haul_status draw_flag(void *context, haul_example *e)
{
    (void)context;
    *(float *)e->fields[0].data = (float)haul_draw_unit(&e->draws);
    return HAUL_OK;
}

static void test_weights__repeated_examples_get_other_numbers(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    haul_tensor  *x = haul_zeros(HAUL_F32, HAUL_SHAPE(1));
    haul_dataset *data = haul_dataset_map(haul_dataset_from_named(&(haul_named_tensor){.name = "x", .tensor = x}, 1),
                                          haul_transform_new(draw_flag));
    haul_loader  *loader =
        haul_loader_new(data, .batch = 2, .weights = haul_ones(HAUL_F32, HAUL_SHAPE(1)), .samples = 2);
    float values[2];
    assert_int_equal(haul_loader_start(loader, 1), HAUL_OK);
    assert_int_equal(haul_read(haul_loader_next(loader)->x, values, sizeof values), HAUL_OK);
    assert_true(values[0] != values[1]);
    haul_scope_pop(scope);
}

static void test_weights__wrong_ones_are_refused(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    haul_dataset *data = haul_blobs(3);
    assert_null(haul_loader_new(data, .weights = haul_ones(HAUL_F32, HAUL_SHAPE(4))));
    expect(HAUL_SHAPE, ".weights must be [3]");
    assert_null(haul_loader_new(data, .weights = haul_ones(HAUL_I64, HAUL_SHAPE(3))));
    expect(HAUL_DTYPE, "it must be f32 or f64");
    assert_null(haul_loader_new(data, .weights = haul_zeros(HAUL_F32, HAUL_SHAPE(3))));
    expect(HAUL_INVALID_ARGUMENT, "add up to 0");
    assert_null(haul_loader_new(data, .weights = haul_full(HAUL_F32, HAUL_SHAPE(3), -1)));
    expect(HAUL_INVALID_ARGUMENT, "weight 0 is -1");
    assert_null(haul_loader_new(data, .weights = haul_full(HAUL_F32, HAUL_SHAPE(3), (double)NAN)));
    expect(HAUL_INVALID_ARGUMENT, "finite");
    assert_null(haul_loader_new(data, .weights = haul_ones(HAUL_F32, HAUL_SHAPE(3)), .shuffle = true));
    expect(HAUL_INVALID_ARGUMENT, "exclude each other");
    haul_scope_pop(scope);
}

static void test_fields__every_failing_allocation_is_an_error(void **state)
{
    (void)state;
    haul_scope *outer = haul_scope_push();
    bool        whole = false;
    haul_device_get("meta"); /* is made once */
    for (int64_t nth = 1; !whole; nth++) {
        sentences   s = {.end = 5};
        int64_t     blocks = haul__host_blocks();
        haul_scope *scope = haul_scope_push();
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_DEVICE | HAUL__FAULT_COPY, nth);
        haul_loader *known_loader = haul_loader_new(known(5), .batch = 3, .device = haul_device_get("meta"));
        haul_loader *loader = haul_loader_new(unknown(&s), .batch = 3, .device = haul_device_get("meta"));
        int          batches = 0;
        haul_loader_start(known_loader, 1);
        while (haul_loader_next(known_loader))
            batches++;
        if (batches == 2)
            haul_loader_start(loader, 1);
        while (batches >= 2 && haul_loader_next(loader))
            batches++;
        haul__fault_plan(0, 0);
        whole = haul_error_status() == HAUL_OK && batches == 4;
        char message[300];
        snprintf(message, sizeof message, "%s", haul_error_message());
        haul_error_clear();
        haul_scope_pop(scope);
        if (haul__host_blocks() != blocks)
            fail_msg("call %d: %d blocks are left: %s", (int)nth, (int)(haul__host_blocks() - blocks), message);
    }
    haul_scope_pop(outer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields__varying_ones_are_padded),
        cmocka_unit_test(test_fields__all_empty_is_a_batch),
        cmocka_unit_test(test_fields__batches_of_varying_ones_can_be_kept),
        cmocka_unit_test(test_fields__wrong_values_are_refused),
        cmocka_unit_test(test_fields__draws_do_not_depend_on_workers),
        cmocka_unit_test(test_unknown__is_read_in_order_by_any_number_of_workers),
        cmocka_unit_test(test_unknown__ends_where_a_batch_does),
        cmocka_unit_test(test_unknown__early_ends_errors_and_refusals),
        cmocka_unit_test(test_unknown__dry_runs_refuse_it),
        cmocka_unit_test(test_weights__draw_in_proportion),
        cmocka_unit_test(test_weights__repeated_examples_get_other_numbers),
        cmocka_unit_test(test_weights__wrong_ones_are_refused),
        cmocka_unit_test(test_fields__every_failing_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
