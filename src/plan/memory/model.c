#include "plan/memory/model.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"

static const char OPERATION[] = "haul_fit";

haul_status haul__memory_model_new(haul__memory_model *m, int operations, int tensors, int segments, int reads)
{
    HAUL__ASSERT(operations >= 0 && tensors >= 0 && segments >= 0 && reads >= 0);
    *m = (haul__memory_model){.operation_count = operations,
                              .time = haul__calloc((size_t)operations + 1, sizeof *m->time),
                              .fixed = haul__calloc((size_t)operations + 1, sizeof *m->fixed),
                              .own = haul__calloc((size_t)operations + 1, sizeof *m->own),
                              .tensors = haul__calloc((size_t)tensors + 1, sizeof *m->tensors),
                              .segments = haul__calloc((size_t)segments + 1, sizeof *m->segments),
                              .reads = haul__calloc((size_t)reads + 1, sizeof *m->reads),
                              .tensor_count = tensors,
                              .segment_count = segments,
                              .read_count = reads};
    if (m->time && m->fixed && m->own && m->tensors && m->segments && m->reads)
        return HAUL_OK;
    haul__memory_model_free(m);
    return haul__fail_memory(OPERATION, ((size_t)operations + 1) * sizeof *m->time);
}

void haul__memory_model_free(haul__memory_model *m)
{
    haul__free(m->time);
    haul__free(m->fixed);
    haul__free(m->own);
    haul__free(m->tensors);
    haul__free(m->segments);
    haul__free(m->reads);
    *m = (haul__memory_model){0};
}

int64_t haul__memory_time(const haul__memory_model *m)
{
    int64_t sum = 0;
    for (int i = 0; i < m->operation_count; i++)
        sum += m->time[i];
    return sum;
}

/* ---- checking ---- */

static bool add(int64_t *sum, int64_t number)
{
    if (number < 0 || number > HAUL__MEMORY_MOST - *sum)
        return false;
    *sum += number;
    return true;
}

static bool tensor_is_valid(const haul__memory_model *m, const haul__memory_tensor *t)
{
    const bool has_gap = t->leave >= -1 && t->leave <= t->until && (t->back < 0 || t->leave < t->back);
    return t->from >= 0 && t->from <= t->until && t->until < m->operation_count && has_gap && t->back <= t->until &&
           t->segment >= -1 && t->segment < m->segment_count &&
           (t->segment < 0 || (t->from >= m->segments[t->segment].first && t->from <= m->segments[t->segment].last &&
                               t->drop >= t->from && t->drop < m->operation_count));
}

static bool segment_is_valid(const haul__memory_model *m, const haul__memory_segment *s)
{
    bool valid = s->first >= 0 && s->first <= s->last && s->last < s->back && s->back < m->operation_count &&
                 s->around >= 0 && s->read >= 0 && s->read_count >= 0 && s->read_count <= m->read_count - s->read;
    for (int i = 0; valid && i < s->read_count; i++)
        valid = m->reads[s->read + i] >= 0 && m->reads[s->read + i] < m->tensor_count;
    return valid;
}

haul_status haul__memory_model_check(const haul__memory_model *m)
{
    int64_t ps = 0, bytes = 0, most = 0;
    bool    valid = m->limit >= 0;
    for (int i = 0; valid && i < m->operation_count; i++) {
        int64_t one = 0; /* operations are not resident together */
        valid = add(&ps, m->time[i]) && add(&ps, m->time[i]) && add(&one, m->fixed[i]) && m->own[i] >= 0;
        most = larger(most, one);
    }
    for (int i = 0; valid && i < m->segment_count; i++)
        valid = segment_is_valid(m, &m->segments[i]) && add(&bytes, m->segments[i].around);
    for (int i = 0; valid && i < m->tensor_count; i++) {
        const haul__memory_tensor *t = &m->tensors[i];
        valid = tensor_is_valid(m, t) && add(&bytes, t->bytes) && t->size >= 0 && t->size <= t->bytes &&
                add(&ps, t->out < 0 ? 0 : t->out) && add(&ps, t->in < 0 ? 0 : t->in);
    }
    return valid && add(&bytes, most)
               ? HAUL_OK
               : haul__fail(HAUL_INVALID_ARGUMENT, OPERATION, NULL,
                            "the step has times or sizes that are out of range; expected are sums below 2^53");
}

