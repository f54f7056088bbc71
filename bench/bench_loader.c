/* Images a second of the loader, for CIFAR-10-like pictures in memory: shuffled, normalised, in batches of 64, with and
 * without random crop and flip; beside PyTorch's DataLoader doing the same, where /usr/bin/python3 has it. */
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT 50000
#define BATCH 64

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The best of several epochs, in images a second; 0 on failure. */
static double measure(haul_dataset *data, int workers, bool augment)
{
    double       best = 0;
    haul_scope  *scope = haul_scope_push();
    haul_loader *loader = haul_loader_new(data, .batch = BATCH, .shuffle = true, .workers = workers,
                                          .random_crop = augment ? 4 : 0, .random_flip = augment);
    for (int epoch = 1; epoch <= 7 && !haul_error_status(); epoch++) {
        double  begin = now();
        int64_t images = 0;
        haul_loader_start(loader, epoch);
        for (const haul_batch *b; (b = haul_loader_next(loader));)
            images += b->size;
        double rate = (double)images / (now() - begin);
        best = rate > best ? rate : best;
    }
    haul_scope_pop(scope);
    return best;
}

static const char program[] = "import sys, time\n"
                              "import torch\n"
                              "from torch.utils.data import DataLoader, Dataset\n"
                              "torch.set_num_threads(1)\n"
                              "class Pictures(Dataset):\n"
                              "    def __init__(self, augment):\n"
                              "        self.x = torch.randint(0, 256, (50000, 3, 32, 32), dtype=torch.uint8)\n"
                              "        self.y = torch.randint(0, 10, (50000,))\n"
                              "        self.augment = augment\n"
                              "    def __len__(self):\n"
                              "        return len(self.x)\n"
                              "    def __getitem__(self, i):\n"
                              "        x = self.x[i]\n"
                              "        if self.augment:\n"
                              "            x = torch.nn.functional.pad(x, (4, 4, 4, 4))\n"
                              "            r, c = torch.randint(0, 9, (2,)).tolist()\n"
                              "            x = x[:, r:r + 32, c:c + 32]\n"
                              "            if torch.rand(1) < 0.5:\n"
                              "                x = x.flip(-1)\n"
                              "        return (x.float() / 255 - 0.5) / 0.5, self.y[i]\n"
                              "for augment in (False, True):\n"
                              "    for workers in (0, 1, 2):\n"
                              "        loader = DataLoader(Pictures(augment), 64, shuffle=True, num_workers=workers,\n"
                              "                            persistent_workers=workers > 0)\n"
                              "        best = 0\n"
                              "        for epoch in range(2):\n"
                              "            begin, images = time.time(), 0\n"
                              "            for x, y in loader:\n"
                              "                images += len(x)\n"
                              "            best = max(best, images / (time.time() - begin))\n"
                              "        print(int(augment), workers, best, flush=True)\n";

/* PyTorch's numbers, [augment][workers]; 0 where there are none. */
static void measure_pytorch(double rates[2][3])
{
    char  path[] = "/tmp/haul-bench-XXXXXX", command[256];
    int   fd = mkstemp(path), augment, workers;
    FILE *script = fd < 0 ? NULL : fdopen(fd, "w"), *output = NULL;
    if (script) {
        fputs(program, script);
        fclose(script);
        snprintf(command, sizeof command, "OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 /usr/bin/python3 %s 2>/dev/null",
                 path);
        output = popen(command, "r");
    }
    double rate;
    while (output && fscanf(output, "%d %d %lf", &augment, &workers, &rate) == 3)
        rates[augment][workers] = rate;
    if (output)
        pclose(output);
    if (fd >= 0)
        remove(path);
}

int main(void)
{
    double      ours[2][3], theirs[2][3] = {{0}};
    haul_scope *scope = haul_scope_push();
    uint8_t    *pixels = malloc((size_t)COUNT * 3072);
    int64_t    *labels = calloc(COUNT, sizeof *labels);
    for (size_t i = 0; pixels && i < (size_t)COUNT * 3072; i++)
        pixels[i] = (uint8_t)(i * 2654435761u >> 13);
    haul_tensor  *x = haul_wrap_host(HAUL_U8, HAUL_SHAPE(COUNT, 3, 32, 32), pixels, free, pixels);
    haul_tensor  *y = haul_wrap_host(HAUL_I64, HAUL_SHAPE(COUNT), labels, free, labels);
    haul_dataset *data = haul_dataset_from_tensors(x, y);
    for (int augment = 0; augment < 2; augment++)
        for (int workers = 0; workers < 3; workers++)
            ours[augment][workers] = measure(data, workers, augment);
    haul_status status = haul_error_status();
    if (status)
        fprintf(stderr, "%s\n", haul_error_message());
    else
        measure_pytorch(theirs);
    haul_scope_pop(scope);
    printf("loader: 3x32x32 pictures, batch %d, thousand images/s\n", BATCH);
    printf("  %-24s %8s %10s %10s %8s\n", "transform", "workers", "haul", "PyTorch", "ratio");
    for (int augment = 0; augment < 2 && !status; augment++)
        for (int workers = 0; workers < 3; workers++) {
            double us = ours[augment][workers], them = theirs[augment][workers];
            printf("  %-24s %8d %10.0f", augment ? "crop, flip, normalise" : "normalise", workers, us / 1e3);
            if (them > 0)
                printf(" %10.1f %7.0fx\n", them / 1e3, us / them);
            else
                printf(" %10s %8s\n", "-", "-");
        }
    return status != HAUL_OK;
}
