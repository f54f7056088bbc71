#include "cli/train/standing.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "train/pieces.h"

/* ---- as JSON: numbers are texts, so that all their bits come back ---- */

typedef struct member {
    const char *name;
    size_t      offset;
    bool        is_count; /* int64_t, not negative; else double, finite */
} member;

#define COUNT(name_)                                                                                                   \
    {                                                                                                                  \
#name_, offsetof(standing, name_), true                                                                        \
    }
#define NUMBER(name_)                                                                                                  \
    {                                                                                                                  \
#name_, offsetof(standing, name_), false                                                                       \
    }
static const member members[] = {
    COUNT(log_bytes),  NUMBER(window_loss),  COUNT(window_batches), NUMBER(epoch_loss), COUNT(epoch_batches),
    COUNT(epoch_hits), COUNT(epoch_answers), NUMBER(epoch_start),   NUMBER(lr),         NUMBER(momentum),
    COUNT(best_epoch), NUMBER(best_loss),    COUNT(stalled),        NUMBER(elapsed),
};
enum { MEMBER_COUNT = sizeof members / sizeof *members };

cJSON *standing_to_json(const standing *s)
{
    cJSON *object = cJSON_CreateObject();
    char   text[64];
    for (int i = 0; i < MEMBER_COUNT; i++) {
        const void *at = (const char *)s + members[i].offset;
        if (members[i].is_count)
            snprintf(text, sizeof text, "%" PRId64, *(const int64_t *)at);
        else
            snprintf(text, sizeof text, "%a", *(const double *)at);
        json_text(object, members[i].name, text);
    }
    return object;
}

static bool take_count(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end != text && !*end && !errno && *out >= 0;
}

static bool take_number(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out);
}

bool standing_from_json(const cJSON *object, standing *out)
{
    for (int i = 0; i < MEMBER_COUNT; i++) {
        const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, members[i].name));
        void       *at = (char *)out + members[i].offset;
        if (!text || !(members[i].is_count ? take_count(text, at) : take_number(text, at)))
            return false;
    }
    return true;
}

/* ---- positions ---- */

int64_t standing_epoch_updates(const standing_limits *l)
{
    return haul__step_count(l->batches, l->group);
}

int64_t standing_updates(const standing_limits *l, const haul_training_position *at)
{
    return (at->epoch - 1) * haul__step_count(l->batches, l->group) + haul__step_count(at->batch, l->group);
}

bool standing_has_batch(const standing_limits *l, int64_t batch)
{
    return batch >= 0 && batch <= l->batches && (batch % l->group == 0 || batch == l->batches);
}

/* ---- checks ---- */

/* A value, where it must be, and why. */
typedef struct bounds {
    const char *name;
    int64_t     value, low, high;
    const char *why;
} bounds;

static bool check_all(const bounds *list, int count, const char *path)
{
    for (const bounds *b = list; b < list + count; b++) {
        if (b->value >= b->low && b->value <= b->high)
            continue;
        if (b->low == b->high)
            complain("%s cannot be continued: its %s is %" PRId64 "; %" PRId64 " is expected, %s", path, b->name,
                     b->value, b->low, b->why);
        else
            complain("%s cannot be continued: its %s is %" PRId64 "; %" PRId64 " to %" PRId64 " is expected, %s", path,
                     b->name, b->value, b->low, b->high, b->why);
        return false;
    }
    return true;
}

bool standing_check_position(const standing_limits *l, const haul_training_position *at, const char *path)
{
    const bounds list[] = {
        {"haul.epoch", at->epoch, 1, l->epochs + 1, "as the run has so many epochs, and then one more"},
        {"haul.batch", at->batch, 0, at->epoch <= l->epochs ? l->batches : 0,
         at->epoch <= l->epochs ? "as an epoch has so many mini-batches" : "as all epochs are trained"},
    };
    if (!check_all(list, 2, path))
        return false;
    if (standing_has_batch(l, at->batch))
        return true;
    complain("%s cannot be continued: its haul.batch is %" PRId64 "; a multiple of --accumulate %" PRId64
             " or the end of the epoch, %" PRId64 ", is expected",
             path, at->batch, l->group, l->batches);
    return false;
}

bool standing_check(const standing *s, const haul_training_position *at, const char *path)
{
    const int64_t most = (int64_t)1 << 53, trained = at->epoch - 1;
    const bounds  list[] = {
         {"window_batches", s->window_batches, 0, at->batch, "as the epoch has trained so many mini-batches"},
         {"epoch_batches", s->epoch_batches, at->batch - s->window_batches, at->batch - s->window_batches,
          "the mini-batches of the epoch without its window_batches"},
         {"epoch_answers", s->epoch_answers, 0, at->batch ? most : 0, "what the epoch's mini-batches can have"},
         {"epoch_hits", s->epoch_hits, 0, s->epoch_answers, "as there were so many answers"},
         {"best_epoch", s->best_epoch, 0, trained, "as so many epochs are trained"},
         {"stalled", s->stalled, trained - s->best_epoch, trained - s->best_epoch, "the epochs since best_epoch"},
    };
    const struct {
        const char *name;
        double      value;
    } numbers[] = {{"epoch_start", s->epoch_start}, {"lr", s->lr}, {"momentum", s->momentum}, {"elapsed", s->elapsed}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(numbers[i].value >= 0 && numbers[i].value <= (double)most)) {
            complain("%s cannot be continued: its %s is %g; 0 to %g is expected", path, numbers[i].name,
                     numbers[i].value, (double)most);
            return false;
        }
    return check_all(list, sizeof list / sizeof *list, path);
}
