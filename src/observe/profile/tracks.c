/* Where events are shown on a timeline, and as what. */
#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "observe/profile/save.h"

bool haul__is_on_thread(const haul__profile_event *m)
{
    return haul__is_span(m) || m->kind == HAUL_EVENT_LABEL_END;
}

/* The commands of a device that is done when a call returns are the operations themselves. */
bool haul__is_on_stream(const haul__profile_event *m)
{
    return m->kind == HAUL_EVENT_COMMAND_DONE && !haul__device_is_synchronous(m->device);
}

static bool is_loading(const haul_profile *p, int thread)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->events[i].thread == thread && p->events[i].kind == HAUL_EVENT_WORK_END &&
            !strcmp(haul__profile_text(p, p->events[i].text), "batch made"))
            return true;
    return false;
}

void haul__track_name(const haul_profile *p, const haul__profile_event *m, char out[HAUL__TRACK_NAME])
{
    if (haul__is_on_stream(m))
        snprintf(out, HAUL__TRACK_NAME, "%s %s", haul_device_name(m->device), haul__profile_text(p, m->detail));
    else if (m->thread == p->thread)
        snprintf(out, HAUL__TRACK_NAME, "main thread");
    else
        snprintf(out, HAUL__TRACK_NAME, "%s %d", is_loading(p, m->thread) ? "worker" : "thread", m->thread);
}

const char *haul__bar_name(const haul_profile *p, const haul__profile_event *m)
{
    static const char gradient[] = "gradient";
    if (m->kind == HAUL_EVENT_COMMAND_DONE)
        return haul__profile_text(p, m->name ? m->name : m->text);
    if (m->kind == HAUL_EVENT_CALL_END)
        return haul__profile_text(p, m->module ? m->module : m->text);
    if (m->kind == HAUL_EVENT_LABEL_END)
        return haul__profile_text(p, m->text);
    if (m->kind == HAUL_EVENT_WORK_END && strcmp(haul__profile_text(p, m->text), gradient) != 0)
        return haul__profile_text(p, m->text);
    return haul__profile_text(p, m->operation);
}

const char *haul__bar_kind(const haul_profile *p, const haul__profile_event *m)
{
    const char *text = haul__profile_text(p, m->text);
    if (m->kind == HAUL_EVENT_COMMAND_DONE)
        return !strcmp(text, "copy") && m->copy ? "copy" : "command";
    if (m->kind == HAUL_EVENT_CALL_END)
        return "call";
    if (m->kind == HAUL_EVENT_LABEL_END)
        return "label";
    if (m->kind == HAUL_EVENT_WAITED)
        return "wait";
    if (m->kind == HAUL_EVENT_DRIVER_CALLED)
        return "compile";
    if (m->kind != HAUL_EVENT_WORK_END)
        return "operation";
    return !strcmp(text, "next batch") || !strcmp(text, "batch made") ? "data"
           : !strcmp(text, "gradient")                                ? "gradient"
                                                                      : "work";
}
