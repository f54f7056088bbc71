/* Fuzzing the reader of checkpoints: the header of one that Haul wrote is changed as the bytes say, and loaded. A load
 * that fails changes nothing. */
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "files/file.h"
#include "support/changes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PREFIX = 8, STATE = 64 };

static haul_module           *net;
static haul_optimizer        *adam;
static haul_schedule         *schedule;
static haul_average          *average;
static haul_early_stop        stop;
static haul_training_position position;

static uint8_t *checkpoint; /* the sound file */
static size_t   header, length;

/* What loading sets. */
typedef struct state {
    float                  weights[STATE];
    int64_t                steps, updates;
    double                 rate;
    haul_early_stop        stop;
    haul_training_position position;
    haul_random_state      random;
} state;

static void must(bool holds)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", haul_error_message());
    abort();
}

static haul_status load(const char *path)
{
    return haul_load_checkpoint(path, net, adam, .position = &position, .stop = &stop, .schedules = &schedule,
                                .schedule_count = 1, .averages = &average, .average_count = 1);
}

static haul_status load_bytes(const uint8_t *data, size_t size)
{
    char              path[PATH_SIZE];
    const int         fd = open_bytes(data, size, path);
    const haul_status status = load(path);
    close(fd);
    return status;
}

static void look(state *s)
{
    haul_named_tensor tensors[8];
    const int         count = haul_module_tensors(net, tensors, 8);
    size_t            at = 0;
    memset(s, 0, sizeof *s);
    for (int i = 0; i < count; i++) {
        must(at + haul_tensor_bytes(tensors[i].tensor) <= sizeof s->weights);
        must(!haul_read(tensors[i].tensor, (char *)s->weights + at, haul_tensor_bytes(tensors[i].tensor)));
        at += haul_tensor_bytes(tensors[i].tensor);
    }
    s->steps = haul_optimizer_steps(adam);
    s->updates = haul_average_updates(average);
    s->rate = haul_optimizer_get(adam, 0, "lr");
    s->stop = stop;
    s->position = position;
    s->random = haul_random_state_get();
}

static void train(void)
{
    haul_scope *scope = haul_scope_push();
    must(!haul_backward(haul_sum(haul_call(net, haul_ones(HAUL_F32, HAUL_SHAPE(4, 2))))));
    must(!haul_optimizer_step(adam) && !haul_schedule_step(schedule) && !haul_average_update(average));
    haul_scope_pop(scope);
}

static void begin(void)
{
    char      path[] = "/tmp/haul-fuzz-checkpoint-XXXXXX";
    const int fd = mkstemp(path);
    haul_scope_push(); /* which lives as long as the process */
    net = haul_nn_linear(2, 3);
    adam = haul_adam(net, 0.1);
    schedule = haul_schedule_staircase(adam, 2);
    average = haul_average_new(net);
    position = (haul_training_position){2, 3};
    train();
    must(fd >= 0 && !haul_save_checkpoint(path, net, adam, .position = &position, .stop = &stop, .schedules = &schedule,
                                          .schedule_count = 1, .averages = &average, .average_count = 1));
    must(!haul__file_read_all(path, "fuzz", ROOM / 2, 0, &checkpoint, &length) && !load(path));
    memcpy(&header, checkpoint, sizeof header);
    close(fd);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t changed[2 * ROOM];
    state          before, after;
    if (!net)
        begin();
    memcpy(changed + PREFIX, checkpoint + PREFIX, header);
    const size_t now = change_file(changed + PREFIX, header, data, size), rest = length - PREFIX - header;
    memcpy(changed, &now, sizeof now);
    memcpy(changed + PREFIX + now, checkpoint + PREFIX + header, rest);
    look(&before);
    haul_scope *scope = haul_scope_push();
    if (load_bytes(changed, PREFIX + now + rest)) {
        haul_error_clear();
        look(&after);
        if (memcmp(&before, &after, sizeof before))
            abort();
    } else {
        must(!load_bytes(checkpoint, length));
    }
    haul_scope_pop(scope);
    return 0;
}
