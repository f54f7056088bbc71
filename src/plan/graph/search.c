#include "plan/graph/search.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/splitmix.h"
#include "core/error.h"
#include "plan/graph/dual.h"
#include "plan/graph/expand.h"

enum {
    ROUNDS = 150,
    MOST_GROUPS = 2000, /* with more, placements that do not fit are not repaired */
    STARTS = 24
};
static const int64_t STEPS = 150000000; /* tensors and users that are looked at */
static const int64_t CUT_STEPS = 40;    /* a cut looks at each so often */

typedef struct search {
    const haul__place_graph *g;
    uint8_t                 *best, *now, *trial;
    int64_t                 *scratch;
    bool                     found;
    int64_t                  cost;    /* of the best */
    int64_t                  steps;   /* that are left */
    int64_t                  highest; /* bound; on more than two devices, cost without what the prices add */
    haul__place_proof       *proof;   /* with the highest bound */
    haul__place_proof        next;    /* with the prices of the next cut */
    double                   price[HAUL__PLACE_PRICES];
} search;

/* The bytes above the limits. */
static int64_t excess_of(search *s, const uint8_t *place, haul__place_peak *peaks)
{
    const haul__place_graph *g = s->g;
    int64_t                  sum = 0;
    s->steps -= (int64_t)(g->tensor_count + g->user_count + g->operation_count);
    haul__place_peaks(g, place, s->scratch, peaks);
    for (int d = 0; d < g->device_count; d++)
        sum += g->limit[d] ? larger(0, peaks[d].bytes - g->limit[d]) : 0;
    return sum;
}

static bool fits(search *s, const uint8_t *place)
{
    haul__place_peak peaks[HAUL__PLACE_DEVICES];
    return excess_of(s, place, peaks) == 0;
}

static bool can_move(const search *s, const uint8_t *place, size_t group, int device)
{
    return place[group] != device && haul__place_allows(s->g, (int)group, device);
}

/* ---- repair ---- */

typedef struct move {
    int     group; /* -1: none */
    uint8_t device;
} move;

/* Moves the group; the move back. */
static move make_move(uint8_t *place, move m)
{
    HAUL__ASSERT(m.group >= 0);
    const move back = {m.group, place[m.group]};
    place[m.group] = m.device;
    return back;
}

/* The move of one group that takes most excess away for its cost. */
static move best_move(search *s, uint8_t *place, int64_t excess)
{
    haul__place_peak peaks[HAUL__PLACE_DEVICES];
    double           least = 0;
    move             best = {.group = -1};
    for (size_t i = 0; i < s->g->group_count * (size_t)s->g->device_count && s->steps > 0; i++) {
        const move m = {(int)(i / (size_t)s->g->device_count), (uint8_t)(i % (size_t)s->g->device_count)};
        if (!can_move(s, place, (size_t)m.group, m.device))
            continue;
        const int64_t change = haul__place_change(s->g, place, m.group, m.device);
        const move    back = make_move(place, m);
        const int64_t left = excess_of(s, place, peaks);
        make_move(place, back);
        const double ratio = left < excess ? ((double)change + 1) / (double)(excess - left) : 0;
        if (left < excess && (best.group < 0 || ratio < least)) {
            best = m;
            least = ratio;
        }
    }
    HAUL__ASSERT(best.group < 0 || can_move(s, place, (size_t)best.group, best.device));
    return best;
}

/* The two groups move if that lowers the excess. */
static bool move_pair(search *s, uint8_t *place, move a, move b, int64_t excess)
{
    haul__place_peak peaks[HAUL__PLACE_DEVICES];
    if (!can_move(s, place, (size_t)a.group, a.device) || !can_move(s, place, (size_t)b.group, b.device))
        return false;
    const move back_a = make_move(place, a), back_b = make_move(place, b);
    if (excess_of(s, place, peaks) < excess)
        return true;
    make_move(place, back_a);
    make_move(place, back_b);
    return false;
}

/* Two groups that move together, where no single one helps. */
static bool move_some_pair(search *s, uint8_t *place, int64_t excess)
{
    const size_t n = s->g->group_count;
    const int    devices = s->g->device_count;
    for (size_t k = 0; haul__place_is_small(s->g) && k < n; k++)
        for (size_t j = 0; j < k; j++)
            for (int i = 0; i < devices * devices; i++)
                if (move_pair(s, place, (move){(int)k, (uint8_t)(i / devices)}, (move){(int)j, (uint8_t)(i % devices)},
                              excess))
                    return true;
    return false;
}

