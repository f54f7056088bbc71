/* Machines that come with Haul: peaks by data sheets (shipped.def), and the shares of them that operations reach. They
 * are described, not measured. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/list.h"
#include "core/error.h"
#include "files/file.h"
#include "machine/machine.h"

static const struct sheet {
    const char *machine, *name, *model;
    double      flops32, flops16, flops64, bytes; /* a second */
    int64_t     memory;
    bool        shares;
    const char *link;
} sheets[] = {
#define HOST(machine, model, flops, bytes, memory)                                                                     \
    {machine, "cpu", model, flops, flops, flops / 2, bytes, memory, true, NULL},
#define DEVICE(machine, number, model, flops32, flops16, flops64, bytes, memory, shares, link)                         \
    {machine, "cuda:" #number, model, flops32, flops16, flops64, bytes, memory, shares, link},
#include "machine/shipped.def"
#undef HOST
#undef DEVICE
};

enum { SHEETS = sizeof sheets / sizeof *sheets };

/* ---- from peaks to rates ---- */

/* The parts of the peaks that large operations of a class reach, in percent. */
static const int percent_of_peak[] = {[HAUL__WORK_MATMUL] = 75,
                                      [HAUL__WORK_CONV] = 60,
                                      [HAUL__WORK_ELEMENTWISE] = 80,
                                      [HAUL__WORK_REDUCTION] = 70,
                                      [HAUL__WORK_NORMALISATION] = 70,
                                      [HAUL__WORK_POOL] = 60,
                                      [HAUL__WORK_INDEX] = 30,
                                      [HAUL__WORK_MOVE] = 75,
                                      [HAUL__WORK_RANDOM] = 70,
                                      [HAUL__WORK_OPTIMIZER] = 80,
                                      [HAUL__WORK_MATMUL_BACKWARD] = 70,
                                      [HAUL__WORK_CONV_BACKWARD] = 50,
                                      [HAUL__WORK_NARROW_CONV] = 20,
                                      [HAUL__WORK_NARROW_CONV_BACKWARD] = 15,
                                      [HAUL__WORK_DEEP_CONV] = 70,
                                      [HAUL__WORK_DEEP_CONV_BACKWARD] = 60,
                                      [HAUL__WORK_BATCHED_MATMUL] = 60,
                                      [HAUL__WORK_SOFTMAX] = 70,
                                      [HAUL__WORK_NORMALISATION_BACKWARD] = 60,
                                      [HAUL__WORK_POOL_BACKWARD] = 50,
                                      [HAUL__WORK_FUNCTION] = 80,
                                      [HAUL__WORK_SCATTERED_MOVE] = 75};
_Static_assert(sizeof percent_of_peak / sizeof *percent_of_peak == HAUL__WORK_OTHER, "every class has its part");

/* Smaller operations leave cores idle: an operation that the peak would do in so many nanoseconds reaches
 * this percentage of the large ones' rate. */
static const struct {
    int64_t ns;
    int     percent;
} filled[] = {{1000, 10}, {10000, 45}, {100000, 85}, {1000000, 100}};

enum { FILLED = sizeof filled / sizeof *filled };

static void add_rate(haul__machine_device *d, haul__work_class work_class, haul_dtype dtype, double peak)
{
    HAUL__ASSERT(d->rate_count < HAUL__MACHINE_RATES);
    haul__machine_rate *r = &d->rates[d->rate_count++];
    const double        best = peak * percent_of_peak[work_class] / 100;
    *r = (haul__machine_rate){.work_class = work_class, .dtype = dtype};
    for (int i = 0; i < FILLED; i++) {
        r->points[r->count++] = (haul__machine_point){.work = (int64_t)(peak * 1e-9 * (double)filled[i].ns),
                                                      .rate = (int64_t)(best * filled[i].percent / 100)};
        HAUL__ASSERT(r->points[i].rate > 0 && r->points[i].work > (i > 0 ? r->points[i - 1].work : 0));
    }
}

static void add_rates(haul__machine_device *d, const struct sheet *s)
{
    for (haul__work_class c = 0; c < HAUL__WORK_OTHER; c++) {
        if (!haul__work_by_flops(c)) {
            add_rate(d, c, HAUL_DTYPE_NONE, s->bytes);
            continue;
        }
        add_rate(d, c, HAUL_F32, s->flops32);
        add_rate(d, c, HAUL_F16, s->flops16);
        add_rate(d, c, HAUL_BF16, s->flops16);
        add_rate(d, c, HAUL_F64, s->flops64);
    }
}

/* ---- devices and links ---- */

static void add_link(haul__machine *m, int from, int to, const char *name)
{
    HAUL__ASSERT(m->link_count < HAUL__MACHINE_LINKS && !haul__machine_link_of(m, from, to));
    haul__machine_link *link = &m->links[m->link_count++];
    if (!haul__machine_named_link(name, link)) { /* the memory that both devices share: read and written */
        const int64_t rate = m->devices[to].bytes_per_second / 2;
        *link = (haul__machine_link){.latency_ns = 2000, .pinned = rate, .pageable = rate};
        snprintf(link->name, sizeof link->name, "%s", name);
    }
    link->from = from;
    link->to = to;
    link->overlap = true;
}

static void add_device(haul__machine *m, const struct sheet *s)
{
    HAUL__ASSERT(m->device_count < HAUL__MACHINE_DEVICES && haul__machine_find(m, s->name) < 0);
    const int             number = m->device_count++;
    haul__machine_device *d = &m->devices[number];
    const bool            is_host = !s->link;
    HAUL__ASSERT(is_host == (number == 0)); /* the host is the first row of a machine */
    snprintf(d->name, sizeof d->name, "%s", s->name);
    snprintf(d->model, sizeof d->model, "%s", s->model);
    d->memory_bytes = s->memory;
    d->shares_host_memory = s->shares;
    d->launch_ns = is_host ? 1000 : 5000;
    d->bytes_per_second = (int64_t)s->bytes;
    add_rates(d, s);
    for (int other = 0; other < number; other++) {
        add_link(m, other, number, other ? "nvlink" : s->link);
        add_link(m, number, other, other ? "nvlink" : s->link);
    }
}

/* ---- by name ---- */

const char *haul__machine_shipped(int index)
{
    for (int i = 0; i < SHEETS; i++)
        if (!sheets[i].link && index-- == 0)
            return sheets[i].machine;
    return NULL;
}

static bool is_shipped(const char *name)
{
    const char *shipped;
    for (int i = 0; (shipped = haul__machine_shipped(i)); i++)
        if (strcmp(shipped, name) == 0)
            return true;
    return false;
}

static haul_status make_shipped(const char *operation, const char *name, haul__machine **out)
{
    haul__machine *m = haul__calloc(1, sizeof *m);
    if (!m)
        return haul__fail_memory(operation, sizeof *m);
    m->described = true;
    snprintf(m->name, sizeof m->name, "%s", name);
    snprintf(m->source, sizeof m->source, "%s",
             "Described by data sheets, not measured. Large operations reach 15 to 80% of the peaks, small ones less; "
             "a command takes 5 us on a GPU and 1 us on a CPU.");
    for (int i = 0; i < SHEETS; i++)
        if (strcmp(sheets[i].machine, name) == 0)
            add_device(m, &sheets[i]);
    HAUL__ASSERT(m->device_count > 1);
    *out = m;
    return HAUL_OK;
}

/* "h200, a100-40g, ..." */
static void list_names(char *out, size_t size)
{
    const char *name;
    *out = '\0';
    for (int i = 0; (name = haul__machine_shipped(i)); i++)
        haul__list_add(out, size, "%s", name);
}

static haul_status load_file(const char *operation, const char *path, haul__machine **out)
{
    enum { MOST_FILE = 4 << 20 };
    char        names[128];
    uint8_t    *data = NULL;
    size_t      size = 0;
    haul_status status = haul__file_read_all(path, operation, MOST_FILE, 1, &data, &size);
    if (status) {
        list_names(names, sizeof names);
        return strchr(path, '/') || strchr(path, '.')
                   ? status
                   : haul__fail(HAUL_INVALID_ARGUMENT, operation, "machine",
                                "the machine %.64s is unknown; name a file, or one of %s", path, names);
    }
    status = haul__machine_read(operation, path, (const char *)data, size, out);
    haul__free(data);
    return status;
}

haul_status haul__machine_load(const char *operation, const char *name, haul__machine **out)
{
    *out = NULL;
    return is_shipped(name) ? make_shipped(operation, name, out) : load_file(operation, name, out);
}
