/* Fuzzing the loader of ONNX models: a model that Haul wrote, or one with control flow, is changed as the bytes say,
 * loaded, and called in a dry run. The first byte chooses the model; each four bytes after it are a change. */
#include <fcntl.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "core/error.h"
#include "files/file.h"
#include "onnx/load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MODELS = 2, ROOM = 1 << 16, CHANGES = 64 };

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

/* Loop(size of x, x: If(i < 2, x + x, x * w)), then Scan: small messages, by the numbers of onnx.proto. */
typedef struct bytes {
    size_t  size;
    uint8_t at[1024];
} bytes;

static void put(bytes *m, uint8_t field, const void *value, size_t size)
{
    m->at[m->size++] = (uint8_t)(field << 3 | 2);
    if (size > 127)
        m->at[m->size++] = (uint8_t)(size | 128);
    m->at[m->size++] = (uint8_t)(size > 127 ? size >> 7 : size);
    memcpy(m->at + m->size, value, size);
    m->size += size;
}

static void put_text(bytes *m, uint8_t field, const char *text)
{
    put(m, field, text, strlen(text));
}

static void put_name(bytes *m, uint8_t field, const char *text)
{
    bytes value = {0};
    put_text(&value, 1, text);
    put(m, field, value.at, value.size);
}

static bytes node_of(const char *type, const char *a, const char *b, const char *c, const char *y)
{
    bytes n = {0};
    put_text(&n, 1, a);
    if (b)
        put_text(&n, 1, b);
    if (c)
        put_text(&n, 1, c);
    put_text(&n, 2, y);
    put_text(&n, 4, type);
    return n;
}

static void put_graph(bytes *node, const char *name, const bytes *graph)
{
    bytes a = {0};
    put_text(&a, 1, name);
    put(&a, 6, graph->at, graph->size);
    put(node, 5, a.at, a.size);
}

static void put_node(bytes *graph, const bytes *node)
{
    put(graph, 1, node->at, node->size);
}

static void put_tensor(bytes *graph, const char *name, uint8_t dtype, const void *value, size_t size)
{
    bytes t = {0};
    t.at[t.size++] = 2 << 3;
    t.at[t.size++] = dtype;
    put_text(&t, 8, name);
    put(&t, 9, value, size);
    put(graph, 5, t.at, t.size);
}

static bytes branch_of(const char *type, const char *b)
{
    bytes       g = {0};
    const bytes n = node_of(type, "s", b, NULL, "r");
    put_node(&g, &n);
    put_name(&g, 12, "r");
    return g;
}

static bytes make_control(void)
{
    const bytes add = branch_of("Add", "s"), mul = branch_of("Mul", "w"), less = node_of("Less", "i", "two", NULL, "c");
    const int64_t two = 2;
    const float   w = 2;
    bytes         body = {0}, graph = {0}, model = {0}, scanned = {0}, count = {0};
    bytes         choose = node_of("If", "c", NULL, NULL, "t"), loop = node_of("Loop", "n", "", "x", "u");
    bytes         scan = node_of("Scan", "u", NULL, NULL, "y"), negate = node_of("Neg", "p", NULL, NULL, "q");
    const bytes   length = node_of("Size", "x", NULL, NULL, "n"); /* not a constant, which a change could make huge */
    put_graph(&choose, "then_branch", &add);
    put_graph(&choose, "else_branch", &mul);
    put_node(&body, &less);
    put_node(&body, &choose);
    put_name(&body, 11, "i");
    put_name(&body, 11, "go");
    put_name(&body, 11, "s");
    put_name(&body, 12, "go");
    put_name(&body, 12, "t");
    put_graph(&loop, "body", &body);
    put_node(&scanned, &negate);
    put_name(&scanned, 11, "p");
    put_name(&scanned, 12, "q");
    put_graph(&scan, "body", &scanned);
    put_text(&count, 1, "num_scan_inputs");
    count.at[count.size++] = 3 << 3;
    count.at[count.size++] = 1;
    put(&scan, 5, count.at, count.size);
    put_node(&graph, &length);
    put_node(&graph, &loop);
    put_node(&graph, &scan);
    put_tensor(&graph, "two", 7, &two, 8);
    put_tensor(&graph, "w", 1, &w, 4);
    put_name(&graph, 11, "x");
    put_name(&graph, 12, "y");
    memcpy(model.at, "\x08\x08\x42\x02\x10\x11", model.size = 6); /* version 8, opset 17 */
    put(&model, 7, graph.at, graph.size);
    return model;
}

static haul_tensor *input_of(int model)
{
    return model ? haul_zeros(HAUL_F32, HAUL_SHAPE(3)) : haul_zeros(HAUL_F32, HAUL_SHAPE(1, 1, 4, 4));
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
    char                 path[64] = {(char)model};
    haul_estimate_result cost;
    const int            fd = memfd_create("fuzz.onnx", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path + 1, sizeof path - 1, "/proc/self/fd/%d", fd);
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
    char        path[] = "/tmp/haul-fuzz-onnx-XXXXXX";
    const int   fd = mkstemp(path);
    haul_scope *scope = haul_scope_push();
    const bytes control = make_control();
    if (fd < 0 || haul_save_onnx(path, make_net(), input_of(0)) ||
        haul__file_read_all(path, "fuzz", ROOM / 2, 0, &models[0], &sizes[0]))
        fail();
    close(fd);
    unlink(path);
    models[1] = malloc(control.size);
    memcpy(models[1], control.at, sizes[1] = control.size);
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

/* Sets a byte, changes a bit, takes bytes away, doubles bytes. */
static size_t change(uint8_t *model, size_t size, const uint8_t *by)
{
    const size_t place = ((size_t)by[0] << 8 | by[1]) % size, rest = size - place;
    const size_t count = by[3] % 16 < rest ? by[3] % 16 : rest;
    switch (by[2] % 4) {
    case 0: model[place] = by[3]; return size;
    case 1: model[place] ^= (uint8_t)(1 << by[3] % 8); return size;
    case 2:
        if (count == size)
            return size;
        memmove(model + place, model + place + count, rest - count);
        return size - count;
    default:
        if (size + count > ROOM)
            return size;
        memmove(model + place + count, model + place, rest);
        return size + count;
    }
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
    for (size_t i = 1; i + 4 <= size && i < 4 * CHANGES; i += 4)
        length = change(changed, length, data + i);
    haul_error_clear();
    haul_scope *scope = haul_scope_push();
    run(model, changed, length);
    haul_error_clear();
    haul_scope_pop(scope);
    return 0;
}