/* Moves groups until the placement fits. False if that does not work. */
static bool repair(search *s, uint8_t *place)
{
    haul__place_peak peaks[HAUL__PLACE_DEVICES];
    int64_t          excess = excess_of(s, place, peaks);
    if (excess && s->g->group_count > MOST_GROUPS)
        return false;
    HAUL__ASSERT(excess >= 0);
    while (excess && s->steps > 0) {
        const move m = best_move(s, place, excess);
        if (m.group >= 0)
            make_move(place, m);
        else if (!move_some_pair(s, place, excess))
            return false;
        excess = excess_of(s, place, peaks);
    }
    return !excess;
}

/* ---- descent ---- */

/* Moves a group, or two, if that is cheaper and fits. */
static bool try_moves(search *s, uint8_t *place, move a, const move *b)
{
    if (!can_move(s, place, (size_t)a.group, a.device) || (b && !can_move(s, place, (size_t)b->group, b->device)))
        return false;
    int64_t    change = haul__place_change(s->g, place, a.group, a.device);
    const move back_a = make_move(place, a);
    move       back_b = {.group = -1};
    if (b) {
        change += haul__place_change(s->g, place, b->group, b->device);
        back_b = make_move(place, *b);
    }
    if (change < 0 && fits(s, place))
        return true;
    make_move(place, back_a);
    if (b)
        make_move(place, back_b);
    return false;
}

/* The group alone, then with each one after it. */
static bool descend_from(search *s, uint8_t *place, size_t k, bool pairs)
{
    const int devices = s->g->device_count;
    bool      better = false;
    for (int d = 0; d < devices; d++)
        better = try_moves(s, place, (move){(int)k, (uint8_t)d}, NULL) || better;
    for (size_t j = k + 1; pairs && j < s->g->group_count; j++)
        for (int i = 0; i < devices * devices; i++) {
            const move other = {(int)j, (uint8_t)(i % devices)};
            better = try_moves(s, place, (move){(int)k, (uint8_t)(i / devices)}, &other) || better;
        }
    return better;
}

static void descend(search *s, uint8_t *place)
{
    for (bool better = true; better && s->steps > 0;) {
        better = false;
        for (size_t k = 0; k < s->g->group_count && s->steps > 0; k++)
            better = descend_from(s, place, k, haul__place_is_small(s->g)) || better;
    }
}

/* ---- candidates ---- */

static void keep_if_best(search *s, uint8_t *place)
{
    const int64_t cost = haul__place_cost(s->g, place);
    HAUL__ASSERT(cost >= s->proof->bound); /* nothing that fits costs less */
    if (s->found && cost >= s->cost)
        return;
    s->found = true;
    s->cost = cost;
    memcpy(s->best, place, s->g->group_count);
}

/* A placement that may not fit, made to fit and made cheaper. */
static void try_placement(search *s, const uint8_t *place)
{
    memcpy(s->trial, place, s->g->group_count);
    if (!repair(s, s->trial))
        return;
    descend(s, s->trial);
    keep_if_best(s, s->trial);
}

static bool is_done(const search *s)
{
    return (s->found && s->proof->bound >= s->cost) || s->proof->bound > s->g->most;
}

/* ---- prices ---- */

static void add_moment(haul__place_proof *p, int device, int moment)
{
    int i = 0;
    while (i < p->price_count && (p->prices[i].device != device || p->prices[i].moment != moment))
        i++;
    if (i == p->price_count && i < HAUL__PLACE_PRICES)
        p->prices[p->price_count++] = (haul__place_price){device, moment, 0};
}

/* Prices the moments at which the placement is above the limits. */
static void add_prices(search *s)
{
    haul__place_peak peaks[HAUL__PLACE_DEVICES];
    excess_of(s, s->now, peaks);
    for (int d = 0; d < s->g->device_count; d++)
        if (s->g->limit[d] && peaks[d].bytes > s->g->limit[d])
            add_moment(&s->next, d, peaks[d].moment);
}

