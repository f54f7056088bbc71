/* Machines: read and written, shipped ones, wrong ones, and the times that they predict. */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "catalog/catalog.h"
#include "machine/machine.h"

/* A machine whose times are easy to compute. "%s" are further fields of the GPU, of the link to it, and links. */
static const char plain[] =
    "{\"haul_machine\": 1, \"name\": \"plain\",\n"
    " \"devices\": [\n"
    "  {\"name\": \"cpu\", \"memory_bytes\": 1000000, \"launch_ns\": 100, \"bytes_per_second\": 1000000000},\n"
    "  {\"name\": \"cuda:0\", \"memory_bytes\": 2000, \"launch_ns\": 5000, \"bytes_per_second\": 2000000000,\n"
    "   \"rates\": [{\"class\": \"matmul\", \"dtype\": \"f32\", \"points\": [[1000, 1000000], [3000, 2000000]]},\n"
    "             {\"class\": \"move\", \"dtype\": \"any\", \"points\": [[1, 500000000]]}]}],\n"
    " \"links\": [{\"from\": \"cpu\", \"to\": \"cuda:0\", \"latency_ns\": 10000, \"pinned_bytes_per_second\": "
    "1000000,\n"
    "            \"pageable_bytes_per_second\": 500000, \"overlap\": true},\n"
    "           {\"from\": \"cuda:0\", \"to\": \"cpu\", \"name\": \"pcie3\"}]}\n";

static haul__machine *read_text(const char *text)
{
    haul__machine *m = NULL;
    haul_status    status = haul__machine_read("test", "plain.json", text, strlen(text), &m);
    assert_true((status == HAUL_OK) == (m != NULL));
    return m;
}

/* ---- reading and writing ---- */

static void test_machine__reads_fields(void **state)
{
    (void)state;
    haul__machine *m = read_text(plain);
    assert_non_null(m);
    assert_string_equal(m->name, "plain");
    assert_false(m->described);
    assert_int_equal(m->device_count, 2);
    assert_int_equal(haul__machine_find(m, "cuda:0"), 1);
    assert_int_equal(haul__machine_find(m, "cuda:1"), -1);
    assert_int_equal(m->devices[1].memory_bytes, 2000);
    assert_true(haul__machine_link_of(m, 0, 1)->overlap);
    const haul__machine_link *back = haul__machine_link_of(m, 1, 0);
    assert_string_equal(back->name, "pcie3");
    assert_int_equal(back->pinned, 13400000000);
    assert_null(haul__machine_link_of(m, 0, 0));
    haul__free(m);
}

static void assert_written_alike(const haul__machine *m)
{
    char *text = haul__machine_write(m);
    assert_non_null(text);
    haul__machine *again = read_text(text);
    assert_non_null(again);
    assert_memory_equal(m, again, sizeof *m);
    assert_true(haul__machine_digest(m) == haul__machine_digest(again) && haul__machine_digest(m));
    haul__free(again);
    haul__free(text);
}

static void test_machine__is_the_same_after_writing(void **state)
{
    (void)state;
    haul__machine *m = read_text(plain);
    assert_written_alike(m);
    const uint64_t digest = haul__machine_digest(m);
    m->devices[1].rates[0].points[1].rate++;
    assert_true(haul__machine_digest(m) != digest);
    haul__free(m);
}

static void test_machine__shipped(void **state)
{
    (void)state;
    static const char *const names[] = {"h200", "a100-40g", "rtx4090", "laptop-4g", "jetson"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        haul__machine *m = NULL;
        assert_string_equal(haul__machine_shipped((int)i), names[i]);
        assert_int_equal(haul__machine_load("test", names[i], &m), HAUL_OK);
        assert_true(m->described);
        assert_true(m->source[0] && m->device_count > 1 && m->devices[1].model[0]);
        assert_int_equal(m->devices[1].shares_host_memory, strcmp(names[i], "jetson") == 0);
        assert_written_alike(m);
        haul__free(m);
    }
    assert_null(haul__machine_shipped(5));
}

