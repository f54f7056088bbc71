/* The stand-in for cuDNN: its engines. The first proposal must not be taken. */
#include "cudnn.h"

#include <stdlib.h>
#include <string.h>

enum { TILE_KNOB = 2 };

const dnn_engine dnn_engines[ENGINES] = {
    [ENGINE_PLAIN] = {.what = "computes everything, in the order of the definition", .knob = -1, .fused = true},
    [ENGINE_TILED] =
        {.what = "wants room for the result", .knob = TILE_KNOB, .ws_fixed = 100, .ws_element = 4, .fused = true},
    [ENGINE_TENSOR_CORE] = {.what = "rounds f32 to TF32",
                            .notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE},
                            .note_count = 1,
                            .knob = TILE_KNOB,
                            .ws_fixed = 131,
                            .fused = true},
    [ENGINE_ATOMIC] = {.what = "adds in another order every time",
                       .notes = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC},
                       .note_count = 1,
                       .knob = -1,
                       .backward_only = true},
    [ENGINE_HUGE] = {.what = "wants a terabyte", .knob = -1, .ws_fixed = (int64_t)1 << 40, .fused = true},
    [ENGINE_WINOGRAD] =
        {.what = "transforms", .notes = {CUDNN_NUMERICAL_NOTE_WINOGRAD}, .note_count = 1, .knob = -1, .fused = true},
    [ENGINE_REFUSING] = {.what = "is proposed, and refuses then", .knob = -1, .fused = true, .refuses = true},
    [ENGINE_HALF_SUMS] = {.what = "adds halves",
                          .notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION},
                          .note_count = 2,
                          .knob = -1,
                          .fused = true},
};

static bool is_asked(const char *word)
{
    const char *words = getenv("STANDIN_CUDNN");
    return words && strstr(words, word);
}

bool dnn_supports(int engine, const dnn_descriptor *graph)
{
    const dnn_engine *e = &dnn_engines[engine];
    dnn_job           job;
    if (!dnn_take_apart(graph, &job) || is_asked("none"))
        return false;
    if ((job.has_bias || job.has_relu) && (!e->fused || is_asked("unfused")))
        return false;
    return !(e->backward_only && job.pass == 0);
}

int64_t dnn_workspace(int engine, const dnn_descriptor *graph)
{
    dnn_job           job;
    const dnn_tensor *out;
    if (!dnn_take_apart(graph, &job))
        return 0;
    out = job.pass == 0 ? &job.y : job.pass == 1 ? &job.x : &job.weight;
    return dnn_engines[engine].ws_fixed +
           dnn_engines[engine].ws_element * out->dims[0] * out->dims[1] * out->dims[2] * out->dims[3];
}

int dnn_propose(const dnn_descriptor *graph, int mode, int out[ENGINES])
{
    static const int order[] = {ENGINE_ATOMIC,    ENGINE_HUGE,        ENGINE_WINOGRAD, ENGINE_REFUSING,
                                ENGINE_HALF_SUMS, ENGINE_TENSOR_CORE, ENGINE_TILED,    ENGINE_PLAIN};
    int              count = 0;
    if (mode == CUDNN_HEUR_MODE_FALLBACK) {
        out[0] = ENGINE_PLAIN;
        return dnn_supports(ENGINE_PLAIN, graph);
    }
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        if (dnn_supports(order[i], graph))
            out[count++] = order[i];
    return count;
}
