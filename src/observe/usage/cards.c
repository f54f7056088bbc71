/* GPUs as the kernel describes them in /sys/class/drm: AMD's and Intel's, and others with the same files. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "observe/usage/sensors.h"

/* The value of a line "KEY=value" of the card's uevent file. */
static bool uevent(int card, const char *key, char *out, size_t size)
{
    char text[1024];
    if (!haul__sensor_text(text, sizeof text, "/sys/class/drm/card%d/device/uevent", card))
        return false;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == '=') {
            snprintf(out, size, "%s", line + strlen(key) + 1);
            return true;
        }
    return false;
}

static void name_card(int card, const char *driver, char *out, size_t size)
{
    char id[32];
    if (haul__sensor_text(out, size, "/sys/class/drm/card%d/device/product_name", card))
        return;
    snprintf(out, size, "%s %s", driver, uevent(card, "PCI_ID", id, sizeof id) ? id : "GPU");
}

/* Of several spellings of a number the first that there is. */
static double first_of(double a, double b)
{
    return isnan(a) ? b : a;
}

/* ---- sensors: /sys/class/drm/cardN/device/hwmon/hwmonM ---- */

static int sensor_of(int card)
{
    char path[512];
    int  number = -1;
    haul__sensor_path(path, sizeof path, "/sys/class/drm/card%d/device/hwmon", card);
    DIR *folder = opendir(path);
    for (struct dirent *e; folder && number < 0 && (e = readdir(folder));)
        if (!strncmp(e->d_name, "hwmon", 5))
            number = atoi(e->d_name + 5);
    if (folder)
        closedir(folder);
    return number;
}

#define SENSOR(name) haul__sensor_number("/sys/class/drm/card%d/device/hwmon/hwmon%d/" name, card, sensor)
#define CARD(name)   haul__sensor_number("/sys/class/drm/card%d/" name, card)

double haul__card_energy(int card, int sensor, haul__sensor_energy *e)
{
    return haul__sensor_energy_add(e, SENSOR("energy1_input") / 1e6, NAN);
}

static void read_sensors(int card, haul__card_sensors *c, haul_usage *u, double seconds)
{
    const int sensor = sensor_of(card);
    if (sensor < 0)
        return;
    u->celsius = first_of(SENSOR("temp1_input"), SENSOR("temp2_input")) / 1000;
    u->celsius_limit = first_of(SENSOR("temp1_crit"), SENSOR("temp2_crit")) / 1000;
    u->watts = first_of(SENSOR("power1_average"), SENSOR("power1_input")) / 1e6;
    u->joules = haul__card_energy(card, sensor, &c->energy);
    u->watts = first_of(u->watts, haul__sensor_rate(&c->power, u->joules, seconds));
    u->watts_limit = first_of(SENSOR("power1_cap"), SENSOR("power1_max")) / 1e6;
    u->megahertz = SENSOR("freq1_input") / 1e6;
}

/* Intel's drivers count the milliseconds in which the GPU was idle. */
static double busy_share(int card, haul__card_sensors *c, double seconds)
{
    const double percent = CARD("device/gpu_busy_percent");
    const double idle = first_of(first_of(CARD("gt/gt0/rc6_residency_ms"), CARD("power/rc6_residency_ms")),
                                 CARD("device/tile0/gt0/gtidle/idle_residency_ms"));
    const double share = 1 - haul__sensor_rate(&c->idle, idle / 1000, seconds);
    return !isnan(percent) ? percent / 100 : share < 0 ? 0 : share;
}

static void read_card(int card, haul__card_sensors *c, haul_usage *u, double seconds)
{
    u->total = CARD("device/mem_info_vram_total");
    u->used = CARD("device/mem_info_vram_used");
    u->utilisation = busy_share(card, c, seconds);
    read_sensors(card, c, u, seconds);
    u->megahertz = first_of(u->megahertz, first_of(CARD("gt/gt0/rps_act_freq_mhz"), CARD("gt_act_freq_mhz")));
    u->megahertz = first_of(u->megahertz, CARD("device/tile0/gt0/freq0/act_freq"));
}

/* ---- all ---- */

/* Screens of virtual machines and servers' management chips have drivers, too. */
static bool is_gpu(int card, const char *driver)
{
    static const char *const drivers[] = {"amdgpu", "radeon", "i915", "xe", "nouveau", "nvidia", NULL};
    for (int i = 0; drivers[i]; i++)
        if (!strcmp(driver, drivers[i]))
            return true;
    return !isnan(CARD("device/gpu_busy_percent"));
}

bool haul__card_find(const char *bus, int *card, int *sensor)
{
    char found[32];
    for (*card = 0; *card < HAUL__CARDS; ++*card)
        if (uevent(*card, "PCI_SLOT_NAME", found, sizeof found) && haul__same_bus(found, bus)) {
            *sensor = sensor_of(*card);
            return *sensor >= 0;
        }
    return false;
}

int haul__cards_read(haul__card_sensors cards[HAUL__CARDS], haul__hardware *out, int room, double seconds,
                     bool with_nvidia)
{
    char driver[64], name[96], id[32];
    int  count = 0;
    for (int card = 0; card < HAUL__CARDS && count < room; card++) {
        if (!uevent(card, "DRIVER", driver, sizeof driver) || !is_gpu(card, driver))
            continue;
        const bool nvidia = !strcmp(driver, "nvidia");
        if (nvidia && !with_nvidia)
            continue;
        haul__hardware *d = &out[count++];
        snprintf(id, sizeof id, "card%d", card);
        name_card(card, driver, name, sizeof name);
        haul__hardware_init(d, id, name);
        uevent(card, "PCI_SLOT_NAME", d->bus, sizeof d->bus);
        read_card(card, &cards[card], &d->now, seconds);
        if (nvidia)
            snprintf(d->why, sizeof d->why, "NVIDIA's management library (libnvidia-ml.so.1) was not found");
    }
    HAUL__ASSERT(0 <= count && count <= room);
    return count;
}