static void test_machine__refuses_an_unknown_name(void **state)
{
    (void)state;
    haul__machine *m = NULL;
    assert_int_equal(haul__machine_load("test", "h300", &m), HAUL_INVALID_ARGUMENT);
    assert_null(m);
    assert_non_null(strstr(haul_error_message(), "h300"));
    assert_non_null(strstr(haul_error_message(), "laptop-4g"));
    assert_int_equal(haul__machine_load("test", "/nowhere/h200.json", &m), HAUL_IO);
}

/* ---- wrong texts ---- */

static const struct wrong {
    const char *old, *new; /* in `plain` */
    const char *path, *words;
} wrongs[] = {
    {"\"launch_ns\": 5000", "\"launch_ns\": -5", "devices[1].launch_ns", "but it is -5"},
    {"\"launch_ns\": 5000", "\"launch_ns\": 1e9", "devices[1].launch_ns", "of digits only, but it is 1e9"},
    {"\"launch_ns\": 5000", "\"launch_ns\": 0.5", "devices[1].launch_ns", "whole number of nanoseconds"},
    {"\"launch_ns\": 5000", "\"launch_ns\": NaN", "\"launch_ns\": NaN", "line 4 is not JSON"},
    {"\"launch_ns\": 5000", "\"launch_ns\": -Infinity", "-Infinity", "line 4 is not JSON"},
    {"\"launch_ns\": 5000", "\"launch_ns\": \"5000\"", "devices[1].launch_ns", "but it is '5000'"},
    {"\"launch_ns\": 5000", "\"launch_ns\": null", "devices[1].launch_ns", "but it is null"},
    {"\"launch_ns\": 5000", "\"lunch_ns\": 5000", "devices[1]", "has no field 'lunch_ns'; its fields are name, model"},
    {"\"launch_ns\": 5000,", "", "devices[1].launch_ns", "is missing"},
    {"\"launch_ns\": 5000", "\"launch_ns\": 5000, \"launch_ns\": 1", "devices[1].launch_ns", "is there twice"},
    {"\"memory_bytes\": 2000", "\"memory_bytes\": 0", "devices[1].memory_bytes", "from 1 to"},
    {"\"memory_bytes\": 2000", "\"memory_bytes\": 99999999999999999999999", "devices[1].memory_bytes", "from 1 to"},
    {"\"bytes_per_second\": 2000000000", "\"bytes_per_second\": 1000000000000000001", "devices[1].bytes_per_second",
     "from 1 to"},
    {"\"cuda:0\", \"memory", "\"cpu\", \"memory", "devices[1].name", "another device has this name"},
    {"\"cuda:0\", \"memory", "\"\", \"memory", "devices[1].name", "a text in UTF-8 of 1 to 31 bytes"},
    {"\"cuda:0\", \"memory", "\"a\\nb\", \"memory", "devices[1].name", "without control characters"},
    {"\"cuda:0\", \"memory", "\"a\xffz\", \"memory", "devices[1].name", "in UTF-8"},
    {"\"name\": \"cpu\"", "\"name\": \"host\"", "devices[0].name", "must be cpu"},
    {"\"matmul\"", "\"matmull\"", "devices[1].rates[0].class", "must be one of matmul conv"},
    {"\"f32\"", "\"f33\"", "devices[1].rates[0].dtype", "must be the name of a dtype"},
    {"[3000, 2000000]", "[1000, 2000000]", "devices[1].rates[0].points[1].[0]", "must be larger"},
    {"[3000, 2000000]", "[3000, 0]", "devices[1].rates[0].points[1].[1]", "FLOP or bytes a second"},
    {"[3000, 2000000]", "[3000]", "devices[1].rates[0].points[1]", "a list of 2 to 2 items"},
    {"[[1000, 1000000], [3000, 2000000]]", "[]", "devices[1].rates[0].points", "it has 0"},
    {"\"move\", \"dtype\": \"any\"", "\"matmul\", \"dtype\": \"f32\"", "devices[1].rates[1].dtype", "already"},
    {"\"to\": \"cuda:0\"", "\"to\": \"cuda:1\"", "links[0].to", "must be the name of a device"},
    {"\"to\": \"cuda:0\"", "\"to\": \"cpu\"", "links[0].to", "must end at another device"},
    {"\"from\": \"cuda:0\", \"to\": \"cpu\"", "\"from\": \"cpu\", \"to\": \"cuda:0\"", "links[1].to", "already"},
    {"\"pcie3\"", "\"pcie9\"", "links[1].latency_ns", "name a known link"},
    {",\n           {\"from\": \"cuda:0\", \"to\": \"cpu\", \"name\": \"pcie3\"}", "", "links",
     "has no link from cuda:0 to cpu"},
    {"\"overlap\": true", "\"overlap\": 1", "links[0].overlap", "must be true or false"},
    {"\"haul_machine\": 1", "\"haul_machine\": 2", "haul_machine", "the version must be 1"},
    {"\"haul_machine\": 1,", "", "haul_machine", "is missing"},
    {"\"devices\": [", "\"devices\": [7, ", "devices[0]", "must be an object"},
    {"\"name\": \"plain\"", "\"name\": {}", "name", "but it is an object"},
    {"}]}\n", "}]} 1", "line 9", "is not JSON"},
};

