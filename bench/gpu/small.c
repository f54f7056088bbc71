/* What a tiny operation costs when many are handed to the device one after the other and waited for at the end: handing
 * it over or doing it, whichever takes longer. */
#include "support/raw.h"

static haul_tensor *a, *b;

static bool open_tiny(const bench_case *c)
{
    (void)c;
    a = haul_full(HAUL_F32, HAUL_SHAPE(1, 1), 1);
    b = haul_full(HAUL_F32, HAUL_SHAPE(1, 1), 2);
    return !haul_error_status();
}

static bool run_dropped(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        haul_drop(haul_add(a, b));
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

static bool run_into(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        haul_add_into(a, a, b);
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

/* With a wait after each. */
static bool run_waited(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++) {
        haul_add_into(a, a, b);
        if (haul_device_sync(haul_current_device()))
            return false;
    }
    return !haul_error_status();
}

#define TINY(label, how, who)                                                                                          \
    {                                                                                                                  \
        .name = label, .unit = "us", .peers = who, .open = open_tiny, .run = how                                       \
    }

static const bench_case cases[] = {
    TINY("add 1x1", run_dropped, "torch:tiny add,raw launch"),
    TINY("add 1x1, in place", run_into, "torch:tiny add_,raw launch"),
    TINY("add 1x1, waited for", run_waited, "torch:tiny add_ waited"),
    {.name = "raw launch",
     .unit = "us",
     .peers = "",
     .open = raw_open_launch,
     .run = raw_run_launch,
     .close = raw_close},
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