/* The highest price: no bound overflows with it. */
static double most_price(const search *s)
{
    int64_t kib = 1;
    for (size_t t = 0; t < s->g->tensor_count; t++)
        kib += haul__place_kib(larger(s->g->tensors[t].bytes, s->g->tensors[t].home_bytes));
    for (int d = 0; d < s->g->device_count; d++)
        kib = larger(kib, haul__place_limit_kib(s->g->limit[d]));
    return (double)(HAUL__PLACE_MOST / HAUL__PLACE_PRICES / kib);
}

/* A step of the subgradient method towards a bound that is `hope` above the best one. */
static void step_prices(search *s, double short_of, double most)
{
    double over[HAUL__PLACE_PRICES], square = 0;
    for (int i = 0; i < s->next.price_count; i++) {
        const haul__place_price *p = &s->next.prices[i];
        over[i] = (double)(haul__place_priced_kib(s->g, p, s->now) - haul__place_limit_kib(s->g->limit[p->device]));
        square += s->price[i] > 0 || over[i] > 0 ? over[i] * over[i] : 0;
    }
    for (int i = 0; square > 0 && i < s->next.price_count; i++)
        s->price[i] = fmin(most, fmax(0, s->price[i] + short_of * over[i] / square));
}

/* On more than two devices: from the best placement, by moves. It proves nothing; without what the prices add the cost
 * is still about as high as a bound would be. */
static haul_status expand(search *s)
{
    memcpy(s->now, s->best, s->g->group_count); /* the cheapest one without limits until one is found that fits */
    s->steps -= 3 * s->g->device_count * CUT_STEPS * (int64_t)(s->g->tensor_count + s->g->user_count);
    const haul_status status = haul__place_expand_all(s->g, &s->next, s->now);
    s->next.bound = status ? 0 : haul__place_priced_cost(s->g, &s->next, s->now);
    for (int i = 0; i < s->next.price_count; i++)
        s->next.bound -= s->next.prices[i].price * haul__place_limit_kib(s->g->limit[s->next.prices[i].device]);
    return status;
}

/* The cheapest placement with the prices, multiplied by a factor. */
static haul_status cut(search *s, double factor, double most)
{
    for (int i = 0; i < s->next.price_count; i++)
        s->next.prices[i].price = (int64_t)fmin(most, s->price[i] * factor + 0.5);
    s->steps -= CUT_STEPS * (int64_t)(s->g->tensor_count + s->g->user_count);
    return s->g->device_count == 2 ? haul__place_cut(s->g, s->now, &s->next) : expand(s);
}

/* Prices of 0, of which no share is a part, are left out. */
static void copy_proof(haul__place_proof *out, const haul__place_proof *from)
{
    int number[HAUL__PLACE_PRICES] = {0};
    HAUL__ASSERT(from->share_count <= out->share_room);
    out->price_count = 0;
    for (int i = 0; i < from->price_count; i++) {
        number[i] = out->price_count;
        if (from->prices[i].price)
            out->prices[out->price_count++] = from->prices[i];
    }
    for (size_t i = 0; i < from->share_count; i++) {
        out->shares[i] = from->shares[i];
        out->shares[i].price = from->shares[i].price < 0 ? -1 : number[from->shares[i].price];
        HAUL__ASSERT(out->shares[i].price < out->price_count);
    }
    out->share_count = from->share_count;
    out->bound = from->bound;
}

static haul_status keep_proof(search *s)
{
    haul__place_proof *p = s->proof;
    if (s->g->device_count > 2 || s->next.bound <= p->bound)
        return HAUL_OK;
    if (!haul__grow(&p->shares, &p->share_room, s->next.share_count + 1, sizeof *p->shares))
        return haul__fail_memory("haul plan", s->next.share_count * sizeof *p->shares);
    copy_proof(p, &s->next);
    return HAUL_OK;
}

static haul_status raise_prices(search *s, double most)
{
    double      hope = 0.05 * (double)s->proof->bound;
    haul_status status = cut(s, 1, most);
    for (int round = 0; !status && round < ROUNDS && s->steps > 0 && !is_done(s); round++) {
        hope *= s->next.bound > s->highest ? 1.3 : 0.85;
        s->highest = larger(s->highest, s->next.bound);
        status = keep_proof(s);
        if (haul__place_is_small(s->g) || round % 20 == 0 || fits(s, s->now))
            try_placement(s, s->now);
        add_prices(s);
        step_prices(s, (double)(s->highest - s->next.bound) + hope + 1, most);
        if (!status)
            status = cut(s, 1, most);
    }
    return status;
}

