#include "cli/show/machine_text.h"

#include <string.h>

#include "base/alloc.h"
#include "cli/shared/cli.h"
#include "cli/shared/terminal.h"
#include "plan/here.h"

enum { CLASS = 24, DTYPE = 6, RATE = 14, NAME = 12 };

/* ---- one machine ---- */

/* "450 ns", "5.0 us" */
static const char *text_ns(int64_t ns)
{
    static char text[24];
    if (ns >= 1000)
        return text_seconds(1e-9 * (double)ns);
    snprintf(text, sizeof text, "%d ns", (int)ns);
    return text;
}

static void print_device(const haul__machine_device *d)
{
    char text[320];
    snprintf(text, sizeof text, "%s%s%s, %s a command, memory %s", d->model, *d->model ? ", " : "",
             text_bytes(d->memory_bytes), text_ns(d->launch_ns), text_rate(d->bytes_per_second, false));
    set_style(STYLE_BOLD);
    printf("%-*s", NAME, d->name);
    set_style(STYLE_PLAIN);
    print_wrapped(text, NAME, NAME);
    for (int i = 0; i < d->rate_count; i++) {
        const haul__machine_rate *r = &d->rates[i];
        const bool                flops = haul__work_by_flops(r->work_class);
        printf("%*s%-*s%-*s%*s%*s\n", NAME, "", CLASS, haul__work_class_name(r->work_class), DTYPE,
               r->dtype == HAUL_DTYPE_NONE ? "any" : haul_dtype_name(r->dtype), RATE,
               text_rate(r->points[0].rate, flops), RATE, text_rate(r->points[r->count - 1].rate, flops));
    }
}

static void print_link(const haul__machine *m, const haul__machine_link *link)
{
    char text[2 * HAUL__MACHINE_NAME + 8];
    snprintf(text, sizeof text, "%s to %s", m->devices[link->from].name, m->devices[link->to].name);
    printf("%-*s%12s%*s%*s\n", NAME + CLASS - 6, text, text_seconds(1e-9 * (double)link->latency_ns), RATE,
           text_rate(link->pinned, false), RATE, text_rate(link->pageable, false));
}

void print_machine(const haul__machine *m)
{
    printf("%*s%-*s%-*s%*s%*s\n", NAME, "", CLASS, "class", DTYPE, "dtype", RATE, "smallest", RATE, "largest");
    for (int i = 0; i < m->device_count; i++)
        print_device(&m->devices[i]);
    if (m->link_count)
        printf("\n%-*s%12s%*s%*s\n", NAME + CLASS - 6, "link", "latency", RATE, "pinned", RATE, "pageable");
    for (int i = 0; i < m->link_count; i++)
        print_link(m, &m->links[i]);
}

bool print_machine_json(const haul__machine *m)
{
    char *text = haul__machine_write(m);
    if (text)
        fputs(text, stdout);
    haul__free(text);
    return text || !complain("memory is exhausted");
}

/* ---- all machines ---- */

static void print_row(const haul__machine *m, int device)
{
    const haul__machine_device *d = &m->devices[device];
    const haul__machine_link   *link = haul__machine_link_of(m, 0, device);
    const int64_t               flops = haul__machine_product_rate(d, HAUL_F32);
    const char                 *origin = m->described ? "described" : "measured";
    printf("%-10s%-10s%-10s%10s%15s%11s", device ? "" : m->name, device ? "" : origin, d->name,
           text_bytes(d->memory_bytes), flops ? text_rate(flops, true) : "-", text_rate(d->bytes_per_second, false));
    if (link)
        printf("  %s", *link->name ? link->name : text_rate(link->pinned, false));
    putchar('\n');
}

static bool print_rows(const haul__machine *m, bool follows)
{
    (void)follows;
    for (int i = 0; i < m->device_count; i++)
        print_row(m, i);
    return true;
}

static bool print_item(const haul__machine *m, bool follows)
{
    fputs(follows ? "," : "", stdout);
    return print_machine_json(m);
}

/* This computer's devices that were measured; NULL: none was. */
static haul__machine *load_here(void)
{
    haul_device   *all[HAUL__MACHINE_DEVICES], *measured[HAUL__MACHINE_DEVICES];
    const int      count = haul__here_devices(all, HAUL__MACHINE_DEVICES);
    int            kept = 0;
    haul__machine *m = NULL;
    for (int i = 0; i < count; i++) {
        if (!haul__machine_here("haul devices", &all[i], 1, HAUL__HERE_CACHED, &m))
            measured[kept++] = all[i];
        haul__free(m);
        m = NULL;
    }
    if (kept)
        haul__machine_here("haul devices", measured, kept, HAUL__HERE_CACHED, &m);
    haul_error_clear();
    return m;
}

/* False after a complaint. *here is true if this computer was one of them. */
static bool each_machine(bool (*print)(const haul__machine *m, bool follows), bool *here)
{
    const char    *name;
    haul__machine *m = load_here();
    bool           printed = !m || print(m, false), follows = m;
    *here = m;
    haul__free(m);
    for (int i = 0; printed && (name = haul__machine_shipped(i)); i++) {
        printed = !haul__machine_load("haul devices", name, &m) ? print(m, follows) : !complain_error();
        follows = true;
        haul__free(m);
    }
    return printed;
}

bool print_machines(void)
{
    bool here;
    printf("%-10s%-10s%-10s%10s%15s%11s  %s\n", "machine", "", "device", "memory", "f32 products", "bandwidth", "link");
    if (!each_machine(print_rows, &here))
        return false;
    puts(here ? "\nhere is this computer, as haul calibrate measured it; described machines follow data sheets"
              : "\nthis computer was not measured: run haul calibrate; described machines follow data sheets");
    return true;
}

bool print_machines_json(void)
{
    bool here;
    fputs("{\"machines\":[", stdout);
    const bool printed = each_machine(print_item, &here);
    puts("]}");
    return printed;
}