/* ---- what a choice takes ---- */

static void *take(unsigned char **at, size_t count, size_t size)
{
    void *part = *at;
    *at += round_up((int64_t)(count * size), 16);
    return part;
}

static size_t most_places(const haul__memory_model *m)
{
    size_t count = (size_t)m->operation_count;
    for (int i = 0; i < m->segment_count; i++)
        count += (size_t)(m->segments[i].last - m->segments[i].first + 1);
    return count + 1;
}

static void sort_segments(haul__memory_work *w)
{
    const haul__memory_segment *all = w->model->segments;
    for (int i = 0; i < w->model->segment_count; i++) {
        int k = i;
        for (; k > 0 && all[w->order[k - 1]].back > all[i].back; k--)
            w->order[k] = w->order[k - 1];
        w->order[k] = i;
    }
}

haul_status haul__memory_work_new(haul__memory_work *w, const haul__memory_model *m)
{
    const size_t places = most_places(m), tensors = (size_t)m->tensor_count + 1;
    const size_t operations = (size_t)m->operation_count + 1, segments = (size_t)m->segment_count + 1;
    const size_t bytes = 16 * 20 + sizeof(int) * (operations + 2 * segments + 3 * places + 7 * tensors) +
                         sizeof(int64_t) * (2 * places + tensors);
    unsigned char *at = haul__malloc(bytes);
    *w = (haul__memory_work){.model = m, .memory = at};
    if (!at)
        return haul__fail_memory(OPERATION, bytes);
    w->at = take(&at, operations, sizeof(int));
    w->replay = take(&at, segments, sizeof(int));
    w->operation = take(&at, places, sizeof(int));
    w->time = take(&at, places, sizeof(int64_t));
    w->need = take(&at, places, sizeof(int64_t));
    w->leaving = take(&at, places, sizeof(int));
    w->coming = take(&at, places, sizeof(int));
    w->next_leaving = take(&at, tensors, sizeof(int));
    w->next_coming = take(&at, tensors, sizeof(int));
    w->gone = take(&at, tensors, sizeof(int));
    w->used = take(&at, tensors, sizeof(int));
    w->queue = take(&at, tensors, sizeof(int));
    w->out = take(&at, tensors, sizeof(int));
    w->issued = take(&at, tensors, sizeof(int));
    w->order = take(&at, segments, sizeof(int));
    w->ready = take(&at, tensors, sizeof(int64_t));
    HAUL__ASSERT(at <= (unsigned char *)w->memory + bytes);
    sort_segments(w);
    return HAUL_OK;
}

void haul__memory_work_free(haul__memory_work *w)
{
    haul__free(w->memory);
    *w = (haul__memory_work){0};
}

static void add_place(haul__memory_work *w, int operation, int k, int64_t need)
{
    const int place = w->place_count++;
    HAUL__ASSERT((size_t)place < most_places(w->model) && need >= 0);
    w->operation[place] = operation;
    w->time[place] = w->model->time[k];
    w->need[place] = need;
    w->leaving[place] = w->coming[place] = -1;
}

static void add_replay(haul__memory_work *w, const haul__memory_choice *c, int s)
{
    const haul__memory_segment *segment = &w->model->segments[s];
    w->replay[s] = c->again[s] ? w->place_count : -1;
    for (int k = segment->first; c->again[s] && k <= segment->last; k++)
        add_place(w, segment->back, k, segment->around + w->model->own[k]);
}

/* The order in which operations run: segments before the operations that need them again. */
static void order_places(haul__memory_work *w, const haul__memory_choice *c)
{
    const haul__memory_model *m = w->model;
    int                       next = 0;
    w->place_count = 0;
    for (int i = 0; i < m->operation_count; i++) {
        for (; next < m->segment_count && m->segments[w->order[next]].back == i; next++)
            add_replay(w, c, w->order[next]);
        w->at[i] = w->place_count;
        add_place(w, i, i, m->fixed[i]);
    }
    HAUL__ASSERT(next == m->segment_count);
}

static int replay_end(const haul__memory_work *w, int s)
{
    return w->replay[s] + w->model->segments[s].last - w->model->segments[s].first;
}

