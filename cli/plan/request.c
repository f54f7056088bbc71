#include "cli/plan/request.h"

#include <string.h>

#include "base/alloc.h"
#include "cli/options/memory_limit.h"
#include "cli/shared/cli.h"
#include "plan/place/options.h"

/* Splits the next part of a list off, at a comma. NULL at the end. */
static char *next_part(char **rest)
{
    char *part = *rest, *comma = part ? strchr(part, ',') : NULL;
    if (comma)
        *comma = '\0';
    *rest = comma ? comma + 1 : NULL;
    return part;
}

/* ---- limits and pins ---- */

/* A size without a device is for the one that is not the host. */
static bool read_limits(char *list, haul_plan_limit *out, int *count)
{
    for (char *part = next_part(&list); part; part = next_part(&list)) {
        haul__training_limit limit;
        char                *equals = strchr(part, '=');
        if (equals)
            *equals = '\0';
        if (!memory_limit_parse(equals ? equals + 1 : part, &limit))
            return false;
        if (*count == MOST_LIMITS) {
            complain("--memory-limit has more than %d limits", MOST_LIMITS);
            return false;
        }
        out[(*count)++] = (haul_plan_limit){equals ? part : NULL, limit.bytes, limit.percent};
    }
    return true;
}

static bool read_places(char *list, haul_plan_pin *out, int *count)
{
    for (char *part = next_part(&list); part; part = next_part(&list)) {
        char *equals = strrchr(part, '=');
        if (!equals || equals == part) {
            complain("--place %s is not PATTERN=DEVICE, for example 'conv*=cuda:0'", part);
            return false;
        }
        *equals = '\0';
        if (*count == MOST_PINS) {
            complain("--place has more than %d patterns", MOST_PINS);
            return false;
        }
        out[(*count)++] = (haul_plan_pin){part, equals + 1};
    }
    return true;
}

/* ---- the whole ---- */

/* A copy of the text for as long as the request lives. */
static bool copy_text(study_request *r, int index, const char *text)
{
    r->texts[index] = text ? haul__strdup(text) : NULL;
    if (text && !r->texts[index])
        complain("memory is exhausted");
    return !text || r->texts[index];
}

bool request_read(const request_texts *texts, study_request *out)
{
    haul_plan_limit   limits[MOST_LIMITS];
    haul_plan_pin     pins[MOST_PINS];
    haul_plan_options o = {
        .devices = texts->devices, .machine = texts->machine, .limits = limits, .pins = pins, .stages = texts->stages};
    if (!copy_text(out, 0, texts->limits) || !copy_text(out, 1, texts->places) ||
        !read_limits(out->texts[0], limits, &o.limit_count) || !read_places(out->texts[1], pins, &o.pin_count))
        return false;
    if (!haul__plan_choose(&o, true, out->pins, "haul plan", &out->plan))
        return true;
    complain_error();
    return false;
}

void request_free(study_request *r)
{
    for (int i = 0; i < 2; i++)
        haul__free(r->texts[i]);
    haul__free(r->plan.machine);
}
