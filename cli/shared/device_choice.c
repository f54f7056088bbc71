/* The device that --device names. */
#include <string.h>

#include "cli/shared/cli.h"

/* The names that --device takes, ended by NULL; `all` holds their texts. */
static void device_names(const haul_device_report *all, int count, const char **names)
{
    for (int i = 0; i < count; i++)
        if (all[i].usable)
            *names++ = all[i].name;
    *names++ = "gpu";
    *names++ = "auto";
    *names = NULL;
}

/* A device whose name is like `name`; NULL if there is none. */
static const char *device_like(const char *name)
{
    enum { MOST = 32 };
    static haul_device_report all[MOST]; /* the answer points into it; it is too large for small stacks */
    const char               *names[MOST + 3];
    int                       count = haul_device_list(all, MOST);
    device_names(all, count < 0 ? 0 : count > MOST ? MOST : count, names);
    return did_you_mean(name, names);
}

haul_device *device_use(const char *name)
{
    haul_device *device = haul_device_get(name);
    if (!haul_set_device(device))
        return device;
    char text[1024];
    snprintf(text, sizeof text, "%s", error_text());
    const char *near = strstr(text, "did you mean") ? NULL : device_like(name);
    if (near && strcmp(near, name) != 0)
        complain("%s; did you mean \"%s\"?", text, near);
    else
        complain("%s", text);
    return NULL;
}

bool computes_values(const haul_device *device, const char *done, const char *instead)
{
    haul_device_properties p;
    if (haul_device_describe(device, &p)) {
        complain_error();
        return false;
    }
    if (p.kind == HAUL_KIND_META)
        complain("--device meta has shapes without data, so nothing can be %s there; give another device (haul devices "
                 "lists them)%s",
                 done, instead);
    return p.kind != HAUL_KIND_META;
}
