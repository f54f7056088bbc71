/* Implementations of matrix products and convolutions: their order, how they are left out, and reports on choices.
 * Settings are read once a process, so each is tried in a process of its own.
 *
 * ctest: labels=threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/implementation.h"
#include "support/record.h"

enum { MOST = HAUL_OPERATION_MAX_IMPLEMENTATIONS };

/* "direct kernel" */
static const char *list_of(const char *operation, haul_device *device, char *out, size_t size)
{
    const char *names[MOST];
    int         count = haul_operation_implementations(haul_operation_find(operation), device, names, MOST);
    *out = '\0';
    for (int i = 0; i < count; i++)
        snprintf(out + strlen(out), size - strlen(out), "%s%s", i ? " " : "", names[i]);
    return count < 0 ? haul_error_message() : out;
}

static bool lists(const char *operation, const char *wanted)
{
    char text[128];
    list_of(operation, haul_cpu(), text, sizeof text);
    if (strcmp(text, wanted) != 0)
        printf("%s has %s, not %s\n", operation, text, wanted);
    return strcmp(text, wanted) == 0;
}

static bool convolves(int64_t channels)
{
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(1, channels, 3, 3));
    haul_tensor *y = haul_conv2d(x, haul_ones(HAUL_F32, HAUL_SHAPE(channels, channels, 3, 3)));
    return haul_tensor_is_valid(y) && haul_item(haul_max(y)) == 9 * (double)channels;
}

static bool multiplies(void)
{
    haul_tensor *a = haul_ones(HAUL_F32, HAUL_SHAPE(40, 50));
    return haul_item(haul_max(haul_linear(a, a, .relu = true))) == 50;
}

/* ---- what children run ---- */

/* Chosen for a convolution of that many channels. */
static const char *chosen_for(int64_t channels)
{
    static record r;
    int64_t       id = listen_to(&r, HAUL_EVENT_IMPLEMENTATION);
    bool          right = convolves(channels);
    haul_events_unsubscribe(id);
    return right && r.count == 1 ? r.events[0].text : "nothing";
}

static bool leaves_out_what_is_named(void)
{
    char text[128];
    return multiplies() && strcmp(chosen_for(2), "kernel") == 0 && strcmp(chosen_for(40), "kernel") == 0 &&
           lists("haul_conv2d", "kernel") && lists("haul_matmul", "tiles kernel_tiles kernel") &&
           !strstr(list_of("haul_conv2d_backward_data", haul_cpu(), text, sizeof text), "onednn");
}

static bool leaves_out_products(void)
{
    return multiplies() && lists("haul_linear", "kernel") && lists("haul_matmul", "kernel");
}

static bool refuses_a_wrong_name(void)
{
    return haul_tensor_check(
               haul_matmul(haul_ones(HAUL_F32, HAUL_SHAPE(2, 2)), haul_ones(HAUL_F32, HAUL_SHAPE(2, 2)))) &&
           haul_error_status() == HAUL_INVALID_ARGUMENT && strstr(haul_error_message(), "\"onedn\"") &&
           strstr(haul_error_message(),
                  "winograd, products, depthwise, onednn, panels, pixels, direct, tiles, cublaslt") &&
           haul_operation_implementations(0, haul_cpu(), NULL, 0) == -1;
}

static bool refuses_the_reference(void)
{
    return !convolves(2) && haul_error_status() == HAUL_INVALID_ARGUMENT &&
           strstr(haul_error_message(), "\"kernel\", which cannot be left out");
}

static bool chooses_twice(void)
{
    return convolves(3) && convolves(3) && multiplies() && multiplies() && convolves(4);
}

/* A subscriber of the program's own does not get in the way. */
static void take_nothing(const haul_event *e, void *context)
{
    (void)e;
    (void)context;
}

static bool subscribes_first(void)
{
    return haul_events_subscribe(take_nothing, .kinds = HAUL_EVENT_COPY, .everywhere = true) && chooses_twice();
}

