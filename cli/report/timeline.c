#include "cli/report/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/finding.h"
#include "cli/report/page.h"
#include "cli/report/text.h"
#include "cli/shared/axis.h"
#include "cli/shared/cli.h"

enum { MOST_DRAWN = 700, MOST_LISTED = 300, MOST_DEPTH = 4, MOST_TRACKS = 24 };

static const cJSON *tracks_of(const cJSON *profile)
{
    return document_list(cJSON_GetObjectItemCaseSensitive(profile, "timeline"), "tracks");
}

static double length_of(const cJSON *profile)
{
    return number_of(cJSON_GetObjectItemCaseSensitive(profile, "timeline"), "ms");
}

bool page_timeline_is_there(const cJSON *profile)
{
    return cJSON_GetArraySize(tracks_of(profile)) > 0 && length_of(profile) > 0;
}

/* ---- spans ---- */

typedef struct span {
    const cJSON *from;
    double       begin, ms; /* within the step */
    int          depth;
} span;

/* False if there is nothing to draw: a number is missing, or it is outside of the step. */
static bool read_span(const cJSON *from, double length, span *out)
{
    double begin = number_of(from, "begin_ms"), ms = number_of(from, "ms"), depth = number_of(from, "depth");
    if (!(begin < length) || !(ms >= 0) || begin + ms < 0)
        return false;
    *out = (span){.from = from, .begin = fmax(begin, 0)};
    out->ms = fmin(begin + ms, length) - out->begin;
    out->depth = whole_within(depth, 0, MOST_DEPTH - 1);
    return true;
}

static int by_begin(const void *a, const void *b)
{
    double x = ((const span *)a)->begin, y = ((const span *)b)->begin;
    return (x > y) - (x < y);
}

/* The track's spans in the order of time, for free; NULL if memory is exhausted. */
static span *read_spans(const cJSON *track, double length, int *count)
{
    const cJSON *list = document_list(track, "spans"), *from;
    span        *spans = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *spans);
    *count = 0;
    cJSON_ArrayForEach(from, list)
    {
        if (spans && read_span(from, length, &spans[*count]))
            ++*count;
    }
    if (spans)
        qsort(spans, (size_t)*count, sizeof *spans, by_begin);
    return spans;
}

static bool is_wait(const span *s)
{
    return !strcmp(document_text(s->from, "kind"), "wait");
}

typedef struct idle {
    double busy, gap, gap_begin; /* ms; the longest gap */
} idle;

/* How much of the step spans cover: all, or only those that are waits. */
static double covered(const span *spans, int count, bool waits)
{
    double sum = 0, end = 0;
    for (int i = 0; i < count; i++) {
        double to = spans[i].begin + spans[i].ms;
        if (waits && !is_wait(&spans[i]))
            continue;
        sum += to > end ? to - fmax(spans[i].begin, end) : 0;
        end = fmax(end, to);
    }
    return sum;
}

/* A wait may be within another span, which then is not busy. */
static idle idle_of(const span *spans, int count, double length)
{
    idle   out = {.busy = covered(spans, count, false) - covered(spans, count, true)};
    double end = 0;
    for (int i = 0; i <= count; i++) {
        double begin = i < count ? spans[i].begin : length;
        if (begin - end > out.gap) {
            out.gap = begin - end;
            out.gap_begin = end;
        }
        end = i < count ? fmax(end, begin + spans[i].ms) : end;
    }
    return out;
}

/* ---- words ---- */

void page_timeline_lead(html *h, const cJSON *profile)
{
    const cJSON *track;
    double       length = length_of(profile);
    if (!page_timeline_is_there(profile))
        return;
    cJSON_ArrayForEach(track, tracks_of(profile))
    {
        int   count;
        span *spans = read_spans(track, length, &count);
        idle  i = idle_of(spans, spans ? count : 0, length);
        bool  computes = strstr(document_text(track, "name"), "compute") != NULL;
        free(spans);
        if (!computes || !count)
            continue;
        html_put(h, "<p>");
        html_name(h, document_text(track, "name"));
        html_add(h, " is busy for %s of the step.", say_share(i.busy / length));
        if (i.gap > 0.02 * length)
            html_add(h, " Its longest gap is %s, from %s on.", say_ms(i.gap), say_ms(i.gap_begin));
        html_put(h, "</p>");
    }
    html_put(h, "<p class=\"note\">trace.json has all measured steps; ui.perfetto.dev opens it.</p>");
}

