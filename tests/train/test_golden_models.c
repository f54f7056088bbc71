/* The networks that have a name: with the same weights they give the logits of torchvision's and PyTorch's, and the
 * same losses in the first steps of SGD, in f64. tools/golden/models.py made the numbers, and the formula of the
 * weights is in both files. simplecnn and char_gpt have goldens of their own.
 *
 * ctest: labels=slow,once */
#include <cjson/cJSON.h>
#include <haul/haul.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/conformance/conformance.h"
#include "support/conformance/golden.h"

enum { CLASSES = 10, BATCH = 4, STEPS = 3, PICTURES = 1000, MOST_LOGITS = BATCH * CLASSES * 64 };
#define RATE 0.01

/* A number from -1 to 1: the i-th of the tensor `number`. */
static double uniform(uint32_t number, uint32_t i)
{
    uint32_t h = i * 2654435761u + number * 40503u + 12345u;
    h ^= h >> 16;
    h *= 2246822519u;
    h ^= h >> 13;
    h *= 3266489917u;
    h ^= h >> 16;
    return h / 2147483648.0 - 1;
}

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && !strcmp(text + a - b, end);
}

/* Fills the tensor `number` by the formula. */
static haul_status fill(haul_tensor *t, uint32_t number, const char *name)
{
    haul_shape shape = haul_tensor_shape(t);
    int64_t    count = haul_tensor_count(t), fan = shape.ndim > 1 ? count / shape.dims[0] : 0;
    float     *values = malloc((size_t)count * sizeof *values);
    if (!values)
        return HAUL_OUT_OF_MEMORY;
    double offset = fan ? 0 : ends_with(name, "running_var") || ends_with(name, "weight") ? 1 : 0;
    double scale = fan ? sqrt(3 / (double)fan) : ends_with(name, "running_var") ? 0.5 : 0.1;
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)(offset + scale * uniform(number, (uint32_t)i));
    haul_status status = haul_write(t, values, (size_t)count * sizeof *values);
    free(values);
    return status;
}

/* Checks the network's tensors against their names and shapes, and fills them. */
static void fill_network(haul_module *net, const cJSON *golden)
{
    uint32_t     number = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(golden, "tensors"))
    {
        const char  *name = cJSON_GetArrayItem(row, 0)->valuestring;
        const cJSON *dims = cJSON_GetArrayItem(row, 1);
        bool         is_buffer = ends_with(name, "running_mean") || ends_with(name, "running_var");
        haul_tensor *t = is_buffer ? haul_module_buffer(net, name) : haul_module_parameter(net, name);
        if (!haul_tensor_is_valid(t)) {
            fail_case("%s", haul_error_message());
            return;
        }
        haul_shape shape = haul_tensor_shape(t);
        bool       same = shape.ndim == cJSON_GetArraySize(dims);
        for (int i = 0; same && i < shape.ndim; i++)
            same = (double)shape.dims[i] == cJSON_GetArrayItem(dims, i)->valuedouble;
        if (!same)
            fail_case("%s has another shape", name);
        haul_scope *scope = haul_scope_push();
        if (fill(is_buffer ? t : haul_detach(t), number++, name))
            fail_case("%s: %s", name, haul_error_message());
        haul_scope_pop(scope);
    }
    if ((double)haul_module_parameter_count(net) != cJSON_GetObjectItem(golden, "parameters")->valuedouble)
        fail_case("the network has %lld parameters", (long long)haul_module_parameter_count(net));
}

static void same(const char *what, int i, double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound * fmax(1, fabs(want))))
        fail_case("%s %d is %.9g, PyTorch's %.9g", what, i, got, want);
}

