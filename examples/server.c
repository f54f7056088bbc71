/* A server: four threads answer requests with one network. Each request has a scope with a memory limit, one thread and
 * a random generator. A request that needs too much memory fails without affecting the others, and the answer to a
 * request depends only on its seed.
 *
 *     server [DEVICE] */
#include <haul/haul.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORKERS = 4, REQUESTS = 200, MOST_BYTES = 4 << 20 };

typedef struct request {
    int64_t  pictures;
    uint64_t seed;
    double   answer; /* the class of the first picture */
    char     error[512];
    double   ms;
} request;

static haul_device *device;
static haul_module *net;
static request      requests[REQUESTS];
static atomic_int   taken, exceeded; /* the second: requests beyond their budget of transfers */

/* A class for each picture, sampled from the predicted probabilities (Gumbel-max trick). */
static haul_tensor *draw_classes(int64_t pictures)
{
    haul_tensor *x = haul_uniform(HAUL_F32, HAUL_SHAPE(pictures, 3, 32, 32), -1, 1); /* in place of real pictures */
    haul_tensor *noise = haul_uniform(HAUL_F32, HAUL_SHAPE(pictures, 10), 1e-7, 1);
    haul_tensor *logits = haul_call(net, x, .mode = HAUL_EVALUATE);
    return haul_argmax(haul_sub(logits, haul_log(haul_neg(haul_log(noise)))), 1, false);
}

static void answer(request *r, const char *name)
{
    struct timespec start, end;
    timespec_get(&start, TIME_UTC);
    haul_scope *scope = haul_scope_push_named(name);
    haul_budget(.d2h_bytes = 8, .waits = 1); /* the class */
    haul_set_device(device);
    haul_set_grad_enabled(false);
    haul_set_scope_threads(1);
    haul_scope_set_memory_limit(scope, device, MOST_BYTES);
    haul_set_generator(haul_generator_new(r->seed));
    r->answer = haul_item(haul_slice(draw_classes(r->pictures), 0, 0, 1, 1));
    snprintf(r->error, sizeof r->error, "%s", haul_error_message()); /* "" on success */
    haul_error_clear();
    if (haul_scope_pop(scope) && !atomic_fetch_add(&exceeded, 1))
        fprintf(stderr, "%s\n", haul_error_message());
    timespec_get(&end, TIME_UTC);
    r->ms = (double)(end.tv_sec - start.tv_sec) * 1e3 + (double)(end.tv_nsec - start.tv_nsec) / 1e6;
}

static void *work(void *unused)
{
    char name[32];
    for (int i; (i = atomic_fetch_add(&taken, 1)) < REQUESTS;) {
        snprintf(name, sizeof name, "request %d", i);
        answer(&requests[i], name);
    }
    return unused;
}

static int by_time(const void *a, const void *b)
{
    const double x = ((const request *)a)->ms, y = ((const request *)b)->ms;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    haul_scope *scope = haul_scope_push();
    pthread_t   workers[WORKERS];
    int         failed = 0, same = 0;
    device = haul_device_get(argc > 1 ? argv[1] : "auto");
    haul_set_device(device);
    haul_manual_seed(1);
    net = haul_model_new("simplecnn");
    if (haul_error_status()) {
        fprintf(stderr, "%s\n", haul_error_message());
        return 1;
    }
    for (int i = 0; i < REQUESTS; i++) /* the second half repeats the first */
        requests[i] = (request){.pictures = i % 50 == 49 ? 256 : 1 + i % 100 % 8, .seed = (uint64_t)(i % 100)};
    answer(&(request){.pictures = 8}, "warming up"); /* kernels are compiled on first use */
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, work, NULL);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    for (int i = 0; i < REQUESTS; i++) {
        failed += requests[i].error[0] != 0;
        same += i >= 100 && requests[i].answer == requests[i - 100].answer;
    }
    printf("%d requests on %s: %d answered, %d failed\n", REQUESTS, haul_device_name(device), REQUESTS - failed,
           failed);
    printf("asked again: %d of 98 answers are the same\n", same);
    printf("%s\n", requests[49].error);
    qsort(requests, REQUESTS, sizeof *requests, by_time);
    printf("latency: 50%% within %.2f ms, 99%% within %.2f ms\n", requests[REQUESTS / 2].ms,
           requests[REQUESTS * 99 / 100].ms);
    haul_scope_pop(scope);
    return exceeded != 0;
}
