/* Options that a loader refuses. */
#include "data/loader/options.h"

#include "core/shape.h"
#include "core/thread.h"
#include "data/dataset.h"

#define NEW "haul_loader_new"

enum { MOST_WORKERS = 256, MOST_AHEAD = 1024 };

static haul_status check_number(const char *name, int64_t value, int64_t limit)
{
    if (value >= 0 && value <= limit)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, NEW, name, ".%s is %lld; it must be from 0 to %lld", name,
                      (long long)value, (long long)limit);
}

static haul_status check_unknown(const haul_dataset *dataset, const haul_loader_options *o)
{
    const char *wrong = o->shuffle ? "shuffle" : o->weights ? "weights" : NULL;
    if (wrong && dataset->count == HAUL_UNKNOWN)
        return haul__fail(HAUL_UNSUPPORTED, NEW, wrong,
                          "the count of %s is unknown, so its examples can only be read in order; .%s needs a dataset "
                          "with a known count",
                          dataset->name, wrong);
    if (wrong && o->shuffle && o->weights)
        return haul__fail(HAUL_INVALID_ARGUMENT, NEW, "shuffle",
                          ".shuffle and .weights exclude each other, because examples drawn by weight have no order; "
                          "use one of them");
    if (o->samples && !o->weights)
        return haul__fail(HAUL_INVALID_ARGUMENT, NEW, "samples", ".samples needs .weights");
    return HAUL_OK;
}

/* The product of pieces and batch is the size of a global batch. */
static haul_status check_pieces(const haul_dataset *dataset, const haul_loader_options *o)
{
    const int   pieces = o->pieces ? o->pieces : 1;
    int64_t     product;
    haul_status status = check_number("pieces", o->pieces, 1 << 16);
    if (!status)
        status = check_number("first_piece", o->first_piece, pieces - 1);
    if (!status)
        status = check_number("piece_count", o->piece_count, pieces - o->first_piece);
    if (!status && pieces > 1 && dataset->count == HAUL_UNKNOWN)
        return haul__fail(HAUL_UNSUPPORTED, NEW, "pieces",
                          "the count of %s is unknown, so its examples can only be read in order; .pieces needs a "
                          "dataset with a known count",
                          dataset->name);
    if (!status && !haul__mul_size(o->batch ? o->batch : 1, pieces, &product))
        return haul__fail(HAUL_SHAPE, NEW, "pieces", "a global batch has more examples than can be counted");
    return status;
}

/* A dry run reads no examples, so all sizes must be known without them. */
static haul_status check_sizes(const haul_dataset *dataset)
{
    if (!haul__is_dry())
        return HAUL_OK;
    if (dataset->count == HAUL_UNKNOWN)
        return haul__fail(HAUL_UNSUPPORTED, NEW, "dataset",
                          "the count of %s is unknown, and a dry run (haul_estimate) reads no examples", dataset->name);
    for (int f = 0; f < dataset->fields->count; f++)
        if (dataset->fields->varying[f] >= 0)
            return haul__fail(HAUL_UNSUPPORTED, NEW, "dataset",
                              "%s of %s varies in size, and a dry run (haul_estimate) reads no examples",
                              dataset->fields->items[f].name, dataset->name);
    return HAUL_OK;
}

haul_status haul__loader_check(const haul_dataset *dataset, const haul_loader_options *o)
{
    haul_status status;
    int64_t     bytes;
    if ((status = check_number("batch", o->batch, INT32_MAX)) ||
        (status = check_number("workers", o->workers, MOST_WORKERS)) ||
        (status = check_number("prefetch", o->prefetch, MOST_AHEAD)) ||
        (status = check_number("samples", o->samples, INT64_MAX / 16)) || (status = check_unknown(dataset, o)) ||
        (status = check_pieces(dataset, o)) || (status = check_sizes(dataset)))
        return status;
    for (int f = 0; f < dataset->fields->count; f++)
        if (!haul__mul_size(o->batch, (int64_t)dataset->fields->bytes[f], &bytes))
            return haul__fail(HAUL_SHAPE, NEW, "batch",
                              "a batch of %lld examples has more elements than can be counted", (long long)o->batch);
    return HAUL_OK;
}
