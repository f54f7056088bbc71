/* The processor and the machine's memory, from /proc and /sys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "observe/usage/sensors.h"

/* The number after `key` at the beginning of a line; NaN if there is none. */
static double value_of(const char *text, const char *key)
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, key, strlen(key)))
            return haul__strtod(line + strlen(key), NULL);
        if (!strchr(line, '\n'))
            break;
    }
    return NAN;
}

/* The share of the time since the last reading that was not idle, from "user nice system idle iowait irq softirq steal
 * ..." of a line of /proc/stat. Time of guests is in user already. */
static double busy_in(const char *line, double *last_total, double *last_idle)
{
    enum { FIELDS = 8, IDLE = 3, WAITING = 4 };
    char  *at = (char *)line;
    double total = 0, idle = 0;
    for (int i = 0; i < FIELDS; i++) {
        const double value = haul__strtod(at, &at);
        total += value;
        idle += i == IDLE || i == WAITING ? value : 0;
    }
    const double share = total > *last_total && *last_total > 0 ? 1 - (idle - *last_idle) / (total - *last_total) : NAN;
    *last_total = total;
    *last_idle = idle;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

static double busy_share(haul__cpu_sensors *c)
{
    char text[256];
    if (!haul__sensor_text(text, sizeof text, "/proc/stat") || strncmp(text, "cpu ", 4) != 0)
        return NAN;
    return busy_in(text + 3, &c->total, &c->idle);
}

/* A core that is off has no line. */
int haul__cores_read(haul__core_sensors *c, double shares[HAUL__CORES])
{
    enum { ROOM = 1 << 18 };
    char *text = haul__malloc(ROOM), *after;
    int   count = 0;
    for (int i = 0; i < HAUL__CORES; i++)
        shares[i] = NAN;
    if (text && haul__sensor_text(text, ROOM, "/proc/stat"))
        for (const char *at = text; (at = strstr(at, "\ncpu"));) {
            const long core = strtol(at + 4, &after, 10);
            at += 4;
            if (after == at || core < 0 || core >= HAUL__CORES)
                continue;
            shares[core] = busy_in(after, &c->total[core], &c->idle[core]);
            count = core >= count ? (int)core + 1 : count;
        }
    haul__free(text);
    HAUL__ASSERT(0 <= count && count <= HAUL__CORES);
    return count;
}

static void read_memory(haul_usage *u)
{
    char text[4096];
    if (!haul__sensor_text(text, sizeof text, "/proc/meminfo"))
        return;
    u->total = value_of(text, "MemTotal:") * 1024;
    u->used = u->total - value_of(text, "MemAvailable:") * 1024;
}

/* ---- clock ---- */

/* The mean of the cores; in megahertz. */
static double clock_of_cores(void)
{
    enum { MOST = 1024 };
    double sum = 0;
    int    count = 0;
    for (int i = 0; i < MOST; i++) {
        const double kilohertz = haul__sensor_number("/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", i);
        if (isnan(kilohertz))
            break;
        sum += kilohertz / 1000;
        count++;
    }
    return count ? sum / count : NAN;
}

/* The first "KEY : VALUE" of /proc/cpuinfo. */
static bool cpuinfo(const char *key, char *out, size_t size)
{
    char        text[4096];
    const char *at = haul__sensor_text(text, sizeof text, "/proc/cpuinfo") ? strstr(text, key) : NULL;
    at = at ? strchr(at, ':') : NULL;
    if (!at)
        return false;
    at += 1 + strspn(at + 1, " \t");
    snprintf(out, size, "%.*s", (int)strcspn(at, "\n"), at);
    return true;
}

static double clock_now(void)
{
    char         text[64];
    const double mean = clock_of_cores();
    return isnan(mean) && cpuinfo("cpu MHz", text, sizeof text) ? haul__strtod(text, NULL) : mean;
}

/* ---- sensors ---- */

static bool is_processor_sensor(const char *name)
{
    static const char *const names[] = {"coretemp", "k10temp", "zenpower", "cpu_thermal", "cputemp", NULL};
    for (int i = 0; names[i]; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

static void read_temperature(haul_usage *u)
{
    enum { MOST = 32 };
    char name[64];
    for (int i = 0; i < MOST; i++) {
        if (!haul__sensor_text(name, sizeof name, "/sys/class/hwmon/hwmon%d/name", i) || !is_processor_sensor(name))
            continue;
        u->celsius = haul__sensor_number("/sys/class/hwmon/hwmon%d/temp1_input", i) / 1000;
        u->celsius_limit = haul__sensor_number("/sys/class/hwmon/hwmon%d/temp1_max", i) / 1000;
        if (isnan(u->celsius_limit))
            u->celsius_limit = haul__sensor_number("/sys/class/hwmon/hwmon%d/temp1_crit", i) / 1000;
        return;
    }
    for (int i = 0; i < MOST; i++)
        if (haul__sensor_text(name, sizeof name, "/sys/class/thermal/thermal_zone%d/type", i) &&
            (!strcmp(name, "x86_pkg_temp") || !strcmp(name, "cpu-thermal"))) {
            u->celsius = haul__sensor_number("/sys/class/thermal/thermal_zone%d/temp", i) / 1000;
            return;
        }
}

/* ---- energy ---- */

/* RAPL's zones "intel-rapl:0" and so on: one for each package, and others, for example for the whole platform. */
double haul__cpu_energy(haul__sensor_energy packages[HAUL__CPU_PACKAGES])
{
    static const char path[] = "/sys/class/powercap/intel-rapl:";
    char              name[64];
    double            joules = NAN;
    for (int i = 0; i < HAUL__CPU_PACKAGES; i++) {
        if (!haul__sensor_text(name, sizeof name, "%s%d/name", path, i) || strncmp(name, "package", 7) != 0)
            continue;
        const double value = haul__sensor_number("%s%d/energy_uj", path, i) / 1e6;
        const double range = haul__sensor_number("%s%d/max_energy_range_uj", path, i) / 1e6;
        const double used = haul__sensor_energy_add(&packages[i], value, range);
        if (!isnan(used))
            joules = isnan(joules) ? used : joules + used;
    }
    return joules;
}

/* ---- all ---- */

static int cores(void)
{
    enum { MOST = 4096 };
    static char text[1 << 16];
    int         count = 0;
    if (!haul__sensor_text(text, sizeof text, "/proc/stat"))
        return 0;
    for (const char *at = text; (at = strstr(at, "\ncpu")) && count < MOST; at++)
        count++;
    return count;
}

void haul__cpu_sensors_read(haul__cpu_sensors *c, haul__hardware *out, double seconds)
{
    char model[64];
    haul__hardware_init(out, "cpu", "");
    const int  count = cores();
    const bool named = cpuinfo("model name", model, sizeof model);
    snprintf(out->name, sizeof out->name, "%s%s%d core%s", named ? model : "", named ? ", " : "", count,
             count == 1 ? "" : "s");
    out->now.utilisation = busy_share(c);
    out->now.megahertz = clock_now();
    out->now.joules = haul__cpu_energy(c->packages);
    out->now.watts = haul__sensor_rate(&c->power, out->now.joules, seconds);
    read_memory(&out->now);
    read_temperature(&out->now);
}