/* ---- drawing ---- */

typedef enum look { ACCELERATOR, CPU, COPY, HOST, MODULE, DATA, COMPILE, WAIT, IDLE, LOOKS } look;

static const struct {
    const char *class_name, *words;
} looks[] = {{"a", "accelerator computes"}, {"c", "CPU computes"},  {"copy", "copy"},
             {"host", "host calls"},        {"call", "module"},     {"data", "data"},
             {"compile", "compilation"},    {"wait", "host waits"}, {"idle", "device idle"}};

typedef struct drawing {
    html         tracks;
    const cJSON *profile, *audit;
    double       length, least; /* ms: of the step, and of the shortest span that is drawn */
    bool         used[LOOKS];
} drawing;

static bool has_streams(const cJSON *profile)
{
    const cJSON *track;
    cJSON_ArrayForEach(track, tracks_of(profile))
    {
        if (!strcmp(document_text(track, "kind"), "device"))
            return true;
    }
    return false;
}

/* The thread itself computes operations on the CPU. Those of other devices it only hands to them. */
static bool is_on_cpu(const cJSON *profile, const char *operation)
{
    const cJSON *o;
    bool         found = false;
    cJSON_ArrayForEach(o, document_list(profile, "operations"))
    {
        if (strcmp(document_text(o, "name"), operation) != 0)
            continue;
        if (strcmp(document_text(o, "device"), "cpu") != 0)
            return false;
        found = true;
    }
    return found || !has_streams(profile);
}

static look look_of(const cJSON *profile, const cJSON *track, const span *s)
{
    const char *kind = document_text(s->from, "kind");
    if (!strcmp(kind, "wait"))
        return WAIT;
    if (!strcmp(kind, "compile"))
        return COMPILE;
    if (!strcmp(kind, "copy"))
        return COPY;
    if (!strcmp(kind, "data"))
        return DATA;
    if (!strcmp(kind, "call"))
        return MODULE;
    if (!strcmp(document_text(track, "kind"), "device"))
        return *page_device_class(document_text(track, "device")) == 'c' ? CPU : ACCELERATOR;
    if (!strcmp(kind, "operation") || !strcmp(kind, "gradient"))
        return is_on_cpu(profile, document_text(s->from, "name")) ? CPU : HOST;
    return HOST;
}

static int rows_of(const span *spans, int count)
{
    int rows = 1;
    for (int i = 0; i < count; i++)
        rows = spans[i].depth + 1 > rows ? spans[i].depth + 1 : rows;
    return rows;
}

/* The module says more than the name of a kernel. */
static const char *label_of(const span *s)
{
    const char *module = document_text(s->from, "module"), *name = document_text(s->from, "name");
    return *module && strcmp(document_text(s->from, "kind"), "operation") != 0 ? module : name;
}

/* Pixels from the top of a track, below the letters of findings. */
static int top_of(const page_marks *marks, int depth)
{
    return 3 + 17 * marks->rows + 20 * depth;
}

static void write_span(drawing *d, const cJSON *track, const span *s, const page_marks *marks)
{
    html  *h = &d->tracks;
    double share = s->ms / d->length;
    look   of = look_of(d->profile, track, s);
    d->used[of] = true;
    html_add(h, "<i class=\"k-%s%s\" style=\"left:%.3f%%;width:%.3f%%", looks[of].class_name,
             share < 0.004 ? " thin" : "", 100 * s->begin / d->length, 100 * share);
    if (top_of(marks, s->depth) != 3)
        html_add(h, ";top:%dpx", top_of(marks, s->depth));
    html_put(h, "\">");
    if (share > 0.04)
        html_name(h, label_of(s));
    html_put(h, "</i>");
}

/* Idle spans of a device that take more than 2% of the step: from *end, which is 0 at first, to *begin. Returns
 * false after the last one; *i counts spans. */
static bool next_gap(const drawing *d, const span *spans, int count, int *i, double *begin, double *end)
{
    for (; *i <= count; ++*i) {
        *end = *i ? fmax(*end, spans[*i - 1].begin + spans[*i - 1].ms) : 0;
        *begin = *i < count ? spans[*i].begin : d->length;
        if (*begin - *end > 0.02 * d->length) {
            ++*i;
            return true;
        }
    }
    return false;
}

