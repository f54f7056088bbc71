#include "group/direct.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "group/work.h"

static const char operation[] = "haul_group_get";

/* ---- who can be connected ---- */

void haul__direct_introduce(haul__direct_card *out)
{
    haul__error_record before;
    haul__error_save(&before);
    memset(out, 0, sizeof *out);
    haul_device              *device = haul__device_current(operation);
    const haul__rank_library *library = device ? haul__device_ranks(device) : NULL;
    if (!device) {
        haul__snprintf(out->why, sizeof out->why, "it has no usable device");
    } else if (!library) {
        haul__snprintf(out->why, sizeof out->why,
                       "its current device is %s, not a GPU of NVIDIA; haul_set_device chooses one before the call",
                       device->name);
    } else if (library->usable(out->why, sizeof out->why)) {
        out->usable = true;
        library->place(device, out->place);
    }
    haul__error_restore(&before);
}

bool haul__direct_suits(const haul_group *group, const haul__direct_card *cards, char *why, size_t size)
{
    const haul_group_member *members = group->members;
    char                     one[128], other[128];
    HAUL__ASSERT(group->size > 0 && size > 0);
    for (int r = 0; r < group->size; r++) {
        haul__group_describe_rank(group, r, one, sizeof one);
        if (!cards[r].usable) {
            haul__snprintf(why, size, "%s cannot use NCCL: %.280s", one, cards[r].why);
            return false;
        }
        for (int k = 0; k < r; k++)
            if (!strcmp(cards[k].place, cards[r].place) && !strcmp(members[k].host, members[r].host)) {
                haul__group_describe_rank(group, k, other, sizeof other);
                haul__snprintf(why, size, "%s and %s have the same GPU; NCCL needs one for each rank", other, one);
                return false;
            }
    }
    return true;
}

/* ---- connecting ---- */

typedef struct answer {
    int32_t status;
    char    text[HAUL__DIRECT_WHY];
} answer;

/* This rank has failed before a collective. The others make it, and get the error. */
static haul_status pass(haul_group *g, haul_status status)
{
    haul__group_pass_error(g, operation);
    return status;
}

/* Every rank learns whether the others succeeded. The error of the first that failed is the error of all. */
static haul_status agree(haul_group *g, const haul__group_call *call, haul_status status)
{
    const size_t size = (size_t)g->size;
    answer      *all = haul__calloc(size, sizeof *all);
    char         one[128];
    if (!all)
        return pass(g, haul__fail_memory(operation, size * sizeof *all));
    HAUL__ASSERT(g->rank >= 0 && g->rank < g->size);
    all[g->rank].status = status;
    if (status)
        haul__snprintf(all[g->rank].text, sizeof all->text, "%s", haul_error_message());
    status = haul__group_gather_equal(g, call, all, sizeof *all);
    for (int r = 0; !status && r < g->size; r++)
        if (all[r].status) {
            all[r].text[sizeof all->text - 1] = '\0';
            haul__group_describe_rank(g, r, one, sizeof one);
            status = haul__fail(HAUL_BACKEND, operation, NULL,
                                "%s cannot connect its GPU: %.250s; HAUL_CUDA_WITHOUT=nccl trains without NCCL", one,
                                all[r].text);
        }
    haul__free(all);
    return status;
}

static haul_status connect_all(haul_group *g, haul__direct *d)
{
    const haul__group_call call = {.name = operation, .what = "the identifier of NCCL"};
    char                   id[HAUL__RANKS_ID] = "";
    haul_status            status = g->rank == 0 ? d->library->make_id(id) : HAUL_OK;
    status = agree(g, &call, status);
    if (!status)
        status = haul__work_wait(haul__group_broadcast_begin(g, &call, id, (int64_t)sizeof id, 0));
    if (status)
        return status;
    HAUL__ASSERT(!d->connection);
    status = d->library->connect(d->device, id, g->rank, g->size, &d->connection);
    return agree(g, &call, status);
}

static void describe_library(const haul_group *g, haul__direct *d)
{
    haul_group_properties p = {.library = ""};
    char                  version[40];
    d->library->version(version, sizeof version);
    g->engine->kind->describe(g->engine, &p);
    if (*p.library)
        haul__snprintf(d->version, sizeof d->version, "%s; ranks are found by %s (%s)", version, p.library, p.version);
    else
        haul__snprintf(d->version, sizeof d->version, "%s", version);
}

haul_status haul__direct_open(haul_group *group)
{
    haul__direct d = {.device = haul__device_current(operation)};
    if (!d.device)
        return pass(group, haul_error_status());
    d.library = haul__device_ranks(d.device);
    if (connect_all(group, &d)) {
        if (d.connection)
            d.library->disconnect(d.device, d.connection);
        return haul_error_status();
    }
    HAUL__ASSERT(d.connection && !group->direct.connection);
    describe_library(group, &d);
    group->direct = d;
    return HAUL_OK;
}

void haul__direct_close(haul_group *group)
{
    if (group->direct.connection)
        group->direct.library->disconnect(group->direct.device, group->direct.connection);
    group->direct.connection = NULL;
}

bool haul__direct_moves(const haul_group *group, const haul_tensor *t)
{
    return group->direct.library && group->size > 1 && t->storage->device == group->direct.device && t->count > 0;
}
