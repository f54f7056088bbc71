/* The datasets: files, memory, and drawn ones. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "memory/allocator.h"
#include "support/datasets.h"

/* ---- CIFAR-10 ---- */

#define RECORD 3073

/* A file of `count` records: labels 0 1 2 ..., pixels that depend on file and record. */
static void write_records(const char *folder, const char *name, int file, int count)
{
    char     path[256];
    uint8_t *data = malloc((size_t)count * RECORD);
    assert_non_null(data);
    for (int i = 0; i < count; i++) {
        data[i * RECORD] = (uint8_t)(i % 10);
        for (int k = 1; k < RECORD; k++)
            data[i * RECORD + k] = (uint8_t)(file * 31 + i * 7 + k);
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_bytes(path, data, (size_t)count * RECORD);
    free(data);
}

static void write_cifar(const char *folder)
{
    char name[32];
    mkdir(folder, 0777);
    for (int i = 1; i <= 5; i++) {
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        write_records(folder, name, i, 10 + i);
    }
    write_records(folder, "test_batch.bin", 6, 4);
}

static void test_cifar10__reads_both_splits(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    haul_field  spec;
    uint8_t     picture[3072];
    int64_t     label;
    mkdir("archive", 0777);
    write_cifar("archive/cifar-10-batches-bin");
    haul_dataset *train = haul_cifar10("archive"), *test = haul_cifar10("archive/cifar-10-batches-bin", .test = true);
    if (!train || !test)
        fail_msg("%s", haul_error_message());
    assert_int_equal(haul_dataset_count(train), 11 + 12 + 13 + 14 + 15);
    assert_int_equal(haul_dataset_count(test), 4);
    assert_string_equal(haul_dataset_name(train), "cifar10 (train)");
    assert_string_equal(haul_dataset_name(test), "cifar10 (test)");
    assert_string_equal(class_name(train, 9), "truck");
    assert_null(class_name(train, 10));
    assert_null(class_name(train, -1));
    assert_int_equal(haul_dataset_fields(train), 2);
    assert_int_equal(haul_dataset_field(train, 1, &spec), HAUL_OK);
    assert_int_equal(spec.classes, 10);
    assert_int_equal(haul_dataset_field(train, 0, &spec), HAUL_OK);
    assert_int_equal(spec.shape.dims[0], 3);
    assert_string_equal(spec.name, "x");
    assert_int_equal(haul_dataset_field(train, 2, &spec), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    /* the third record of the second file */
    assert_int_equal(read_example_of(train, 11 + 2, picture, &label), HAUL_OK);
    assert_int_equal(label, 2);
    assert_int_equal(picture[0], (uint8_t)(2 * 31 + 2 * 7 + 1));
    assert_int_equal(read_example_of(train, 64, picture, &label), HAUL_OK);
    assert_int_equal(picture[3071], (uint8_t)(5 * 31 + 14 * 7 + 3072));
    haul_scope_pop(scope);
}

static void test_cifar10__unsound_files_are_refused(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    int64_t     blocks = haul__host_blocks();
    assert_null(haul_cifar10("nowhere"));
    expect("nowhere", HAUL_IO, "data_batch_1.bin in nowhere");
    write_cifar("bad");
    assert_int_equal(truncate("bad/data_batch_3.bin", 13 * RECORD - 1), 0);
    assert_null(haul_cifar10("bad"));
    expect("short", HAUL_FORMAT, "bad/data_batch_3.bin is not a valid CIFAR-10 file");
    assert_int_equal(truncate("bad/data_batch_3.bin", 0), 0);
    assert_null(haul_cifar10("bad"));
    expect("empty", HAUL_FORMAT, "it has 0 bytes");
    write_records("bad", "data_batch_3.bin", 3, 13);
    FILE *file = fopen("bad/data_batch_5.bin", "r+b");
    assert_non_null(file);
    fseek(file, 14 * RECORD, SEEK_SET);
    fputc(10, file);
    fclose(file);
    assert_null(haul_cifar10("bad"));
    expect("label", HAUL_FORMAT, "record 14 has the label 10");
    assert_int_equal(unlink("bad/data_batch_4.bin"), 0);
    assert_null(haul_cifar10("bad"));
    expect("missing", HAUL_IO, "cannot open bad/data_batch_4.bin");
    assert_int_equal(truncate("bad/data_batch_2.bin", (off_t)1 << 40), 0); /* sparse: nothing is taken for it */
    assert_null(haul_cifar10("bad"));
    expect("huge", HAUL_FORMAT, "at most");
    assert_null(haul_cifar10(NULL));
    expect("NULL", HAUL_INVALID_ARGUMENT, "directory");
    assert_int_equal(haul__host_blocks(), blocks);
    haul_scope_pop(scope);
}

/* ---- memory ---- */

static void test_tensors__are_examples(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    haul_field    spec;
    float         row[3];
    int64_t       label;
    haul_tensor  *x = haul_from_host(HAUL_F32, HAUL_SHAPE(3, 2), (const float[]){0, 1, 2, 3, 4, 5});
    haul_tensor  *y = haul_from_host(HAUL_I64, HAUL_SHAPE(2), (const int64_t[]){4, 0});
    haul_dataset *d = haul_dataset_from_tensors(haul_permute(x, (const int[]){1, 0}, 2), y);
    if (!d)
        fail_msg("%s", haul_error_message());
    haul_drop(x);
    haul_drop(y);
    assert_int_equal(haul_dataset_count(d), 2);
    assert_int_equal(haul_dataset_field(d, 1, &spec), HAUL_OK);
    assert_int_equal(spec.classes, 5);
    assert_int_equal(spec.shape.ndim, 0);
    assert_string_equal(class_name(d, 3), "3");
    assert_int_equal(read_example_of(d, 1, row, &label), HAUL_OK);
    assert_true(row[0] == 1 && row[1] == 3 && row[2] == 5 && label == 0);
    haul_scope_pop(scope);
}

static void test_tensors__that_are_no_examples_are_refused(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(3, 2)), *y = haul_zeros(HAUL_I64, HAUL_SHAPE(3));
    assert_null(haul_dataset_from_tensors(x, haul_zeros(HAUL_I64, HAUL_SHAPE(4))));
    expect("count", HAUL_SHAPE, "x has 3 examples, y has 4; the first dimension counts them");
    const haul_named_tensor twice[] = {{.name = "a", .tensor = x}, {.name = "a", .tensor = y}};
    assert_null(haul_dataset_from_named(twice, 2));
    expect("twice", HAUL_INVALID_ARGUMENT, "two fields are named \"a\"");
    assert_null(haul_dataset_from_named(twice, 0));
    expect("none", HAUL_INVALID_ARGUMENT, "0 tensors");
    assert_null(haul_dataset_from_named(&(haul_named_tensor){.name = "a b", .tensor = x}, 1));
    expect("blank", HAUL_INVALID_ARGUMENT, "must not be empty or contain commas or blanks");
    assert_null(haul_dataset_from_tensors(haul_scalar(1), y));
    expect("0-d", HAUL_SHAPE, "x is 0-d");
    assert_null(haul_dataset_from_tensors(x, haul_full(HAUL_I64, HAUL_SHAPE(3), -1)));
    expect("label", HAUL_INVALID_ARGUMENT, "label -1");
    assert_null(haul_dataset_from_tensors(x, HAUL_NONE));
    expect("none", HAUL_INVALID_ARGUMENT, "y is HAUL_NONE, but a tensor is needed");
    assert_null(haul_dataset_from_tensors(haul_to(x, haul_device_get("meta")), y));
    expect("device", HAUL_DEVICE, "haul_to(x, haul_cpu())");
    assert_null(haul_dataset_from_tensors(NULL, y));
    expect("NULL", HAUL_INVALID_ARGUMENT, "x");
    haul_scope_pop(scope);
}

static int closed;

static void count_closed(void *context)
{
    (void)context;
    closed++;
}

static haul_status read_nothing(void *context, haul_example *e)
{
    (void)context, (void)e;
    return HAUL_OK;
}

static void test_dataset__wrong_sources_are_refused_and_closed(void **state)
{
    (void)state;
    haul_scope               *scope = haul_scope_push();
    const haul_dataset_source good = {
        .fields = {{.name = "x", .dtype = HAUL_F32, .shape = HAUL_SHAPE(2)},
                   {.name = "y", .dtype = HAUL_I64, .classes = 2}},
        .count = 1,
        .read = read_nothing,
        .close = count_closed,
    };
    haul_dataset_source bad[11];
    for (int i = 0; i < 11; i++)
        bad[i] = good;
    bad[0].read = NULL;
    bad[1].count = -2;
    bad[2].fields[0].dtype = HAUL_DTYPE_END;
    bad[3].fields[1].dtype = HAUL_DTYPE_NONE;
    bad[4].fields[1].classes = -1;
    bad[5].fields[0].shape.dims[0] = -2;
    bad[6].fields[0].shape = (haul_shape){8, {1, 1, 1, 1, 1, 1, 1, 1}};
    bad[7].fields[0].shape = (haul_shape){2, {-1, -1}};
    bad[8].fields[0].name = NULL;
    bad[9].fields[1].name = "x";
    bad[10].fields[1].padding = 0.5;
    for (int i = 0; i < 11; i++) {
        assert_null(haul_dataset_new(&bad[i]));
        assert_int_not_equal(haul_error_status(), HAUL_OK);
        assert_int_equal(closed, i + 1);
        haul_error_clear();
    }
    assert_string_equal(haul_dataset_name(haul_dataset_new(&good)), "dataset");
    haul_scope_pop(scope);
    assert_int_equal(closed, 12);
}

/* ---- drawn ---- */

static void test_shapes__examples_depend_on_seed_and_index_only(void **state)
{
    (void)state;
    static uint8_t a[3072], b[3072];
    int64_t        la, lb;
    haul_scope    *scope = haul_scope_push();
    haul_dataset  *few = haul_shapes(5, .seed = 3), *many = haul_shapes(2000, .seed = 3),
                 *other = haul_shapes(5, .seed = 4), *test = haul_shapes(5, .seed = 3, .test = true),
                 *endless = haul_shapes(INT64_C(1) << 40, .seed = 3);
    if (!few || !many || !other || !test || !endless)
        fail_msg("%s", haul_error_message());
    int counts[10] = {0};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(read_example_of(few, i, a, &la), HAUL_OK);
        assert_int_equal(read_example_of(many, i, b, &lb), HAUL_OK);
        assert_int_equal(la, lb);
        assert_memory_equal(a, b, sizeof a);
        assert_int_equal(read_example_of(endless, i, b, &lb), HAUL_OK);
        assert_memory_equal(a, b, sizeof a);
        assert_int_equal(read_example_of(other, i, b, &lb), HAUL_OK);
        assert_memory_not_equal(a, b, sizeof a);
        assert_int_equal(read_example_of(test, i, b, &lb), HAUL_OK);
        assert_memory_not_equal(a, b, sizeof a);
    }
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(read_example_of(many, i, a, &la), HAUL_OK);
        counts[la]++;
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(counts[i], 140, 260);
    assert_string_equal(class_name(few, 4), "ring");
    assert_null(haul_shapes(-1));
    expect("negative", HAUL_INVALID_ARGUMENT, "-1 examples");
    haul_scope_pop(scope);
}

