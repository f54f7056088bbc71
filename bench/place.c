/* How long the planner takes: random graphs of 1,000 and 10,000 operations whose devices are equally fast, the hardest
 * case, and chains of blocks as those of a transformer; then with a limit that the cheapest placement does not keep. */
#include "plan/graph/place.h"

#include "base/splitmix.h"
#include "support/bench.h"

static haul__place_graph graph;
static uint64_t          state;

static int64_t draw(int64_t below)
{
    return (int64_t)(haul__splitmix_draw(&state) % (uint64_t)below);
}

static bool add(int64_t cost, int64_t cost_there, int64_t bytes, const int *from, int count)
{
    const haul__place_operation o = {.name = "work", .cost = {cost, cost_there, (cost + cost_there) / 2}};
    const int                   i = haul__place_add_operation(&graph, &o);
    const haul__place_tensor    t = {.producer = i, .from = i, .until = i, .bytes = bytes, .home_bytes = bytes};
    haul__place_copies          copies;
    for (int d = 0; d < HAUL__PLACE_DEVICES * HAUL__PLACE_DEVICES; d++)
        copies.ps[d / HAUL__PLACE_DEVICES][d % HAUL__PLACE_DEVICES] = 10000 + bytes / 12;
    bool fine = i >= 0 && haul__place_add_tensor(&graph, &t, &copies) >= 0;
    for (int k = 0; fine && k < count; k++)
        fine = haul__place_add_use(&graph, from[k], i) == HAUL_OK;
    return fine;
}

/* Each operation uses up to three of the 40 before it. */
static bool add_random(int64_t operations)
{
    bool fine = true;
    for (int i = 0; fine && i < operations; i++) {
        int       from[3];
        const int count = i ? 1 + (int)draw(3) : 0;
        for (int k = 0; k < count; k++)
            from[k] = i - 1 - (int)draw(i < 40 ? i : 40);
        fine = add(draw(100000), draw(100000), 1024 * (1 + draw(600)), from, count);
    }
    return fine;
}

/* Blocks of 14 operations forward and as many backward, each of which uses what its own forward operation made. */
static bool add_blocks(int64_t operations)
{
    const int half = (int)operations / 2;
    bool      fine = true;
    for (int i = 0; fine && i < 2 * half; i++) {
        const int from[] = {i - 1, i < half ? i - 7 : 2 * half - 1 - i};
        const int count = i < 1 ? 0 : i < half && (i < 7 || i % 7) ? 1 : 2;
        fine = add(20000 + draw(400000), 4000 + draw(40000), 1 << 18, from, count);
    }
    return fine;
}

typedef struct shape {
    bool (*add)(int64_t operations);
    int     devices;
    int64_t percent; /* of what the cheapest placement needs on the second device; 0: no limit */
} shape;

static bool open_graph(const bench_case *c)
{
    const shape    *s = c->context;
    haul__placement p = {0};
    state = 1;
    graph = (haul__place_graph){.device_count = s->devices};
    if (!s->add(c->size) || haul__place_finish(&graph) || haul__place_solve(&graph, &p))
        return bench_out(haul_error_message());
    graph.limit[1] = s->percent * p.peaks[1].bytes / 100;
    haul__placement_free(&p);
    return true;
}

static bool run_graph(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++) {
        haul__placement p;
        if (haul__place_solve(&graph, &p))
            return bench_out(haul_error_message());
        haul__placement_free(&p);
    }
    return true;
}

static void close_graph(void)
{
    haul__place_free(&graph);
}

#define PLACE(label, operations, how, count, share)                                                                    \
    {                                                                                                                  \
        .name = label, .unit = "ms", .open = open_graph, .run = run_graph, .close = close_graph, .size = operations,   \
        .context = &(const shape)                                                                                      \
        {                                                                                                              \
            how, count, share                                                                                          \
        }                                                                                                              \
    }

static const bench_case cases[] = {
    PLACE("random, 1,000", 1000, add_random, 2, 0),
    PLACE("random, 10,000", 10000, add_random, 2, 0),
    PLACE("blocks, 1,000", 1000, add_blocks, 2, 0),
    PLACE("blocks, 10,000", 10000, add_blocks, 2, 0),
    PLACE("blocks, 1,000, half memory", 1000, add_blocks, 2, 50),
    PLACE("blocks, 10,000, half memory", 10000, add_blocks, 2, 50),
    PLACE("random, 1,000, three devices", 1000, add_random, 3, 0),
    PLACE("random, 10,000, three devices", 10000, add_random, 3, 0),
    PLACE("blocks, 1,000, three devices", 1000, add_blocks, 3, 0),
    PLACE("blocks, 1,000, nine devices", 1000, add_blocks, 9, 0),
    PLACE("blocks, 1,000, three devices, half memory", 1000, add_blocks, 3, 50),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