/* Convolutions of ones without padding, and what computes them as the names are left out one after the other. */
static const struct {
    int64_t     x[4], weight[4], stride;
    const char *order;
} shapes[] = {
    {{1, 3, 3, 3}, {3, 3, 3, 3}, 1, "direct kernel"},
    {{1, 16, 10, 10}, {16, 16, 3, 3}, 1, "winograd direct kernel"},
    {{1, 32, 10, 10}, {32, 32, 3, 3}, 1, "winograd onednn direct kernel"},
    {{2, 32, 12, 12}, {32, 32, 1, 1}, 1, "products onednn direct kernel"},
    {{2, 32, 9, 9}, {32, 32, 1, 1}, 1, "onednn direct kernel"},
    {{16, 3, 34, 34}, {8, 3, 3, 3}, 1, "pixels direct kernel"},
    {{2, 3, 17, 17}, {8, 3, 3, 3}, 2, "panels direct kernel"},
    {{2, 64, 17, 17}, {128, 64, 3, 3}, 2, "panels onednn direct kernel"}, /* onednn waits for panels */
    {{2, 32, 17, 17}, {32, 32, 3, 3}, 2, "onednn panels direct kernel"},
    {{16, 3, 17, 17}, {32, 3, 3, 3}, 2, "pixels panels direct kernel"}, /* panels waits for pixels */
    {{16, 3, 17, 17}, {96, 3, 3, 3}, 2, "panels pixels direct kernel"},
    {{16, 3, 19, 19}, {32, 3, 1, 1}, 9, "direct kernel"},
    {{1, 8, 17, 17}, {8, 1, 3, 3}, 1, "depthwise direct kernel"},
    {{1, 8, 17, 17}, {8, 1, 3, 3}, 2, "depthwise panels direct kernel"},
};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Writes what computes a convolution. */
static bool computes_shape(int i)
{
    static record  r;
    const int64_t *s = shapes[i].x, *w = shapes[i].weight;
    haul_tensor   *x = haul_ones(HAUL_F32, HAUL_SHAPE(s[0], s[1], s[2], s[3]));
    int64_t        id = listen_to(&r, HAUL_EVENT_IMPLEMENTATION);
    haul_tensor   *y = haul_conv2d(x, haul_ones(HAUL_F32, HAUL_SHAPE(w[0], w[1], w[2], w[3])),
                                   .stride = {shapes[i].stride, shapes[i].stride}, .groups = s[1] / w[1]);
    haul_events_unsubscribe(id);
    const double sum = (double)(w[1] * w[2] * w[3]);
    if (r.count == 1)
        fprintf(stderr, "%s", r.events[0].text);
    return r.count == 1 && haul_item(haul_min(y)) > sum - 0.001 && haul_item(haul_max(y)) < sum + 0.001;
}

static const struct {
    const char *name;
    bool (*run)(void);
} children[] = {
    {"leaves_out_what_is_named", leaves_out_what_is_named},
    {"leaves_out_products", leaves_out_products},
    {"refuses_a_wrong_name", refuses_a_wrong_name},
    {"refuses_the_reference", refuses_the_reference},
    {"chooses_twice", chooses_twice},
    {"subscribes_first", subscribes_first},
};

static int child_main(const char *name)
{
    haul_scope *inner = haul_scope_push();
    bool        good = false;
    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++)
        if (strcmp(children[i].name, name) == 0)
            good = children[i].run();
    if (strncmp(name, "shape ", 6) == 0)
        good = computes_shape(atoi(name + 6));
    haul_scope_pop(inner);
    return good ? 0 : 1;
}

