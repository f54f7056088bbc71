#include "progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

void progress_init(progress_bar *p, bool wanted)
{
    const char *terminal = getenv("TERM");

    *p = (progress_bar){.on = wanted && isatty(STDOUT_FILENO) && terminal && strcmp(terminal, "dumb") != 0};
}

int terminal_width(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col < 1 ? 80 : size.ws_col;
}

static void bar_text(char *out, size_t size, int64_t done, int64_t total)
{
    int width = (int)size - 1, filled = total > 0 ? (int)((double)done / (double)total * width) : 0;

    for (int i = 0; i < width; i++)
        out[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    out[width] = 0;
}

void progress_draw(progress_bar *p, const progress_state *s)
{
    char   bar[25], line[256], loss[32] = "", speed[64] = "", left[32] = "";
    double now = clock_seconds();

    if (!p->on || (p->shown && now - p->drawn_at < 0.1))
        return;
    p->drawn_at = now;
    p->shown = true;
    bar_text(bar, sizeof bar, s->done, s->total);
    if (isfinite(s->loss))
        snprintf(loss, sizeof loss, "  loss %.3f", s->loss);
    if (s->per_second > 0) {
        snprintf(speed, sizeof speed, "  %s/s", text_count((int64_t)s->per_second));
        snprintf(left, sizeof left, "  %d:%02d left", (int)(s->seconds_left / 60), (int)s->seconds_left % 60);
    }
    int length = snprintf(line, sizeof line, "%s [%s] %lld/%lld%s%s%s", s->label, bar, (long long)s->done,
                          (long long)s->total, loss, speed, left);
    int width = terminal_width() - 1; /* the last column would wrap on some terminals */
    if (length > width)
        line[width > 0 ? width : 0] = 0;
    printf("\r%s\033[K", line);
    fflush(stdout);
}

void progress_clear(progress_bar *p)
{
    if (p->shown)
        printf("\r\033[K");
    p->shown = false;
}
