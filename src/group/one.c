/* The group of one process. Nothing is moved: a rank's own portion of a collective is where it belongs already, or is
 * copied by the layer above (work.c). */
#include "group/kind.h"

static haul_status open_one(haul__engine *parent, int color, int key, haul__engine **out, haul__request *request)
{
    (void)request;
    (void)parent;
    (void)color;
    (void)key;
    static haul__engine one = {.kind = &haul__group_none, .rank = 0, .size = 1};
    *out = &one;
    return HAUL_OK;
}

static void close_one(haul__engine *e)
{
    (void)e;
}

static haul_status all_to_all(haul__engine *e, const void *out, haul__portions sent, void *in, haul__portions got,
                              haul__request *request)
{
    (void)e;
    (void)out;
    (void)sent;
    (void)in;
    (void)got;
    (void)request;
    return HAUL_OK;
}

static haul_status all_gather(haul__engine *e, void *all, haul__portions portions, haul__request *request)
{
    (void)e;
    (void)all;
    (void)portions;
    (void)request;
    return HAUL_OK;
}

static haul_status broadcast(haul__engine *e, void *data, int bytes, int root, haul__request *request)
{
    (void)e;
    (void)data;
    (void)bytes;
    (void)root;
    (void)request;
    return HAUL_OK;
}

/* There is no other rank, so these are never called. */
static haul_status send_to(haul__engine *e, const void *data, int bytes, int to, haul__group_channel channel,
                           haul__request *request)
{
    (void)e;
    (void)data;
    (void)bytes;
    (void)channel;
    (void)request;
    return haul__fail(HAUL_INVALID_ARGUMENT, "haul_send", "to", "unknown rank %d", to);
}

static haul_status receive_from(haul__engine *e, void *data, int bytes, int from, haul__group_channel channel,
                                haul__request *request)
{
    (void)e;
    (void)data;
    (void)bytes;
    (void)channel;
    (void)request;
    return haul__fail(HAUL_INVALID_ARGUMENT, "haul_receive", "from", "unknown rank %d", from);
}

static haul_status progress(haul__engine *e, haul__request *request)
{
    (void)e;
    request->open = false;
    return HAUL_OK;
}

static void abort_one(haul__engine *e)
{
    (void)e;
}

static void describe(const haul__engine *e, haul_group_properties *out)
{
    (void)e;
    out->library = out->family = out->version = "";
}

const haul__group_kind haul__group_none = {
    .name = "none",
    .open = open_one,
    .close = close_one,
    .all_to_all = all_to_all,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .send = send_to,
    .receive = receive_from,
    .progress = progress,
    .abort = abort_one,
    .describe = describe,
};