/* True if this program succeeds, started anew with the variable set. `err` gets its standard error. */
static bool in_child(const char *run, const char *variable, const char *value, char *err, size_t size)
{
    int ends[2], status = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv(variable, value, 1);
        execl("/proc/self/exe", "test_implementation", run, (char *)NULL);
        _exit(2);
    }
    close(ends[1]);
    size_t  used = 0;
    ssize_t got;
    while ((got = read(ends[0], err + used, size - 1 - used)) > 0)
        used += (size_t)got;
    err[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- leaving out ---- */

static void test_implementation__can_be_left_out(void **state)
{
    char err[4096];
    (void)state;
    assert_true(in_child("leaves_out_what_is_named", "HAUL_WITHOUT",
                         "winograd,products,depthwise,onednn,panels,pixels,direct", err, sizeof err));
    assert_true(in_child("leaves_out_what_is_named", "HAUL_WITHOUT",
                         ", direct, pixels,panels onednn,,winograd depthwise products", err, sizeof err));
    assert_true(in_child("leaves_out_products", "HAUL_WITHOUT", "kernel_tiles,tiles", err, sizeof err));
    assert_string_equal(err, "");
}

static bool has_onednn(void)
{
    char text[128];
    return strstr(list_of("haul_conv2d", haul_cpu(), text, sizeof text), "onednn") != NULL;
}

static void test_implementation__each_can_be_left_out(void **state)
{
    char run[32], without[128], err[4096], order[64], *rest;
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        snprintf(run, sizeof run, "shape %d", i);
        snprintf(order, sizeof order, "%s", shapes[i].order);
        *without = '\0';
        for (const char *name = strtok_r(order, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
            if (strcmp(name, "onednn") == 0 && !has_onednn())
                continue;
            assert_true(in_child(run, "HAUL_WITHOUT", without, err, sizeof err));
            if (strcmp(err, name) != 0)
                fail_msg("without '%s', shape %d is computed by %s; expected %s", without, i, err, name);
            snprintf(without + strlen(without), sizeof without - strlen(without), "%s,", name);
        }
    }
}

/* An entry that lets the next one go first says so. */
static void test_implementation__a_faster_one_is_a_reason(void **state)
{
    static record r;
    haul_scope   *inner = haul_scope_push();
    (void)state;
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(16, 3, 17, 17)), *w = haul_ones(HAUL_F32, HAUL_SHAPE(32, 3, 3, 3));
    int64_t      id = listen_to(&r, HAUL_EVENT_IMPLEMENTATION);
    assert_true(haul_tensor_is_valid(haul_conv2d(x, w, .stride = {2, 2})));
    haul_events_unsubscribe(id);
    assert_int_equal(r.count, 1);
    assert_string_equal(r.events[0].text, "pixels");
    assert_non_null(strstr(r.events[0].refused, "; panels: pixels takes less time for this shape"));
    haul_scope_pop(inner);
}

static void test_implementation__wrong_names_are_errors(void **state)
{
    char err[4096];
    (void)state;
    assert_true(in_child("refuses_a_wrong_name", "HAUL_WITHOUT", "tiles,onedn", err, sizeof err));
    assert_true(in_child("refuses_the_reference", "HAUL_WITHOUT", "kernel", err, sizeof err));
    assert_string_equal(err, "");
}

/* ---- lists ---- */

static void test_implementation__lists_end_with_the_reference(void **state)
{
    char        text[128];
    const char *names[MOST] = {"untouched", "untouched"};
    (void)state;
    assert_true(lists("haul_matmul", "tiles kernel_tiles kernel"));
    assert_true(lists("haul_linear", "tiles kernel_tiles kernel"));
    list_of("haul_conv2d", haul_cpu(), text, sizeof text);
    assert_true(strcmp(text, "winograd products depthwise onednn panels pixels direct kernel") == 0 ||
                strcmp(text, "winograd products depthwise panels pixels direct kernel") == 0);
    assert_true(lists("haul_conv2d_backward_weight", text));
    assert_true(lists("haul_softmax", "kernel"));
    assert_true(lists("haul_transpose", "view"));
    assert_int_equal(haul_operation_implementations(haul_operation_find("haul_matmul"), haul_cpu(), names, 1), 3);
    assert_string_equal(names[0], "tiles");
    assert_string_equal(names[1], "untouched");
    assert_int_equal(haul_operation_implementations(0, haul_device_get("meta"), names, MOST), 0);
}

static void test_implementation__lists_refuse_wrong_arguments(void **state)
{
    (void)state;
    assert_int_equal(haul_operation_implementations(-1, haul_cpu(), NULL, 0), -1);
    assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);
    assert_string_equal(haul_error_argument(), "index");
    haul_error_clear();
    assert_int_equal(haul_operation_implementations(haul_operation_count(), haul_cpu(), NULL, 0), -1);
    haul_error_clear();
    assert_int_equal(haul_operation_implementations(0, haul_device_get("nowhere"), NULL, 0), -1);
    assert_int_equal(haul_error_status(), HAUL_DEVICE);
    haul_error_clear();
}

/* ---- reports ---- */