static void make_wrong(const struct wrong *w, char *out, size_t size)
{
    const char *at = strstr(plain, w->old);
    assert_non_null(at);
    snprintf(out, size, "%.*s%s%s", (int)(at - plain), plain, w->new, at + strlen(w->old));
}

static void test_machine__names_the_wrong_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        char text[2 * sizeof plain];
        make_wrong(&wrongs[i], text, sizeof text);
        assert_null(read_text(text));
        assert_int_equal(haul_error_status(), HAUL_FORMAT);
        const char *message = haul_error_message();
        if (!strstr(message, wrongs[i].path) || !strstr(message, wrongs[i].words) || !strstr(message, "plain.json"))
            fail_msg("for %s: %s", wrongs[i].new, message);
    }
}

static void test_machine__refuses_parts_of_a_text(void **state)
{
    (void)state;
    for (size_t size = 0; size + 2 < strlen(plain); size++) {
        haul__machine *m = NULL;
        assert_int_equal(haul__machine_read("test", "plain.json", plain, size, &m), HAUL_FORMAT);
        assert_null(m);
    }
}

static void test_machine__survives_failed_allocations(void **state)
{
    (void)state;
    for (int64_t nth = 1;; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        haul__machine *m = NULL;
        haul_status    status = haul__machine_read("test", "plain.json", plain, strlen(plain), &m);
        haul__fault_plan(HAUL__FAULT_HOST, 0);
        haul__free(m);
        if (!status)
            break;
        assert_int_equal(status, HAUL_OUT_OF_MEMORY);
        assert_null(m);
    }
}

/* ---- classes ---- */