/* Higher prices make placements that fit, if dearer ones. */
static haul_status scale_prices(search *s, double most)
{
    haul_status status = HAUL_OK;
    if (s->g->device_count == 2) {
        s->next.price_count = s->proof->price_count;
        memcpy(s->next.prices, s->proof->prices, sizeof s->next.prices);
    }
    for (int i = 0; i < s->next.price_count; i++)
        s->price[i] = (double)s->next.prices[i].price;
    for (double factor = 1.01; !status && s->next.price_count && factor < 20 && s->steps > 0 && !is_done(s);
         factor *= 1.08) {
        status = cut(s, factor, most);
        if (!status && (haul__place_is_small(s->g) || fits(s, s->now)))
            try_placement(s, s->now);
    }
    return status;
}

/* ---- the whole ---- */

static void try_random(search *s)
{
    uint64_t state = 1;
    for (int start = 0; start < STARTS && haul__place_is_small(s->g) && !is_done(s); start++) {
        for (size_t k = 0; k < s->g->group_count; k++) {
            const int device = (int)(haul__splitmix_draw(&state) % (uint64_t)s->g->device_count);
            s->now[k] = (uint8_t)haul__place_allowed(s->g, (int)k, device);
        }
        try_placement(s, s->now);
    }
}

static haul_status run(search *s)
{
    const double most = most_price(s);
    if (s->found)
        try_placement(s, s->best);
    haul_status status = raise_prices(s, most);
    if (!status)
        status = scale_prices(s, most);
    if (!status)
        try_random(s);
    return status;
}

/* More moments at the same distance from each other, as far as there is room for them. */
static void add_moments(const search *s, haul__place_proof *p)
{
    const int n = s->g->device_count, each = (HAUL__PLACE_PRICES - p->price_count) / n;
    const int count = (int)s->g->operation_count, moments = each < count ? each : count;
    for (int d = 0; d < n; d++)
        for (int i = 0; i < moments && s->g->limit[d]; i++)
            add_moment(p, d, (int)((int64_t)i * count / moments));
}

/* On more than two devices: a bound with limits at the moments that have prices, towards the best placement. If none
 * was found, a bound above all costs proves that none fits. */
static haul_status bound_many(search *s)
{
    haul__place_proof limited = {.price_count = s->next.price_count};
    const int64_t     most = s->g->most;
    memcpy(limited.prices, s->next.prices, sizeof limited.prices);
    add_moments(s, &limited);
    const haul_status status = haul__place_bound(s->g, s->found ? s->cost : most + most / 4 + 1, s->now, &limited);
    HAUL__ASSERT(status || !s->found || limited.bound <= s->cost);
    if (!status && limited.bound > s->proof->bound) {
        const haul__place_proof before = *s->proof;
        *s->proof = limited;
        limited = before;
    }
    haul__place_proof_free(&limited);
    return status;
}

haul_status haul__place_search(const haul__place_graph *g, uint8_t *place, bool *found, haul__place_proof *proof)
{
    const size_t n = g->group_count + 1, moments = (size_t)g->device_count * (g->operation_count + 1);
    search       s = {.g = g,
                      .best = place,
                      .now = haul__calloc(2 * n, 1),
                      .scratch = haul__calloc(moments, sizeof *s.scratch),
                      .found = *found,
                      .cost = *found ? haul__place_cost(g, place) : 0,
                      .steps = STEPS,
                      .highest = proof->bound,
                      .proof = proof};
    haul_status  status = s.now && s.scratch ? HAUL_OK : haul__fail_memory("haul plan", moments * sizeof *s.scratch);
    if (!status) {
        s.trial = s.now + n;
        status = run(&s);
    }
    if (!status && g->device_count > 2 && !is_done(&s))
        status = bound_many(&s);
    HAUL__ASSERT(!s.found || s.cost == haul__place_cost(g, place));
    *found = s.found;
    haul__free(s.now);
    haul__free(s.scratch);
    haul__place_proof_free(&s.next);
    return status;
}