static void test_shapes__large_sets_are_in_counted_memory(void **state)
{
    (void)state;
    enum { MANY = 2000, FEW = 50, BYTES = 3 * 32 * 32 + 8 };
    const int64_t before = haul__device_allocated(haul_cpu(), false);
    haul_scope   *scope = haul_scope_push();
    haul_shapes(FEW);
    assert_int_equal(haul__device_allocated(haul_cpu(), false), before);
    haul_shapes(MANY);
    assert_true(haul__device_allocated(haul_cpu(), false) >= before + (int64_t)MANY * BYTES);
    haul_scope_pop(scope);

    /* Where the device's limit leaves no room, they are in the system's memory. */
    scope = haul_scope_push();
    assert_int_equal(haul_memory_release_cached(haul_cpu()), HAUL_OK);
    assert_int_equal(haul_memory_set_limit(haul_cpu(), 1 << 20), HAUL_OK);
    assert_non_null(haul_shapes(MANY));
    assert_int_equal(haul_memory_set_limit(haul_cpu(), 0), HAUL_OK);
    haul_scope_pop(scope);
    assert_int_equal(haul__device_allocated(haul_cpu(), false), before);
}

/* All machines draw the same. */
static void test_shapes__draws_what_it_always_drew(void **state)
{
    (void)state;
    static uint8_t picture[3072];
    int64_t        label;
    uint32_t       sum = 2166136261u;
    haul_scope    *scope = haul_scope_push();
    haul_dataset  *d = haul_shapes(50);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(read_example_of(d, i, picture, &label), HAUL_OK);
        for (int k = 0; k < 3072; k++)
            sum = (sum ^ picture[k]) * 16777619u;
        sum = (sum ^ (uint32_t)label) * 16777619u;
    }
    assert_int_equal(sum, 0xae3d51b5);
    haul_scope_pop(scope);
}