static void test_machine__classes_operations(void **state)
{
    (void)state;
    static const struct {
        const char      *name;
        haul__work_class expected;
    } cases[] = {{"haul_matmul", HAUL__WORK_MATMUL},
                 {"haul_linear_backward", HAUL__WORK_MATMUL_BACKWARD},
                 {"haul_conv2d_backward_data", HAUL__WORK_CONV_BACKWARD},
                 {"haul_relu_backward", HAUL__WORK_ELEMENTWISE},
                 {"haul_add_scalar", HAUL__WORK_ELEMENTWISE},
                 {"haul_gelu_backward_scalar", HAUL__WORK_FUNCTION},
                 {"haul_norm", HAUL__WORK_REDUCTION},
                 {"haul_normal", HAUL__WORK_RANDOM},
                 {"haul_scalar", HAUL__WORK_MOVE},
                 {"swish", HAUL__WORK_OTHER},
                 {"haul_", HAUL__WORK_OTHER},
                 {"", HAUL__WORK_OTHER}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(haul__work_class_of(cases[i].name), cases[i].expected);
}

static void test_machine__classes_every_operation(void **state)
{
    (void)state;
    for (int i = 0; i < haul__catalog_count; i++)
        if (haul__work_class_of(haul__catalog[i].operation->name) == HAUL__WORK_OTHER)
            fail_msg("%s has no class: add it to src/machine/operations.def", haul__catalog[i].operation->name);
}

/* ---- times ---- */

static int64_t time_of(const haul__machine *m, int device, haul__work_class c, double flops, int64_t bytes,
                       int64_t commands)
{
    const haul__machine_work work = {
        .work_class = c, .dtype = HAUL_F32, .flops = flops, .bytes = bytes, .commands = commands};
    return haul__machine_time(m, device, &work);
}

/* ---- learnt times ---- */

static haul__machine *read_with_learnt(const char *learnt)
{
    char text[2000];
    make_wrong(&(struct wrong){"\"launch_ns\": 5000,", learnt, NULL, NULL}, text, sizeof text);
    return read_text(text);
}

static int64_t time_of_add(const haul__machine *m, haul_dtype dtype, int64_t bytes)
{
    const haul__machine_work work = {
        .operation = "haul_add", .work_class = HAUL__WORK_ELEMENTWISE, .dtype = dtype, .bytes = bytes, .commands = 1};
    return haul__machine_time(m, 1, &work);
}

static void test_machine__prefers_learnt_times(void **state)
{
    (void)state;
    haul__machine *m = read_with_learnt(
        "\"launch_ns\": 5000, \"learnt\": [{\"operation\": \"haul_add\", \"dtype\": \"f32\", \"flops\": 0, \"bytes\": "
        "4000, \"ps\": 77000}, {\"operation\": \"haul_add\", \"dtype\": \"f32\", \"flops\": 0, \"bytes\": 4096, "
        "\"ps\": "
        "100000}],");
    assert_non_null(m);
    assert_int_equal(m->devices[1].learnt_count, 2);
    assert_written_alike(m);
    assert_int_equal(time_of_add(m, HAUL_F32, 4000), 77000);
    assert_int_equal(time_of_add(m, HAUL_F32, 4096), 100000);
    assert_int_equal(time_of_add(m, HAUL_F32, 4608), 112500);            /* of the same size: in proportion */
    assert_int_equal(time_of_add(m, HAUL_F32, 3600), 69300);             /* of the size of 4000 */
    assert_int_equal(time_of_add(m, HAUL_F32, 5120), 5000000 + 2560000); /* of another size: by the bandwidth */
    assert_int_equal(time_of_add(m, HAUL_F16, 4096), 5000000 + 2048000); /* of another dtype */
    assert_int_equal(
        haul__machine_time(m, 1,
                           &(haul__machine_work){
                               .work_class = HAUL__WORK_ELEMENTWISE, .dtype = HAUL_F32, .bytes = 4096, .commands = 1}),
        5000000 + 2048000); /* an operation without a name */
    haul__free(m);
}

/* The newest time of an operation counts, and the oldest ones make room. */
static void test_machine__learns(void **state)
{
    (void)state;
    haul__machine *m = read_text(plain);
    for (int64_t i = 0; i < HAUL__MACHINE_LEARNT + 10; i++)
        haul__machine_learn(&m->devices[1], &(haul__machine_learnt){"haul_add", HAUL_F32, 0, 1000 + i, 1 + i, 0});
    assert_int_equal(m->devices[1].learnt_count, HAUL__MACHINE_LEARNT);
    assert_int_equal(m->devices[1].learnt[0].bytes, 1010);
    haul__machine_learn(&m->devices[1], &(haul__machine_learnt){"haul_add", HAUL_F32, 0, 1010, 5, 0});
    assert_int_equal(m->devices[1].learnt_count, HAUL__MACHINE_LEARNT);
    assert_int_equal(time_of_add(m, HAUL_F32, 1010), 5);
    assert_int_equal(time_of_add(m, HAUL_F32, 1011), 12);
    haul__free(m);
}

static void test_machine__refuses_wrong_learnt_times(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"\"dtype\": \"f33\", \"flops\": 0, \"bytes\": 1, \"ps\": 1", "learnt[0].dtype"},
        {"\"dtype\": \"f32\", \"flops\": -1, \"bytes\": 1, \"ps\": 1", "learnt[0].flops"},
        {"\"dtype\": \"f32\", \"flops\": 0, \"bytes\": 1e3, \"ps\": 1", "learnt[0].bytes"},
        {"\"dtype\": \"f32\", \"flops\": 0, \"bytes\": 1, \"ps\": 1000000000000000001", "learnt[0].ps"},
        {"\"dtype\": \"f32\", \"flops\": 0, \"bytes\": 1", "learnt[0].ps"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[300];
        snprintf(text, sizeof text, "\"launch_ns\": 5000, \"learnt\": [{\"operation\": \"haul_add\", %s}],",
                 wrong[i][0]);
        assert_null(read_with_learnt(text));
        if (!strstr(haul_error_message(), wrong[i][1]))
            fail_msg("'%s' is not in: %s", wrong[i][1], haul_error_message());
    }
    assert_null(read_with_learnt("\"launch_ns\": 5000, \"learnt\": 3,"));
    assert_non_null(strstr(haul_error_message(), "devices[1].learnt"));
}