/* Moves `gone` and `used` of the tensors that segments read when they run again. */
static void see_readers(haul__memory_work *w, const haul__memory_choice *c)
{
    const haul__memory_model *m = w->model;
    for (int s = 0; s < m->segment_count; s++)
        for (int i = 0; c->again[s] && i < m->segments[s].read_count; i++) {
            const int t = m->reads[m->segments[s].read + i];
            HAUL__ASSERT(w->replay[s] >= 0 && t < m->tensor_count);
            if (w->replay[s] > w->at[larger(m->tensors[t].leave, 0)])
                w->used[t] = w->used[t] < 0 ? w->replay[s] : (int)smaller(w->used[t], w->replay[s]);
            w->gone[t] = (int)larger(w->gone[t], replay_end(w, s));
        }
}

static void hold(haul__memory_work *w, int from, int until, int64_t bytes)
{
    HAUL__ASSERT(from > until || (from >= 0 && until < w->place_count));
    for (int i = from; i <= until; i++)
        w->need[i] += bytes;
}

/* The tensor is away between its last use and the next one at `used`, if these are in the life that ends at `until`. */
static void spill(haul__memory_work *w, int t, int until)
{
    const haul__memory_tensor *x = &w->model->tensors[t];
    const int                  leave = x->leave < 0 ? -1 : w->at[x->leave];
    const int                  used = w->used[t];
    w->used[t] = -1;
    if (x->in < 0 || used < 0 || used > until || used <= leave + 1)
        return;
    w->gone[t] = leave;
    w->used[t] = used;
    hold(w, leave + 1, used - 1, -x->bytes);
    if (leave >= 0) {
        w->next_leaving[t] = w->leaving[leave];
        w->leaving[leave] = t;
    }
    w->next_coming[t] = w->coming[used];
    w->coming[used] = t;
}

static void place_tensor(haul__memory_work *w, const haul__memory_choice *c, int t)
{
    const haul__memory_tensor *x = &w->model->tensors[t];
    const bool                 again = x->segment >= 0 && c->again[x->segment];
    const int                  until = (int)larger(w->at[again ? x->drop : x->until], w->gone[t]);
    HAUL__ASSERT(w->at[x->from] <= until);
    hold(w, w->at[x->from], until, x->bytes);
    if (c->spilled[t])
        spill(w, t, until);
    else
        w->used[t] = -1;
    if (!again)
        return;
    const haul__memory_segment *s = &w->model->segments[x->segment];
    const int                   end = x->until >= s->back ? w->at[x->until] : replay_end(w, x->segment);
    const int                   from = w->replay[x->segment] + x->from - s->first;
    hold(w, (int)larger(from, until + 1), end, x->bytes);
}

static void place_tensors(haul__memory_work *w, const haul__memory_choice *c)
{
    const haul__memory_model *m = w->model;
    for (int t = 0; t < m->tensor_count; t++) {
        w->used[t] = m->tensors[t].back < 0 ? -1 : w->at[m->tensors[t].back];
        w->gone[t] = -1;
        w->issued[t] = -1;
    }
    see_readers(w, c);
    for (int t = 0; t < m->tensor_count; t++)
        place_tensor(w, c, t);
}

/* ---- the run ---- */

/* The device, the two queues of copies, and the blocks whose copies to the host are under way. */
typedef struct running {
    haul__memory_work *w;
    int64_t            limit, now, out_free, in_free;
    int64_t            under_way;            /* bytes */
    int                out_first, out_count; /* in w->out */
    int                in_first, in_count;   /* in w->queue */
    int                earliest; /* the place from which on there is memory for the next one; -1: not known */
} running;

static const haul__memory_tensor *tensor_at(const running *r, int t)
{
    return &r->w->model->tensors[t];
}

static void go_out(running *r, int t)
{
    const haul__memory_tensor *x = tensor_at(r, t);
    HAUL__ASSERT(x->out >= 0 && r->w->used[t] >= 0);
    r->out_free = larger(r->now, r->out_free) + x->out;
    r->w->ready[t] = r->out_free;
    if (!r->w->model->overlaps) {
        r->now = r->out_free;
        return;
    }
    r->w->out[r->out_count++] = t;
    r->under_way += x->bytes;
}

static void end_copies(running *r)
{
    while (r->out_first < r->out_count && r->w->ready[r->w->out[r->out_first]] <= r->now)
        r->under_way -= tensor_at(r, r->w->out[r->out_first++])->bytes;
    HAUL__ASSERT(r->under_way >= 0 && (r->under_way == 0 || r->out_first < r->out_count));
}