static void test_implementation__choices_are_events(void **state)
{
    static record r;
    haul_scope   *inner = haul_scope_push();
    int64_t       id = listen_to(&r, HAUL_EVENT_IMPLEMENTATION);
    (void)state;
    assert_true(convolves(3));
    assert_true(multiplies());
    haul_events_unsubscribe(id);
    assert_int_equal(r.count, 2);
    assert_string_equal(r.events[0].operation, "haul_conv2d");
    assert_string_equal(r.events[0].text, "direct");
    assert_string_equal(r.events[0].problem, "f32 [1,3,3,3] * [3,3,3,3]");
    assert_non_null(strstr(r.events[0].refused, "winograd: with fewer than 16 channels"));
    assert_non_null(strstr(r.events[0].refused, "; onednn: "));
    assert_string_equal(r.events[1].operation, "haul_linear");
    assert_string_equal(r.events[1].text, "tiles");
    assert_string_equal(r.events[1].problem, "f32 [40,50] x [50,40], relu");
    assert_string_equal(r.events[1].refused, "");
    haul_scope_pop(inner);
}

/* The limit leaves room for the result, but not for what winograd wants. */
static void test_implementation__refused_scratch_memory_is_a_reason(void **state)
{
    static record r;
    haul_scope   *inner = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(1, 32, 16, 16)), *w = haul_ones(HAUL_F32, HAUL_SHAPE(32, 32, 3, 3));
    haul_scope  *little = haul_scope_push();
    (void)state;
    assert_int_equal(haul_scope_set_memory_limit(little, haul_cpu(), 64 << 10), HAUL_OK);
    int64_t      id = listen_to(&r, HAUL_EVENT_IMPLEMENTATION);
    haul_tensor *y = haul_conv2d(x, w);
    haul_events_unsubscribe(id);
    assert_true(haul_item(haul_max(y)) == 288);
    assert_int_equal(r.count, 1);
    assert_string_not_equal(r.events[0].text, "winograd");
    const char *refused = r.events[0].refused;
    if (strncmp(refused, "winograd: ", 10) != 0 || !strstr(refused, " KiB of scratch memory were refused"))
        fail_msg("refused: %s", refused);
    assert_null(strstr(refused, "computed with less"));
    haul_scope_pop(little);
    haul_scope_pop(inner);
}

static int lines_of(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static void test_implementation__new_choices_are_reported(void **state)
{
    char err[4096];
    (void)state;
    assert_true(in_child("chooses_twice", "HAUL_DEBUG", "dispatch", err, sizeof err));
    assert_int_equal(lines_of(err), 3);
    assert_ptr_equal(strstr(err, "haul_conv2d on cpu, f32 [1,3,3,3] * [3,3,3,3]: direct (winograd: "), err);
    assert_non_null(strstr(err, "\nhaul_linear on cpu, f32 [40,50] x [50,40], relu: tiles\n"));
    assert_true(in_child("chooses_twice", "HAUL_DEBUG", "", err, sizeof err));
    assert_string_equal(err, "");
}

static void test_implementation__unknown_reports_are_named(void **state)
{
    char err[4096];
    (void)state;
    assert_true(in_child("chooses_twice", "HAUL_DEBUG", "dispach, dispatch", err, sizeof err));
    assert_ptr_equal(strstr(err, "HAUL_DEBUG: \"dispach\" is not known; these are: lifetimes, dispatch\n"), err);
    assert_int_equal(lines_of(err), 4);
}

static void test_implementation__reports_come_beside_other_subscribers(void **state)
{
    char err[4096];
    (void)state;
    assert_true(in_child("subscribes_first", "HAUL_DEBUG", "dispatch", err, sizeof err));
    assert_int_equal(lines_of(err), 3);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_implementation__can_be_left_out),
        cmocka_unit_test(test_implementation__each_can_be_left_out),
        cmocka_unit_test(test_implementation__a_faster_one_is_a_reason),
        cmocka_unit_test(test_implementation__wrong_names_are_errors),
        cmocka_unit_test(test_implementation__lists_end_with_the_reference),
        cmocka_unit_test(test_implementation__lists_refuse_wrong_arguments),
        cmocka_unit_test(test_implementation__choices_are_events),
        cmocka_unit_test(test_implementation__refused_scratch_memory_is_a_reason),
        cmocka_unit_test(test_implementation__new_choices_are_reported),
        cmocka_unit_test(test_implementation__unknown_reports_are_named),
        cmocka_unit_test(test_implementation__reports_come_beside_other_subscribers),
    };
    if (argc > 1)
        return child_main(argv[1]);
    unsetenv("HAUL_WITHOUT"); /* these tests are about what it leaves out */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
