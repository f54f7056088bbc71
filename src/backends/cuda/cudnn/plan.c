/* Plans: choosing cuDNN's engine for a convolution and its settings, and running it. */
#include <string.h>

#include "backends/cuda/cudnn/cudnn.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/tensor.h"

/* ---- engines ---- */

/* An attribute of a descriptor: reads at most `room` values; returns how many there are, or 0. */
static int64_t get(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   int64_t room, void *out)
{
    int64_t count = 0;
    if (haul__cudnn.GetAttribute(d, name, type, room, &count, out) != CUDNN_STATUS_SUCCESS)
        return 0;
    return count < room ? count : room;
}

/* The engine of a configuration; NULL if the library fails. */
static cudnnBackendDescriptor_t engine_of(cudnnBackendDescriptor_t config)
{
    cudnnBackendDescriptor_t engine = haul__cudnn_make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (engine && get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine) == 1)
        return engine;
    haul__cudnn_drop(engine);
    return NULL;
}

/* True if an engine with this note keeps Haul's promises. Results are bit-identical every time; f32 computed in f32;
 * sums of f16 and bf16 in f32. Transforms (Winograd, Fourier) are as fast as other engines on few GPUs only. They lose
 * digits, and spread infinities and NaN to elements whose window has none. */
static bool note_is_fine(const haul__cudnn_problem *p, int note)
{
    bool exact = p->dtype == HAUL_F32 && !p->tf32;
    if (note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
        return p->any_order != 0;
    if (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE)
        return !exact;
    if (note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)
        return p->dtype == HAUL_F32 && p->tf32;
    return note != CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION && note != CUDNN_NUMERICAL_NOTE_FFT &&
           note != CUDNN_NUMERICAL_NOTE_WINOGRAD;
}

static bool is_fine(const haul__cudnn_problem *p, cudnnBackendDescriptor_t config)
{
    cudnnBackendDescriptor_t engine = engine_of(config);
    int                      notes[64];
    int64_t                  count = 0;
    bool                     fine = engine &&
                haul__cudnn.GetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 64,
                                         &count, notes) == CUDNN_STATUS_SUCCESS &&
                count <= 64;
    for (int64_t i = 0; i < count && fine; i++)
        fine = note_is_fine(p, notes[i]);
    haul__cudnn_drop(engine);
    return fine;
}

/* ---- plans ---- */