static void test_blobs__are_two_clouds(void **state)
{
    (void)state;
    float         row[10], label;
    int           ones = 0, right = 0;
    haul_scope   *scope = haul_scope_push();
    haul_dataset *d = haul_blobs(2000, .seed = 1);
    for (int i = 0; i < 2000; i++) {
        float score = 0;
        assert_int_equal(read_example_of(d, i, row, &label), HAUL_OK);
        assert_true(label == 0 || label == 1);
        ones += label == 1;
        for (int k = 0; k < 10; k++)
            score += k % 2 ? -row[k] : row[k];
        right += (score > 0) == (label == 1);
    }
    assert_in_range(ones, 900, 1100);
    assert_in_range(right, 1960, 1999); /* separable, but not wholly */
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cifar10__reads_both_splits),
        cmocka_unit_test(test_cifar10__unsound_files_are_refused),
        cmocka_unit_test(test_tensors__are_examples),
        cmocka_unit_test(test_tensors__that_are_no_examples_are_refused),
        cmocka_unit_test(test_dataset__wrong_sources_are_refused_and_closed),
        cmocka_unit_test(test_shapes__examples_depend_on_seed_and_index_only),
        cmocka_unit_test(test_shapes__large_sets_are_in_counted_memory),
        cmocka_unit_test(test_shapes__draws_what_it_always_drew),
        cmocka_unit_test(test_blobs__are_two_clouds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