static void write_gaps(drawing *d, const span *spans, int count, const page_marks *marks)
{
    double begin, end = 0, length = d->length;
    for (int i = 0; next_gap(d, spans, count, &i, &begin, &end);) {
        d->used[IDLE] = true;
        html_add(&d->tracks, "<i class=\"k-idle\" style=\"left:%.3f%%;width:%.3f%%;top:%dpx\">%s</i>",
                 100 * end / length, 100 * (begin - end) / length, top_of(marks, 0),
                 begin - end > 0.06 * length ? "idle" : "");
    }
}

static bool shows_gaps(const cJSON *track)
{
    return strstr(document_text(track, "name"), "compute") != NULL;
}

/* The letters of findings that bars and gaps of a track are about. */
static page_marks marks_of(const drawing *d, const cJSON *track, const span *spans, int count)
{
    page_marks m = {.count = 0};
    double     begin, end = 0;
    for (int i = 0; i < count; i++)
        page_marks_add_span(&m, d->audit, spans[i].from, spans[i].begin / d->length);
    for (int i = 0; count && shows_gaps(track) && next_gap(d, spans, count, &i, &begin, &end);)
        page_marks_add_idle(&m, d->audit, document_text(track, "device"), end / d->length);
    page_marks_place(&m);
    return m;
}

static void write_track(drawing *d, const cJSON *track)
{
    html      *h = &d->tracks;
    double     length = d->length;
    int        count;
    span      *spans = read_spans(track, length, &count);
    idle       i = idle_of(spans, spans ? count : 0, length);
    page_marks m = marks_of(d, track, spans, spans ? count : 0);
    h->failed = h->failed || !spans;
    html_put(h, "<div class=\"lane\">");
    html_name(h, document_text(track, "name"));
    html_add(h, "<small>busy %s</small></div><div class=\"track\" style=\"height:%dpx\">", say_share(i.busy / length),
             top_of(&m, 0) + 3 + 20 * rows_of(spans, spans ? count : 0));
    if (spans && count && shows_gaps(track))
        write_gaps(d, spans, count, &m);
    for (int j = 0; spans && j < count; j++)
        if (spans[j].ms >= d->least)
            write_span(d, track, &spans[j], &m);
    page_marks_write(h, &m, d->audit);
    html_put(h, "</div>\n");
    free(spans);
}

/* The shortest span that is drawn, so that there are not too many. */
static double least_drawn(const cJSON *tracks, double length, int *left_out)
{
    double least = 0;
    for (int times = 0; times < 40; times++) {
        const cJSON *track, *from;
        int          drawn = 0;
        *left_out = 0;
        cJSON_ArrayForEach(track, tracks)
        {
            cJSON_ArrayForEach(from, document_list(track, "spans"))
            {
                if (number_of(from, "ms") >= least)
                    drawn++;
                else
                    ++*left_out;
            }
        }
        if (drawn <= MOST_DRAWN)
            break;
        least = least > 0 ? 2 * least : length / 20000;
    }
    return least;
}

/* Host threads, workers, and then streams of devices; each by name. */
static int rank_of(const cJSON *track)
{
    const char *kind = document_text(track, "kind");
    return !strcmp(kind, "host") ? 0 : !strcmp(kind, "worker") ? 1 : 2;
}

static int by_rank(const void *a, const void *b)
{
    const cJSON *x = *(const cJSON *const *)a, *y = *(const cJSON *const *)b;
    return rank_of(x) != rank_of(y) ? rank_of(x) - rank_of(y)
                                    : strcmp(document_text(x, "name"), document_text(y, "name"));
}

/* Draws MOST_TRACKS of them at most; returns how many there are. */
static int write_sorted(drawing *d)
{
    const cJSON  *tracks = tracks_of(d->profile);
    const cJSON **sorted = calloc((size_t)cJSON_GetArraySize(tracks) + 1, sizeof *sorted), *track;
    int           count = 0;
    d->tracks.failed = d->tracks.failed || !sorted;
    cJSON_ArrayForEach(track, tracks)
    {
        if (sorted)
            sorted[count++] = track;
    }
    if (sorted)
        qsort(sorted, (size_t)count, sizeof *sorted, by_rank);
    for (int i = 0; i < count && i < MOST_TRACKS; i++)
        write_track(d, sorted[i]);
    free(sorted);
    return count;
}