/* Waits until copies have freed the memory that the place needs. */
static void wait_for_memory(running *r, int place, int64_t more)
{
    end_copies(r);
    while (r->out_first < r->out_count && r->w->need[place] + more + r->under_way > r->limit) {
        r->now = larger(r->now, r->w->ready[r->w->out[r->out_first]]);
        end_copies(r);
    }
}

static void come_back(running *r, int t, int place)
{
    const haul__memory_tensor *x = tensor_at(r, t);
    HAUL__ASSERT(t == r->w->queue[r->in_first] && r->w->used[t] >= place && x->in >= 0);
    r->in_free = larger(larger(r->now, r->in_free), r->w->ready[t]) + x->in;
    r->w->ready[t] = r->in_free;
    r->w->issued[t] = r->w->operation[place];
    hold(r->w, place, r->w->used[t] - 1, x->bytes);
    r->in_first++;
    r->earliest = -1;
}

/* The place from which on there is memory for the tensor until it is used. */
static int earliest_of(const running *r, int t)
{
    const haul__memory_work *w = r->w;
    int                      place = w->used[t];
    while (place > w->gone[t] + 1 && w->need[place - 1] + tensor_at(r, t)->bytes <= r->limit)
        place--;
    HAUL__ASSERT(w->gone[t] < place && place <= w->used[t]);
    return place;
}

/* Those that are used here come now, and those after them in so far as there is memory. */
static void bring_back(running *r, int place)
{
    const haul__memory_work *w = r->w;
    while (r->in_first < r->in_count) {
        const int t = w->queue[r->in_first];
        if (w->used[t] > place && !w->model->overlaps)
            return;
        if (w->used[t] > place) {
            r->earliest = r->earliest < 0 ? earliest_of(r, t) : r->earliest;
            if (place < r->earliest || w->need[place] + tensor_at(r, t)->bytes + r->under_way > r->limit)
                return;
        }
        come_back(r, t, place);
    }
}

static void run_place(running *r, int place)
{
    const haul__memory_work *w = r->w;
    wait_for_memory(r, place, 0);
    bring_back(r, place);
    for (int t = w->coming[place]; t >= 0; t = w->next_coming[t])
        r->now = larger(r->now, w->ready[t]);
    end_copies(r);
    HAUL__ASSERT(w->time[place] >= 0);
    r->now += w->time[place];
    for (int t = w->leaving[place]; t >= 0; t = w->next_leaving[t])
        go_out(r, t);
}

/* In the order of their uses, the tensors that come back. */
static int find_queue(haul__memory_work *w)
{
    int count = 0;
    for (int i = 0; i < w->place_count; i++)
        for (int t = w->coming[i]; t >= 0; t = w->next_coming[t])
            w->queue[count++] = t;
    HAUL__ASSERT(count <= w->model->tensor_count);
    return count;
}

static haul__memory_figures measure(const haul__memory_work *w)
{
    haul__memory_figures f = {.peak = -1};
    for (int i = 0; i < w->place_count; i++) {
        f.excess += haul__ceil_div(w->need[i] - w->model->limit, 1024);
        if (w->need[i] > f.peak) {
            f.peak = w->need[i];
            f.peak_at = w->operation[i];
        }
    }
    f.peak = larger(f.peak, 0);
    f.over = larger(0, f.peak - w->model->limit);
    return f;
}

haul__memory_figures haul__memory_try(haul__memory_work *w, const haul__memory_choice *c)
{
    const haul__memory_model *m = w->model;
    order_places(w, c);
    place_tensors(w, c);
    haul__memory_figures f = measure(w);
    running              r = {.w = w, .limit = m->limit, .earliest = -1};
    r.in_count = find_queue(w);
    for (int t = 0; t < m->tensor_count; t++) {
        f.moved += w->used[t] >= 0 ? m->tensors[t].size : 0;
        if (w->used[t] >= 0 && w->gone[t] < 0)
            go_out(&r, t);
    }
    for (int i = 0; i < w->place_count; i++)
        run_place(&r, i);
    HAUL__ASSERT(r.in_first == r.in_count); /* each tensor that left came back */
    f.ps = r.now;
    HAUL__ASSERT(f.ps >= haul__memory_time(m) && f.moved >= 0);
    return f;
}