/* Rates are listed by the floating dtype of an operation, wherever it stands. */
static void test_machine__finds_the_dtype_of_rates(void **state)
{
    (void)state;
    assert_int_equal(haul__work_dtype(HAUL_DTYPE_NONE, HAUL_I64), HAUL_I64);
    assert_int_equal(haul__work_dtype(HAUL_I64, HAUL_F32), HAUL_F32);
    assert_int_equal(haul__work_dtype(HAUL_F32, HAUL_I64), HAUL_F32);
    assert_int_equal(haul__work_dtype(HAUL_F16, HAUL_F32), HAUL_F16);
    assert_int_equal(haul__work_dtype(HAUL_I64, HAUL_BOOL), HAUL_I64);
}

static void test_machine__predicts_operations(void **state)
{
    (void)state;
    haul__machine *m = read_text(plain);
    const int64_t  us = 1000000, launch = 5 * us;
    assert_int_equal(time_of(m, 1, HAUL__WORK_MATMUL, 0, 0, 0), 0);
    assert_int_equal(time_of(m, 1, HAUL__WORK_MATMUL, 1, 0, 1), launch + 1 * us);
    assert_int_equal(time_of(m, 1, HAUL__WORK_MATMUL, 1000, 0, 3), 3 * launch + 1000 * us);
    assert_int_equal(time_of(m, 1, HAUL__WORK_MATMUL, 2000, 0, 1), launch + 1250 * us); /* between 1000 and 1500 us */
    assert_int_equal(time_of(m, 1, HAUL__WORK_MATMUL, 3000, 0, 1), launch + 1500 * us);
    assert_int_equal(time_of(m, 1, HAUL__WORK_MATMUL, 6000, 0, 1), launch + 3000 * us);
    assert_int_equal(time_of(m, 1, HAUL__WORK_MATMUL, 1, 4000000, 1), launch + 2000 * us); /* its bytes take longer */
    assert_int_equal(time_of(m, 1, HAUL__WORK_MOVE, 1e9, 500, 1), launch + 1 * us);
    assert_true(haul__machine_measures(m, 1, HAUL__WORK_MATMUL, HAUL_F32));
    assert_false(haul__machine_measures(m, 1, HAUL__WORK_MATMUL, HAUL_F16));
    assert_true(haul__machine_measures(m, 1, HAUL__WORK_MOVE, HAUL_F16));
    assert_false(haul__machine_measures(m, 1, HAUL__WORK_POOL, HAUL_F32));
    assert_int_equal(time_of(m, 1, HAUL__WORK_POOL, 0, 2000, 1), launch + 1 * us);
    assert_int_equal(time_of(m, 0, HAUL__WORK_OTHER, 0, 2000, 1), 100 * 1000 + 2 * us);
    haul__free(m);
}

/* A class without a rate of its own has that of another one. */
static void test_machine__classes_stand_for_others(void **state)
{
    (void)state;
    haul__machine *m = read_text(plain);
    const int64_t  us = 1000000, launch = 5 * us;
    assert_int_equal(time_of(m, 1, HAUL__WORK_MATMUL_BACKWARD, 1000, 0, 1), launch + 1000 * us);
    m->devices[1].rates[0].work_class = HAUL__WORK_CONV;
    assert_int_equal(time_of(m, 1, HAUL__WORK_CONV_BACKWARD, 1000, 1000, 1), launch + 1000 * us);
    assert_int_equal(time_of(m, 1, HAUL__WORK_CONV, 1000, 100, 1), launch + 1000 * us);
    haul__free(m);
}

