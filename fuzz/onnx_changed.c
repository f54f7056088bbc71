/* Fuzzing the loader of ONNX models: a model that Haul wrote, or one with control flow, is changed as the bytes say,
 * loaded, and called in a dry run. The first byte chooses the model; each four bytes after it are a change. */
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "core/error.h"
#include "files/file.h"
#include "onnx/load.h"
#include "support/changes.h"
#include "support/onnx/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FLOAT = 1, INT64 = 7, BOOL = 9 };
enum { MODELS = 3 };

static uint8_t *models[MODELS];
static size_t   sizes[MODELS];

static haul_module *make_net(void)
{
    haul_module *const layers[] = {haul_nn_conv2d(1, 2, 3, .padding = {1, 1}),
                                   haul_nn_batch_norm(2),
                                   haul_nn_relu(),
                                   haul_nn_max_pool2d(2),
                                   haul_nn_flatten(1),
                                   haul_nn_linear(8, 3)};
    return haul_nn_sequential(layers, sizeof layers / sizeof *layers);
}

static void put_node(message *graph, message node)
{
    put_message(graph, 1, &node);
}

static message branch_of(const char *type, const char *inputs)
{
    message g = {0};
    put_node(&g, node_of(type, inputs, "r"));
    put_value(&g, 12, "r", FLOAT, SIZES(3));
    return g;
}

/* Loop(size of x, x: If(i < 2, x + x, x * w)), then Scan. */
static message make_control(void)
{
    const int64_t two = 2;
    const float   w = 2;
    message       graph = {0}, body = {0}, scanned = {0};
    message choose = node_of("If", "c", "t"), loop = node_of("Loop", "n - x", "u"), scan = node_of("Scan", "u", "y");
    const message add = branch_of("Add", "s s"), mul = branch_of("Mul", "s w");
    put_graph(&choose, "then_branch", &add);
    put_graph(&choose, "else_branch", &mul);
    put_node(&body, node_of("Less", "i two", "c"));
    put_node(&body, choose);
    put_value(&body, 11, "i", INT64, NO_SIZES);
    put_value(&body, 11, "go", BOOL, NO_SIZES);
    put_value(&body, 11, "s", FLOAT, SIZES(3));
    put_value(&body, 12, "go", BOOL, NO_SIZES);
    put_value(&body, 12, "t", FLOAT, SIZES(3));
    put_graph(&loop, "body", &body);
    put_node(&scanned, node_of("Neg", "p", "q"));
    put_value(&scanned, 11, "p", FLOAT, NO_SIZES);
    put_value(&scanned, 12, "q", FLOAT, NO_SIZES);
    put_graph(&scan, "body", &scanned);
    put_int(&scan, "num_scan_inputs", 1);
    put_node(&graph, node_of("Size", "x", "n")); /* not a constant, which a change could make huge */
    put_node(&graph, loop);
    put_node(&graph, scan);
    put_tensor(&graph, "two", INT64, NO_SIZES, &two, sizeof two);
    put_tensor(&graph, "w", FLOAT, NO_SIZES, &w, sizeof w);
    put_value(&graph, 11, "x", FLOAT, SIZES(3));
    put_value(&graph, 12, "y", FLOAT, SIZES(3));
    return model_of(&graph, 17);
}

/* The Scan of opset 8: sums of each example, as long as it is. */
static message make_examples(void)
{
    const int64_t lengths[] = {3, 1};
    message       graph = {0}, body = {0}, scan = node_of("Scan", "n s0 x", "s y");
    put_node(&body, node_of("Add", "s part", "next"));
    put_value(&body, 11, "s", FLOAT, NO_SIZES);
    put_value(&body, 11, "part", FLOAT, NO_SIZES);
    put_value(&body, 12, "next", FLOAT, NO_SIZES);
    put_value(&body, 12, "next", FLOAT, NO_SIZES);
    put_graph(&scan, "body", &body);
    put_int(&scan, "num_scan_inputs", 1);
    put_ints(&scan, "directions", 1, (const int64_t[]){1});
    put_node(&graph, scan);
    put_tensor(&graph, "n", INT64, SIZES(2), lengths, sizeof lengths);
    put_tensor(&graph, "s0", FLOAT, SIZES(2), (const float[]){0, 1}, 8);
    put_value(&graph, 11, "x", FLOAT, SIZES(2, 3));
    put_value(&graph, 12, "y", FLOAT, SIZES(2, 3));
    return model_of(&graph, 8);
}

static haul_tensor *input_of(int model)
{
    const haul_shape shapes[MODELS] = {HAUL_SHAPE(1, 1, 4, 4), HAUL_SHAPE(3), HAUL_SHAPE(2, 3)};
    return haul_zeros(HAUL_F32, shapes[model]);
}

static void keep(int model, const message *m)
{
    if (!(models[model] = malloc(m->size)))
        abort();
    memcpy(models[model], m->bytes, sizes[model] = m->size);
}

static haul_status call(void *path_and_model)
{
    char        *path = path_and_model;
    haul_module *net = haul_load_onnx(path + 1);
    if (net)
        haul_call(net, input_of(*path));
    return HAUL_OK;
}

static void run(int model, const uint8_t *data, size_t size)
{
    char                 path[1 + PATH_SIZE] = {(char)model};
    haul_estimate_result cost;
    const int            fd = open_bytes(data, size, path + 1);
    if (!haul_estimate(call, path, &cost))
        haul_estimate_free(&cost);
    close(fd);
}

static void fail(void)
{
    fprintf(stderr, "%s\n", haul_error_message());
    abort();
}

static void begin(void)
{
    char          path[] = "/tmp/haul-fuzz-onnx-XXXXXX";
    const int     fd = mkstemp(path);
    haul_scope   *scope = haul_scope_push();
    const message control = make_control(), examples = make_examples();
    if (fd < 0 || haul_save_onnx(path, make_net(), input_of(0)) ||
        haul__file_read_all(path, "fuzz", ROOM / 2, 0, &models[0], &sizes[0]))
        fail();
    close(fd);
    unlink(path);
    keep(1, &control);
    keep(2, &examples);
    for (int i = 0; i < MODELS; i++) { /* unchanged they work */
        char      wanted[] = "/tmp/haul-fuzz-onnx-XXXXXX";
        const int out = mkstemp(wanted);
        if (out < 0 || write(out, models[i], sizes[i]) != (ssize_t)sizes[i])
            abort();
        haul_module *net = haul_load_onnx(wanted);
        if (!net || !haul_tensor_is_valid(haul_call(net, input_of(i))))
            fail();
        close(out);
        unlink(wanted);
    }
    haul_scope_pop(scope);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t changed[ROOM];
    if (!*models)
        begin();
    if (!size)
        return 0;
    const int model = data[0] % MODELS;
    size_t    length = sizes[model];
    memcpy(changed, models[model], length);
    length = change_file(changed, length, data + 1, size - 1);
    haul_error_clear();
    haul_scope *scope = haul_scope_push();
    run(model, changed, length);
    haul_error_clear();
    haul_scope_pop(scope);
    return 0;
}