/* Takes over `config`. Returns false if the engine cannot run it, or needs too much memory. */
static bool make_plan(const haul__cudnn_target *target, cudnnBackendDescriptor_t config, int64_t workspace,
                      haul__cudnn_plan *out)
{
    HAUL__ASSERT(config && workspace >= 0 && (target->handle || target->properties));
    cudnnBackendDescriptor_t d = haul__cudnn_make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    bool                     good = haul__cudnn_set_descriptor(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (target->handle)
        good = good && haul__cudnn_set(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target->handle);
    else
        good = good && haul__cudnn_set_descriptor(d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, target->properties);
    *out = (haul__cudnn_plan){.config = config, .plan = haul__cudnn_finish(d, good)};
    if (out->plan &&
        get(out->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &out->workspace) == 1 &&
        out->workspace >= 0 && out->workspace <= workspace)
        return true;
    haul__cudnn_plan_drop(out);
    return false;
}

void haul__cudnn_plan_drop(haul__cudnn_plan *plan)
{
    haul__cudnn_drop(plan->plan);
    haul__cudnn_drop(plan->config);
    *plan = (haul__cudnn_plan){0};
}

static cudnnBackendDescriptor_t heuristics(const haul__cudnn_target *target, cudnnBackendDescriptor_t graph, int mode)
{
    cudnnBackendDescriptor_t d = haul__cudnn_make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    bool                     good = haul__cudnn_set_descriptor(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph) &&
                haul__cudnn_set(d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (!target->handle)
        good = good && haul__cudnn_set_descriptor(d, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target->properties);
    return haul__cudnn_finish(d, good);
}

/* The proposed configurations, highest-ranked first: descriptors in an array that the caller must haul__free. The
 * library first says how many there may be, and then returns fewer. */
static cudnnBackendDescriptor_t *proposals(cudnnBackendDescriptor_t found, int64_t *count)
{
    cudnnBackendDescriptor_t *configs = NULL;
    int64_t                   room = 0, made = 0, given = 0;
    if (haul__cudnn.GetAttribute(found, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &room, NULL) ==
            CUDNN_STATUS_SUCCESS &&
        room > 0)
        configs = haul__calloc((size_t)room, sizeof *configs);
    while (configs && made < room && (configs[made] = haul__cudnn_make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)))
        made++;
    if (made > 0)
        given = get(found, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, made, configs);
    HAUL__ASSERT(made <= room && given <= made);
    for (int64_t i = given; i < made; i++)
        haul__cudnn_drop(configs[i]);
    *count = given;
    return configs;
}

int haul__cudnn_propose(const haul__cudnn_target *target, const haul__cudnn_problem *problem, int64_t workspace,
                        haul__cudnn_plan *out, int most)
{
    static const int         modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    cudnnBackendDescriptor_t graph = haul__cudnn_graph(target, problem);
    int                      found = 0;
    HAUL__ASSERT(most > 0 && workspace >= 0);
    for (size_t m = 0; graph && m < sizeof modes / sizeof modes[0] && found < most; m++) {
        cudnnBackendDescriptor_t  how = heuristics(target, graph, modes[m]);
        int64_t                   count = 0;
        cudnnBackendDescriptor_t *configs = how ? proposals(how, &count) : NULL;

        for (int64_t i = 0; i < count; i++) {
            if (found < most && is_fine(problem, configs[i]))
                found += make_plan(target, configs[i], workspace, &out[found]);
            else
                haul__cudnn_drop(configs[i]);
        }
        haul__free(configs);
        haul__cudnn_drop(how);
    }
    HAUL__ASSERT(0 <= found && found <= most);
    haul__cudnn_drop(graph);
    return found;
}

/* ---- choices ---- */

static bool describe_knob(cudnnBackendDescriptor_t knob, int64_t out[2])
{
    int type = 0;
    if (get(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type) != 1 ||
        get(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &out[1]) != 1)
        return false;
    out[0] = type;
    return true;
}

bool haul__cudnn_describe(const haul__cudnn_plan *plan, haul__cudnn_choice *out)
{
    cudnnBackendDescriptor_t engine = engine_of(plan->config), knobs[HAUL__CUDNN_MAX_KNOBS];
    int64_t                  made = 0, count = 0;
    bool                     good;
    *out = (haul__cudnn_choice){0};
    while (made < HAUL__CUDNN_MAX_KNOBS && (knobs[made] = haul__cudnn_make(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)))
        made++;
    good = engine && made == HAUL__CUDNN_MAX_KNOBS &&
           get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &out->engine) == 1 &&
           haul__cudnn.GetAttribute(plan->config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                    made, &count, knobs) == CUDNN_STATUS_SUCCESS &&
           count <= made;
    for (int64_t i = 0; i < count && good; i++)
        good = describe_knob(knobs[i], out->knobs[i]);
    out->knob_count = count;
    for (int64_t i = 0; i < made; i++)
        haul__cudnn_drop(knobs[i]);
    haul__cudnn_drop(engine);
    return good;
}

static cudnnBackendDescriptor_t make_engine(const haul__cudnn_target *target, cudnnBackendDescriptor_t graph,
                                            int64_t number)
{
    cudnnBackendDescriptor_t d = haul__cudnn_make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    bool                     good = haul__cudnn_set_descriptor(d, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph) &&
                haul__cudnn_set(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &number);
    if (!target->handle)
        good = good && haul__cudnn_set_descriptor(d, CUDNN_ATTR_ENGINE_DEVICEPROP, target->properties);
    return haul__cudnn_finish(d, good);
}

