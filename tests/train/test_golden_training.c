/* Training follows PyTorch: from the same initial weights and batches, the same losses, on every device.
 *
 * tools/golden/simplecnn.py made the losses. With lr 0.001 the first 200 agree within 1e-5 (relative), with lr 0.01 the
 * first 100 within 1e-3: PyTorch differs from itself by as much there when sums are ordered differently. Needs the
 * CIFAR-10 files the golden losses were made from, in $HAUL_TEST_DATA. On the stand-in for a GPU, where a step takes
 * most of a second, a tenth of them.
 *
 * ctest: cuda-only; labels=slow,once */
#include <cjson/cJSON.h>
#include <haul/haul.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/conformance/conformance.h"
#include "support/conformance/golden.h"

#define STEPS         200
#define WHOLE_BATCHES 156 /* of the first file: 10000 / 64 */

static uint32_t crc32(const char *data, size_t size)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= (unsigned char)data[i];
        for (int k = 0; k < 8; k++)
            crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1)));
    }
    return ~crc;
}

static bool data_is(const char *folder, uint32_t wanted)
{
    char   path[1024];
    size_t size = 0;
    snprintf(path, sizeof path, "%s/cifar-10-batches-bin/data_batch_1.bin", folder);
    char *data = read_golden(path, &size);
    bool  same = data && crc32(data, size) == wanted;
    free(data);
    return same;
}

/* One step; the loss, or NaN with the error set. */
static double train_step(haul_module *net, haul_optimizer *sgd, const haul_batch *batch)
{
    haul_scope  *step = haul_scope_push();
    haul_tensor *loss = haul_cross_entropy(haul_call(net, batch->x), batch->y);
    haul_optimizer_zero_grad(sgd);
    haul_backward(loss);
    haul_optimizer_step(sgd);
    double value = haul_item(loss);
    haul_scope_pop(step);
    return value;
}

static int train(haul_device *device, const char *folder, double lr, int steps, double *losses)
{
    haul_scope *scope = haul_scope_push();
    haul_set_device(device);
    haul_module *net = haul_model_new("simplecnn");
    haul_load_weights(HAUL_SOURCE "/tests/golden/simplecnn.safetensors", net);
    haul_optimizer *sgd = haul_sgd(net, lr, .momentum = 0.9);
    haul_loader    *loader =
        haul_loader_new(haul_dataset_map(haul_cifar10(folder), haul_normalise("x")), .batch = 64, .workers = 1);
    int done = 0;
    while (done < steps && haul_error_status() == HAUL_OK) {
        const haul_batch *batch;
        haul_loader_start(loader, 1);
        for (int i = 0; i < WHOLE_BATCHES && done < steps && (batch = haul_loader_next(loader)); i++)
            losses[done++] = train_step(net, sgd, batch);
    }
    haul_scope_pop(scope);
    return done;
}

static void compare(const cJSON *golden, const char *key, double lr, int steps, double bound, haul_device *device,
                    const char *folder)
{
    static double losses[STEPS];
    if (!begin_case("golden/%s/%s", key, haul_device_name(device)))
        return;
    haul_error_clear();
    const cJSON *want = cJSON_GetObjectItem(golden, key);
    if (cJSON_GetArraySize(want) < steps)
        fail_case("the golden file has too few losses");
    if (train(device, folder, lr, steps, losses) < steps || haul_error_status())
        fail_case("%s", haul_error_message());
    double       worst = 0;
    int          i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, want)
    {
        if (i == steps)
            break;
        double difference = fabs(losses[i] - item->valuedouble) / fabs(item->valuedouble);
        worst = fmax(worst, difference);
        if (!(difference <= bound))
            fail_case("batch %d: the loss is %.9g, PyTorch's %.9g (differs by %.2g, allowed is %.2g)", i + 1, losses[i],
                      item->valuedouble, difference, bound);
        i++;
    }
    printf("%s %s: %d losses, largest relative difference %.2e\n", haul_device_name(device), key, i, worst);
}

int main(void)
{
    const char *folder = getenv("HAUL_TEST_DATA");
    cJSON      *golden = read_golden_json("simplecnn.json");
    if (!golden) {
        printf("tests/golden/simplecnn.json cannot be read\n");
        return 1;
    }
    if (!folder || !data_is(folder, (uint32_t)cJSON_GetObjectItem(golden, "data_crc32")->valuedouble)) {
        printf("skipped: HAUL_TEST_DATA does not name the CIFAR-10 files the golden losses were made from\n");
        cJSON_Delete(golden);
        return 77;
    }
    haul_scope  *program = haul_scope_push();
    haul_device *devices[8];
    int          count = test_devices(devices, 8), share = getenv("STANDIN_DEVICES") ? 10 : 1;
    for (int d = 0; d < count; d++) {
        compare(golden, "lr_0.001", 0.001, 200 / share, 1e-5, devices[d], folder);
        compare(golden, "lr_0.01", 0.01, 100 / share, 1e-3, devices[d], folder);
    }
    haul_scope_pop(program);
    cJSON_Delete(golden);
    return finish_cases("golden training");
}
