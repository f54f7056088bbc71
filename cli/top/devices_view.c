/* The table of devices. What leaves first as the terminal narrows: names, limits of power, clocks and links, watts. */
#include <stdio.h>
#include <string.h>

#include "cli/top/text.h"
#include "cli/top/view.h"

static const top_device *device_at(const top_model *m, int place)
{
    return &m->devices[place];
}

static void put_id(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_left(c, TOP_BOLD, width, device_at(m, place)->hardware.id);
}

static void put_name(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_left(c, TOP_PLAIN, width - 1, device_at(m, place)->hardware.name);
    canvas_put(c, TOP_PLAIN, " ");
}

static void put_busy(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_right(c, TOP_PLAIN, width, top_percent(device_at(m, place)->hardware.now.utilisation));
}

static void put_spark(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_put(c, TOP_PLAIN, " ");
    canvas_left(c, TOP_LINE, width - 1, top_spark(&m->busy[place], width - 2, 1, c->utf8));
}

static void put_bar(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_put(c, TOP_PLAIN, " ");
    canvas_left(c, TOP_LINE, width - 1, top_bar(device_at(m, place), width - 1, c->utf8));
}

static top_style alert(bool on)
{
    return on ? TOP_ALERT : TOP_PLAIN;
}

static void put_used(top_canvas *c, const top_model *m, int place, int width)
{
    char              text[32];
    const top_device *d = device_at(m, place);
    snprintf(text, sizeof text, "%s%s", top_used(d), top_is_full(d) ? "!" : "");
    canvas_right(c, alert(top_is_full(d)), width, text);
}

static void put_of_total(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_right(c, alert(top_is_full(device_at(m, place))), width, top_of_total(device_at(m, place)));
}

/* Whole numbers, "-" for unknown ones. */
static const char *whole(double value, char out[24])
{
    if (isnan(value))
        return "-";
    snprintf(out, 24, "%.0f", value);
    return out;
}

static void put_celsius(top_canvas *c, const top_model *m, int place, int width)
{
    const top_device *d = device_at(m, place);
    char              number[24], text[32];
    snprintf(text, sizeof text, "%s%s", whole(d->hardware.now.celsius, number), top_is_hot(d) ? "!" : "");
    canvas_right(c, alert(top_is_hot(d)), width, text);
}

static void put_watts(top_canvas *c, const top_model *m, int place, int width)
{
    char number[24];
    canvas_right(c, TOP_PLAIN, width, whole(device_at(m, place)->hardware.now.watts, number));
}

static void put_watts_of(top_canvas *c, const top_model *m, int place, int width)
{
    const top_device *d = device_at(m, place);
    char              number[24], limit[24], text[64];
    if (isnan(d->hardware.now.watts) || isnan(d->hardware.now.watts_limit))
        put_watts(c, m, place, width);
    else {
        snprintf(text, sizeof text, "%s/%s", whole(d->hardware.now.watts, number),
                 whole(d->hardware.now.watts_limit, limit));
        canvas_right(c, TOP_PLAIN, width, text);
    }
}

static void put_clock(top_canvas *c, const top_model *m, int place, int width)
{
    const double clock = device_at(m, place)->hardware.now.megahertz;
    canvas_right(c, TOP_PLAIN, width, top_number(clock >= 1 ? floor(clock) : clock));
}

static void put_up(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_right(c, TOP_PLAIN, width, top_number(device_at(m, place)->hardware.now.to_device / 1e9));
}

static void put_down(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_right(c, TOP_PLAIN, width, top_number(device_at(m, place)->hardware.now.from_device / 1e9));
}

static const top_column columns[] = {
    {.title = "DEVICE", .width = 8, .until = 120, .left = true, .put = put_id},
    {.title = "DEVICE", .width = 9, .from = 120, .left = true, .put = put_id}, /* a name follows */
    {.title = "NAME", .width = 22, .from = 120, .until = 150, .left = true, .put = put_name},
    {.title = "NAME", .width = 40, .from = 150, .left = true, .put = put_name},
    {.title = "UTIL", .width = 6, .put = put_busy},
    {.title = " HISTORY", .width = 10, .from = 80, .until = 120, .left = true, .put = put_spark},
    {.title = " HISTORY", .width = 16, .from = 120, .left = true, .put = put_spark},
    {.title = " MEMORY", .left = true, .put = put_bar},
    {.title = "USED", .width = 8, .until = 80, .put = put_used},
    {.title = "used/total", .width = 14, .from = 80, .put = put_of_total},
    {.title = "°C", .ascii_title = "C", .width = 5, .put = put_celsius},
    {.title = "W", .width = 5, .from = 60, .until = 100, .put = put_watts},
    {.title = "W", .width = 8, .from = 100, .put = put_watts_of},
    {.title = "MHz", .width = 6, .from = 80, .put = put_clock},
    {.title = "UP", .width = 6, .from = 80, .put = put_up},
    {.title = "DOWN", .width = 6, .from = 80, .put = put_down},
};

enum { COLUMNS = sizeof columns / sizeof *columns };

void top_put_device_titles(top_canvas *c, const top_model *m)
{
    top_put_titles(c, 0, columns, COLUMNS, m);
}

void top_put_device(top_canvas *c, const top_model *m, int place)
{
    const top_device *d = device_at(m, place);
    canvas_line(c);
    if (*d->hardware.why) {
        canvas_left(c, TOP_BOLD, columns[0].width, d->hardware.id);
        canvas_put(c, TOP_PLAIN, "not read: ");
        canvas_put(c, TOP_PLAIN, d->hardware.why);
        return;
    }
    top_put_row(c, 0, columns, COLUMNS, m, place);
}
