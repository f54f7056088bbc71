/* A custom augmentation: random brightness, a random hole and noise. It draws from the random numbers of the example,
 * so the batches are the same for any number of workers.
 *
 *     augment [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

enum { SIDE = 32, HOLE = 8, PICTURES = 500, BATCH = 64, BATCHES = 8, BYTES = 3 * SIDE * SIDE * 4 };

/* x is f32 [3, SIDE, SIDE]. */
static haul_status augment(void *context, haul_example *e)
{
    float        *x = haul_example_field(e, "x")->data;
    const double *noise = context;
    double        brightness = 0.8 + 0.4 * haul_draw_unit(&e->draws);
    int top = (int)haul_draw_below(&e->draws, SIDE - HOLE), left = (int)haul_draw_below(&e->draws, SIDE - HOLE);
    for (int i = 0; i < 3 * SIDE * SIDE; i++) {
        int  row = i / SIDE % SIDE - top, column = i % SIDE - left;
        bool hole = row >= 0 && row < HOLE && column >= 0 && column < HOLE;
        x[i] = hole ? 0 : (float)(x[i] * brightness + *noise * haul_draw_normal(&e->draws));
    }
    return HAUL_OK;
}

/* The FNV-1a hash of all batches of an epoch. */
static uint64_t hash(haul_loader *loader, int64_t epoch)
{
    static uint8_t bytes[BATCH * BYTES];
    uint64_t       sum = UINT64_C(14695981039346656037);
    haul_scope    *scope = haul_scope_push();
    /* Each picture moves to the device with its label, and back. Reading a batch waits, and the loader may wait until
     * the memory of its two tensors is free again. */
    haul_budget(.h2d_bytes = PICTURES * (BYTES + 8), .d2h_bytes = PICTURES * BYTES, .waits = 3 * BATCHES,
                .everywhere = true); /* the workers copy */
    haul_loader_start(loader, epoch);
    for (const haul_batch *b; (b = haul_loader_next(loader));) {
        haul_read(b->x, bytes, sizeof bytes);
        for (size_t i = 0; i < haul_tensor_bytes(b->x); i++)
            sum = (sum ^ bytes[i]) * UINT64_C(1099511628211);
    }
    haul_scope_pop(scope);
    return sum;
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    double          amount = 0.05;
    haul_transform *own = haul_transform_new(augment, .context = &amount);
    haul_dataset   *pictures = haul_dataset_map(haul_shapes(PICTURES), haul_random_crop("x", 4), haul_random_flip("x"),
                                                haul_normalise("x"), own);
    for (int workers = 0; workers <= 4 && !haul_error_status(); workers += workers ? 3 : 1) {
        haul_loader *loader = haul_loader_new(pictures, .batch = BATCH, .shuffle = true, .seed = 7, .workers = workers);
        printf("%d workers:", workers);
        for (int epoch = 1; epoch <= 2 && !haul_error_status(); epoch++)
            printf(" %016llx", (unsigned long long)hash(loader, epoch));
        printf("\n");
    }
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