static cudnnBackendDescriptor_t make_knob(const int64_t knob[2])
{
    cudnnBackendDescriptor_t d = haul__cudnn_make(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    int                      type = (int)knob[0];
    return haul__cudnn_finish(d,
                              haul__cudnn_set(d, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type) &&
                                  haul__cudnn_set(d, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &knob[1]));
}

static cudnnBackendDescriptor_t make_config(cudnnBackendDescriptor_t engine, const haul__cudnn_choice *choice)
{
    cudnnBackendDescriptor_t d = haul__cudnn_make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR), knobs[HAUL__CUDNN_MAX_KNOBS];
    int64_t                  made = 0;
    HAUL__ASSERT(0 <= choice->knob_count && choice->knob_count <= HAUL__CUDNN_MAX_KNOBS);
    while (made < choice->knob_count && (knobs[made] = make_knob(choice->knobs[made])))
        made++;
    d = haul__cudnn_finish(d, made == choice->knob_count &&
                                  haul__cudnn_set_descriptor(d, CUDNN_ATTR_ENGINECFG_ENGINE, engine) &&
                                  (made == 0 || haul__cudnn_set(d, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                                                CUDNN_TYPE_BACKEND_DESCRIPTOR, made, knobs)));
    for (int64_t i = 0; i < made; i++)
        haul__cudnn_drop(knobs[i]);
    return d;
}

bool haul__cudnn_rebuild(const haul__cudnn_target *target, const haul__cudnn_problem *problem,
                         const haul__cudnn_choice *choice, int64_t workspace, haul__cudnn_plan *out)
{
    cudnnBackendDescriptor_t graph, engine, config;
    bool                     good = false;
    if (choice->knob_count < 0 || choice->knob_count > HAUL__CUDNN_MAX_KNOBS)
        return false;
    graph = haul__cudnn_graph(target, problem);
    engine = graph ? make_engine(target, graph, choice->engine) : NULL;
    config = engine ? make_config(engine, choice) : NULL;
    if (config && is_fine(problem, config))
        good = make_plan(target, config, workspace, out);
    else
        haul__cudnn_drop(config);
    haul__cudnn_drop(engine);
    haul__cudnn_drop(graph);
    HAUL__ASSERT(!good || (out->plan && out->workspace <= workspace));
    return good;
}

/* ---- running ---- */

cudnnStatus_t haul__cudnn_run(const haul__cudnn_target *target, const haul__cudnn_plan *plan,
                              const CUdeviceptr buffers[HAUL__CUDNN_BIAS + 1], CUdeviceptr workspace)
{
    cudnnBackendDescriptor_t pack = NULL;
    int64_t                  numbers[HAUL__CUDNN_BIAS];
    void                    *addresses[HAUL__CUDNN_BIAS], *scratch = (void *)(uintptr_t)workspace;
    int64_t                  count = 0;
    HAUL__ASSERT(target->handle && plan->plan && !plan->workspace == !workspace);
    cudnnStatus_t status = haul__cudnn.CreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    for (int i = HAUL__CUDNN_X; i <= HAUL__CUDNN_BIAS; i++)
        if (buffers[i]) {
            numbers[count] = i;
            addresses[count++] = (void *)(uintptr_t)buffers[i];
        }
    HAUL__ASSERT(count == 3 || (count == 4 && buffers[HAUL__CUDNN_BIAS]));
    if (status == CUDNN_STATUS_SUCCESS)
        status = haul__cudnn.SetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, numbers);
    if (status == CUDNN_STATUS_SUCCESS)
        status = haul__cudnn.SetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
                                          addresses);
    if (status == CUDNN_STATUS_SUCCESS)
        status = haul__cudnn.SetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
    if (status == CUDNN_STATUS_SUCCESS)
        status = haul__cudnn.Finalize(pack);
    if (status == CUDNN_STATUS_SUCCESS)
        status = haul__cudnn.Execute(target->handle, plan->plan, pack);
    haul__cudnn_drop(pack);
    return status;
}