static void write_axis(html *h, double length)
{
    const double step = axis_step(length / 6);
    html_put(h, "<div class=\"lane\"></div><div class=\"ms\">");
    for (int i = 0; i < axis_ticks(length * 0.97, step); i++)
        html_add(h, "<span style=\"left:%.2f%%\">%.4g%s</span>", 100 * (i * step / length), i * step,
                 i ? "" : "\xc2\xa0ms");
    html_put(h, "</div>\n");
}

static void write_table(html *h, const cJSON *tracks, const cJSON *audit)
{
    const cJSON *track, *from;
    int          listed = 0;
    page_folded_table(h, "the spans of the timeline", "Track|Span|Kind|Module|#Begins|#Takes|#Bytes");
    cJSON_ArrayForEach(track, tracks)
    {
        cJSON_ArrayForEach(from, document_list(track, "spans"))
        {
            if (listed++ >= MOST_LISTED)
                continue;
            html_put(h, "<tr><td>");
            html_name(h, document_text(track, "name"));
            html_put(h, "</td><td>");
            html_name(h, document_text(from, "name"));
            page_span_marks(h, audit, from);
            html_add(h, "</td><td>%s</td><td>%s</td>", document_text(from, "kind"), document_text(from, "module"));
            html_add(h, "<td class=\"n\">%.3f ms</td><td class=\"n\">%.3f ms</td>", number_of(from, "begin_ms"),
                     number_of(from, "ms"));
            page_number(h, number_of(from, "bytes") > 0 ? say_bytes(number_of(from, "bytes")) : "-");
            html_put(h, "</tr>\n");
        }
    }
    page_table_end(h);
    if (listed > MOST_LISTED)
        html_add(h, "<p class=\"note\">%s more are in trace.json.</p>", page_plural(listed - MOST_LISTED, "span"));
    html_put(h, "</details>\n");
}

/* What the colours mean that occur. */
static void write_keys(html *h, const drawing *d)
{
    html_put(h, "<ul class=\"keys\">");
    for (int i = 0; i < LOOKS; i++)
        if (d->used[i])
            html_add(h, "<li><i class=\"k-%s\"></i>%s</li>", looks[i].class_name, looks[i].words);
    html_put(h, "</ul>\n");
}

/* Where the device takes longer than the host, steps differ in what they wait for. */
static bool is_ahead(const cJSON *profile, double length)
{
    return number_of(profile, "wall_ms") / fmax(number_of(profile, "steps"), 1) > 2 * length;
}

void page_timeline(html *h, const cJSON *profile, const cJSON *audit)
{
    const cJSON *tracks = tracks_of(profile);
    drawing      d = {.profile = profile, .audit = audit, .length = length_of(profile)};
    int          left_out;
    if (!page_timeline_is_there(profile))
        return;
    d.least = least_drawn(tracks, d.length, &left_out);
    int count = write_sorted(&d);
    html_add(h, "<h3>Timeline of step %s <small>%s, the median of %s</small></h3>\n",
             say_count(number_of(cJSON_GetObjectItemCaseSensitive(profile, "timeline"), "step")), say_ms(d.length),
             page_plural(number_of(profile, "steps"), "step"));
    if (is_ahead(profile, d.length))
        html_put(h, "<p class=\"note\">The mean is far above it: the host runs ahead of the device in most steps and "
                    "waits for it in others, or some steps compile kernels.</p>\n");
    write_keys(h, &d);
    if (strstr(d.tracks.text ? d.tracks.text : "", "class=\"mark\""))
        html_put(h, "<p class=\"note\">Letters are <a href=\"#audit\">findings of the audit</a>.</p>\n");
    html_put(h, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Timeline of the median step\"><div "
                "class=\"lanes\">\n");
    h->failed = h->failed || d.tracks.failed;
    if (d.tracks.text)
        html_put(h, d.tracks.text);
    html_free(&d.tracks);
    write_axis(h, d.length);
    html_put(h, "</div></div>\n");
    if (left_out)
        html_add(h, "<p class=\"note\">%s shorter than %.4f ms are not drawn.</p>", page_plural(left_out, "span"),
                 d.least);
    if (count > MOST_TRACKS)
        html_add(h, "<p class=\"note\">%s more are in trace.json.</p>", page_plural(count - MOST_TRACKS, "track"));
    write_table(h, tracks, audit);
}