static int64_t time_of_conv(const haul__machine *m, double flops, int64_t bytes, int64_t weights)
{
    const haul__machine_work work = {
        .work_class = HAUL__WORK_CONV, .dtype = HAUL_F32, .flops = flops, .bytes = bytes, .weights = weights};
    return haul__machine_time(m, 1, &work);
}

/* Narrow convolutions have few channels, and deep ones consist of their weights. */
static void test_machine__classes_convolutions(void **state)
{
    (void)state;
    haul__machine *m = read_text(plain);
    const int64_t  us = 1000000;
    m->devices[1].rate_count = 3;
    m->devices[1].rates[0] = (haul__machine_rate){HAUL__WORK_CONV, HAUL_F32, 1, {{1, 1000000}}};
    m->devices[1].rates[1] = (haul__machine_rate){HAUL__WORK_NARROW_CONV, HAUL_F32, 1, {{1, 100000}}};
    m->devices[1].rates[2] = (haul__machine_rate){HAUL__WORK_DEEP_CONV, HAUL_F32, 1, {{1, 10000}}};
    assert_int_equal(time_of_conv(m, 1000, 15, 0), 1000 * us); /* by operations for each byte */
    assert_int_equal(time_of_conv(m, 1000, 100, 0), 10000 * us);
    assert_in_range(time_of_conv(m, 1000, 32, 0), 3170 * us, 3180 * us);
    /* 100 elements of weight, 100 pixels: 12, 64 and 32 channels, and a few pixels */
    assert_int_equal(time_of_conv(m, 20000, 400 + 400 * 12, 400), 200000 * us);
    assert_int_equal(time_of_conv(m, 20000, 400 + 400 * 64, 400), 20000 * us);
    assert_in_range(time_of_conv(m, 20000, 400 + 400 * 32, 400), 61000 * us, 62000 * us);
    assert_int_equal(time_of_conv(m, 200, 500, 400), 50000 * us);
    assert_int_equal(time_of_conv(m, 2000000, 500, 400), 2000000 * us);
    assert_int_equal(time_of_conv(m, 0, 0, 0), 0);
    m->devices[1].rates[1].points[0].rate = m->devices[1].bytes_per_second = 1000000000000000000;
    for (int64_t rate = 1; rate < 100; rate++) { /* hours, which are rounded, next to 12 channels */
        m->devices[1].rates[0].points[0].rate = rate;
        assert_true(time_of_conv(m, nextafter(12 << 14, INFINITY), 1 << 14, 0) >= 0);
    }
    haul__free(m);
}

static void test_machine__finds_the_weight(void **state)
{
    (void)state;
    assert_int_equal(haul__work_weight("haul_conv2d", 3), 1);
    assert_int_equal(haul__work_weight("haul_conv2d_backward_data", 2), 1);
    assert_int_equal(haul__work_weight("haul_conv2d_backward_weight", 2), 2);
    assert_int_equal(haul__work_weight("haul_linear", 3), -1);
}

static void test_machine__classes_batched_products(void **state)
{
    (void)state;
    haul__machine     *m = read_text(plain);
    haul__machine_work work = {.work_class = HAUL__WORK_MATMUL, .dtype = HAUL_F32, .flops = 1000, .batched = true};
    const haul__machine_rate own = {HAUL__WORK_BATCHED_MATMUL, HAUL_F32, 1, {{1, 100000}}};
    assert_int_equal(haul__machine_time(m, 1, &work), INT64_C(1000000000));
    m->devices[1].rates[1] = own;
    assert_int_equal(haul__machine_time(m, 1, &work), INT64_C(10000000000));
    work.batched = false;
    assert_int_equal(haul__machine_time(m, 1, &work), INT64_C(1000000000));
    haul__free(m);
}

/* Products of little work take no longer than their bytes do in caches. */
static void test_machine__knows_caches(void **state)
{
    (void)state;
    haul__machine *m = read_text(plain);
    const int64_t  us = 1000000, launch = 5 * us;
    assert_int_equal(time_of(m, 1, HAUL__WORK_MATMUL, 1, 4000000, 1), launch + 2000 * us);
    m->devices[1].rates[1] =
        (haul__machine_rate){HAUL__WORK_ELEMENTWISE, HAUL_DTYPE_NONE, 1, {{1, INT64_C(20000000000)}}};
    assert_int_equal(time_of(m, 1, HAUL__WORK_MATMUL, 1, 4000000, 1), launch + 200 * us);
    haul__free(m);
}