static void evaluate(haul_module *net, const cJSON *golden, haul_tensor *x)
{
    haul_scope *scope = haul_scope_push();
    haul_set_grad_enabled(false);
    double       logits[MOST_LOGITS] = {0};
    const cJSON *list = cJSON_GetObjectItem(golden, "logits"), *want;
    int          count = cJSON_GetArraySize(list), i = 0;
    haul_module_train(net, false);
    if (count > MOST_LOGITS || haul_read(haul_call(net, x), logits, (size_t)count * sizeof *logits)) {
        fail_case("%d logits: %s", count, haul_error_message());
        count = 0;
    }
    cJSON_ArrayForEach(want, list)
    {
        if (i < count)
            same("logit", i, logits[i], want->valuedouble, 1e-8);
        i++;
    }
    haul_scope_pop(scope);
}

static void train(haul_module *net, const cJSON *golden, haul_tensor *x, haul_tensor *y)
{
    haul_optimizer *sgd = haul_sgd(net, RATE);
    haul_module_train(net, true);
    if (!strcmp(haul_module_kind(net), "mobilenet_v2")) /* torchvision's ran without dropout */
        haul_module_train(haul_module_child(net, "classifier.0"), false);
    for (int i = 0; i < STEPS; i++) {
        haul_scope  *step = haul_scope_push();
        haul_tensor *loss = haul_cross_entropy(haul_call(net, x), y);
        haul_optimizer_zero_grad(sgd);
        haul_backward(loss);
        haul_optimizer_step(sgd);
        double want = cJSON_GetArrayItem(cJSON_GetObjectItem(golden, "losses"), i)->valuedouble;
        same("loss", i, haul_item(loss), want, 1e-8);
        haul_scope_pop(step);
    }
}

/* One answer for each example, or for each pixel if the network's results are pictures. */
static haul_tensor *new_answers(const cJSON *golden, int64_t side)
{
    static int64_t answers[MOST_LOGITS / CLASSES];
    for (int i = 0; i < MOST_LOGITS / CLASSES; i++)
        answers[i] = i * 3 % CLASSES;
    bool pixels = cJSON_GetArraySize(cJSON_GetObjectItem(golden, "logits")) > BATCH * CLASSES;
    return haul_from_host(HAUL_I64, pixels ? HAUL_SHAPE(BATCH, side, side) : HAUL_SHAPE(BATCH), answers);
}

static void compare(const cJSON *golden, haul_device *device)
{
    if (!begin_case("%s/%s", golden->string, haul_device_name(device)))
        return;
    haul_error_clear();
    haul_scope *scope = haul_scope_push();
    haul_set_device(device);
    int64_t side = (int64_t)cJSON_GetObjectItem(golden, "side")->valuedouble;
    float  *pixels = malloc((size_t)(BATCH * 3 * side * side) * sizeof *pixels);
    for (int64_t i = 0; pixels && i < BATCH * 3 * side * side; i++)
        pixels[i] = (float)uniform(PICTURES, (uint32_t)i);
    haul_module *net = haul_model_new(golden->string, .input = HAUL_SHAPE(3, side, side), .outputs = CLASSES);
    haul_tensor *x = haul_cast(haul_from_host(HAUL_F32, HAUL_SHAPE(BATCH, 3, side, side), pixels), HAUL_F64);
    free(pixels);
    if (net) {
        fill_network(net, golden);
        haul_module_cast(net, HAUL_F64);
        evaluate(net, golden, x);
        train(net, golden, x, new_answers(golden, side));
    }
    if (haul_error_status())
        fail_case("%s", haul_error_message());
    haul_scope_pop(scope);
}

int main(void)
{
    cJSON *golden = read_golden_json("models.json");
    if (!golden) {
        printf("tests/golden/models.json cannot be read\n");
        return 1;
    }
    haul_scope  *program = haul_scope_push();
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    const cJSON *model;
    for (int d = 0; d < count; d++)
        cJSON_ArrayForEach(model, golden) compare(model, devices[d]);
    haul_scope_pop(program);
    cJSON_Delete(golden);
    return finish_cases("golden models");
}