static void test_machine__predicts_copies(void **state)
{
    (void)state;
    haul__machine *m = read_text(plain);
    const int64_t  us = 1000000;
    assert_int_equal(haul__machine_copy_time(m, 0, 1, 0, true), 10 * us);
    assert_int_equal(haul__machine_copy_time(m, 0, 1, 7, true), 17 * us);
    assert_int_equal(haul__machine_copy_time(m, 0, 1, 7, false), 24 * us);
    assert_int_equal(haul__machine_copy_time(m, 1, 1, 1000, true), 5 * us + 1 * us);
    haul__free(m);
    assert_int_equal(haul__machine_load("test", "h200", &m), HAUL_OK);
    assert_int_equal(haul__machine_copy_time(m, 1, 2, 3825, true), 8 * us + 10000);
    haul__free(m);
}

/* Without a link between two devices, copies go through the host. */
static void test_machine__copies_through_the_host(void **state)
{
    (void)state;
    haul__machine *m = NULL;
    assert_int_equal(haul__machine_load("test", "h200", &m), HAUL_OK);
    int kept = 0;
    for (int i = 0; i < m->link_count; i++)
        if (!m->links[i].from || !m->links[i].to)
            m->links[kept++] = m->links[i];
    m->link_count = kept;
    assert_int_equal(haul__machine_copy_time(m, 1, 2, 1000, true),
                     haul__machine_copy_time(m, 1, 0, 1000, true) + haul__machine_copy_time(m, 0, 2, 1000, true));
    haul__free(m);
}

static void test_machine__never_overflows(void **state)
{
    (void)state;
    haul__machine       *m = read_text(plain);
    static const double  flops[] = {-1, NAN, INFINITY, 1e300, 1e18, 9.3e17};
    static const int64_t counts[] = {INT64_MIN, -1, 0, 1, INT64_MAX / 2, INT64_MAX};
    for (size_t i = 0; i < sizeof flops / sizeof *flops; i++)
        for (size_t j = 0; j < sizeof counts / sizeof *counts; j++)
            for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
                int64_t time = time_of(m, 1, HAUL__WORK_MATMUL, flops[i], counts[j], counts[k]);
                assert_true(time >= 0 && time <= HAUL__MACHINE_MOST_PS);
                time = haul__machine_copy_time(m, (int)(i & 1), (int)(j & 1), counts[k], true);
                assert_true(time >= 0 && time <= HAUL__MACHINE_MOST_PS);
            }
    assert_int_equal(time_of(m, 1, HAUL__WORK_MATMUL, INFINITY, 0, 0), HAUL__MACHINE_MOST_PS);
    haul__free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine__reads_fields),
        cmocka_unit_test(test_machine__is_the_same_after_writing),
        cmocka_unit_test(test_machine__shipped),
        cmocka_unit_test(test_machine__refuses_an_unknown_name),
        cmocka_unit_test(test_machine__names_the_wrong_field),
        cmocka_unit_test(test_machine__refuses_parts_of_a_text),
        cmocka_unit_test(test_machine__survives_failed_allocations),
        cmocka_unit_test(test_machine__classes_operations),
        cmocka_unit_test(test_machine__classes_every_operation),
        cmocka_unit_test(test_machine__prefers_learnt_times),
        cmocka_unit_test(test_machine__learns),
        cmocka_unit_test(test_machine__refuses_wrong_learnt_times),
        cmocka_unit_test(test_machine__finds_the_dtype_of_rates),
        cmocka_unit_test(test_machine__predicts_operations),
        cmocka_unit_test(test_machine__classes_stand_for_others),
        cmocka_unit_test(test_machine__classes_convolutions),
        cmocka_unit_test(test_machine__finds_the_weight),
        cmocka_unit_test(test_machine__classes_batched_products),
        cmocka_unit_test(test_machine__knows_caches),
        cmocka_unit_test(test_machine__predicts_copies),
        cmocka_unit_test(test_machine__copies_through_the_host),
        cmocka_unit_test(test_machine__never_overflows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
