#include "plan/graph/dual.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"

static const int64_t MOST_ROUNDS = 600, STEPS = 300000000; /* users and tensors on each device that are looked at */

/* Arrays with a number for each user, tensor or group on each device. */
typedef struct dual {
    const haul__place_graph *g;
    double                  *share, *slope, *best; /* of users */
    double                  *paid;                 /* of tensors: the sums of their users' shares */
    double                  *own;                  /* of groups: costs and shares */
    /* What all bytes of a limit cost at a moment, in ps: now, its slope, and with the best bound. One KiB costs that
     * divided by the KiB of the limit. */
    double            *price, *price_slope, *best_price;
    double            *held; /* of each group at each price: what its tensors hold there, as a part of the limit */
    haul__place_price *moments;
    int                price_count;
    uint8_t           *now, *place; /* what groups choose; with the best shares */
    double             bound;       /* of the best shares */
} dual;

/* ---- memory ---- */

static double limit_of(const dual *d, int price)
{
    return (double)haul__place_limit_kib(d->g->limit[d->moments[price].device]);
}

static void find_held(dual *d)
{
    int64_t shared, of_maker;
    for (size_t t = 0; t < d->g->tensor_count; t++)
        for (int i = 0; i < d->price_count; i++) {
            const size_t group = (size_t)d->g->operations[d->g->tensors[t].producer].group;
            if (haul__place_counted(&d->g->tensors[t], &d->moments[i], &shared, &of_maker))
                d->held[group * (size_t)d->price_count + (size_t)i] += (double)(shared + of_maker) / limit_of(d, i);
        }
}

static void charge_memory(dual *d)
{
    for (size_t k = 0; k < d->g->group_count; k++)
        for (int i = 0; i < d->price_count; i++)
            d->own[k * (size_t)d->g->device_count + (size_t)d->moments[i].device] +=
                d->price[i] * d->held[k * (size_t)d->price_count + (size_t)i];
}

/* The slope of the bound in each price: the part of the limit by which it is exceeded. Returns the sum of squares. */
static double find_price_slopes(dual *d)
{
    double sum = 0;
    for (int i = 0; i < d->price_count; i++) {
        double over = -1;
        for (size_t k = 0; k < d->g->group_count; k++)
            over += d->now[k] == d->moments[i].device ? d->held[k * (size_t)d->price_count + (size_t)i] : 0;
        d->price_slope[i] = over < 0 && d->price[i] <= 0 ? 0 : over;
        sum += d->price_slope[i] * d->price_slope[i];
    }
    return sum;
}

/* ---- the bound of the shares ---- */

static void charge_tensor(dual *d, const haul__place_tensor *t, size_t index)
{
    const size_t n = (size_t)d->g->device_count;
    double      *paid = d->paid + index * n, *home = d->own + (size_t)d->g->operations[t->producer].group * n;
    memset(paid, 0, n * sizeof *paid);
    for (int k = t->user; k < t->user + t->user_count; k++)
        for (size_t to = 0; to < n; to++) {
            const double share = d->share[(size_t)k * n + to];
            d->own[(size_t)d->g->users[k].group * n + to] += share;
            paid[to] += share;
        }
    for (size_t to = 0; to < n; to++)
        for (size_t from = 0; from < n; from++)
            home[from] -=
                from == to ? paid[to] : fmax(0, paid[to] - (double)haul__place_copy_time(d->g, t, (int)from, (int)to));
}

static double choose(dual *d)
{
    const int n = d->g->device_count;
    double    sum = 0;
    for (size_t k = 0; k < d->g->group_count; k++) {
        const double *own = d->own + k * (size_t)n;
        int           least = haul__place_allowed(d->g, (int)k, 0);
        for (int i = 0; i < n; i++)
            if (haul__place_allows(d->g, (int)k, i) && own[i] < own[least])
                least = i;
        HAUL__ASSERT(haul__place_allows(d->g, (int)k, least));
        d->now[k] = (uint8_t)least;
        sum += own[least];
    }
    return sum;
}

static double bound_of(dual *d)
{
    const size_t n = (size_t)d->g->device_count;
    for (size_t k = 0; k < d->g->group_count; k++)
        for (size_t i = 0; i < n; i++)
            d->own[k * n + i] = (double)d->g->groups[k].cost[i];
    for (size_t t = 0; t < d->g->tensor_count; t++)
        if (d->g->tensors[t].user_count)
            charge_tensor(d, &d->g->tensors[t], t);
    charge_memory(d);
    double bound = choose(d);
    for (int i = 0; i < d->price_count; i++)
        bound -= d->price[i];
    return bound;
}

/* ---- the steps ---- */

/* How the bound grows with each share: a user that is there pays it, and the maker may get it back. Returns the sum of
 * squares. Shares of 0 do not become smaller. */
static double find_slopes(dual *d, const haul__place_tensor *t, size_t index)
{
    const size_t n = (size_t)d->g->device_count, home = d->now[d->g->operations[t->producer].group];
    HAUL__ASSERT(home < n);
    double sum = 0;
    for (size_t to = 0; to < n; to++) {
        const bool back =
            to == home || d->paid[index * n + to] > (double)haul__place_copy_time(d->g, t, (int)home, (int)to);
        for (int k = t->user; k < t->user + t->user_count; k++) {
            const size_t at = (size_t)k * n + to;
            const double slope = (double)(d->now[d->g->users[k].group] == to) - (double)back;
            d->slope[at] = slope < 0 && d->share[at] <= 0 ? 0 : slope;
            sum += d->slope[at] * d->slope[at];
        }
    }
    return sum;
}

/* A step towards a bound of `target`. False if the bound is the highest. */
static bool step(dual *d, double bound, double target)
{
    const size_t count = d->g->user_count * (size_t)d->g->device_count;
    double       square = find_price_slopes(d);
    for (size_t t = 0; t < d->g->tensor_count; t++)
        square += find_slopes(d, &d->g->tensors[t], t);
    for (size_t i = 0; square > 0 && i < count; i++)
        d->share[i] = fmax(0, d->share[i] + (target - bound) / square * d->slope[i]);
    for (int i = 0; square > 0 && i < d->price_count; i++)
        d->price[i] = fmax(0, d->price[i] + (target - bound) / square * d->price_slope[i]);
    HAUL__ASSERT(square >= 0);
    return square > 0;
}

static void keep(dual *d, double bound)
{
    d->bound = bound;
    memcpy(d->best, d->share, d->g->user_count * (size_t)d->g->device_count * sizeof *d->best);
    memcpy(d->best_price, d->price, (size_t)d->price_count * sizeof *d->price);
    memcpy(d->place, d->now, d->g->group_count);
}

static void climb(dual *d, double cost)
{
    const double work = (double)(d->g->user_count + d->g->tensor_count) * d->g->device_count +
                        (double)d->g->group_count * d->price_count;
    const double rounds = fmin((double)MOST_ROUNDS, (double)STEPS / (work + 1));
    double       part = 1; /* of the way to the cost */
    keep(d, bound_of(d));
    for (double round = 0; round < rounds && d->bound < cost - 0.5; round++) {
        const double bound = round > 0 ? bound_of(d) : d->bound;
        part *= bound > d->bound ? 1.1 : 0.97;
        if (bound > d->bound)
            keep(d, bound);
        if (!step(d, bound, d->bound + fmin(1, part) * (cost - d->bound)))
            break;
    }
}

/* ---- the proof ---- */

/* The whole part of the price of a KiB, which makers pay. */
static haul_status write_price(const dual *d, int index, haul__place_proof *proof)
{
    const haul__place_graph *g = d->g;
    haul__place_price        p = d->moments[index];
    haul_status              status = HAUL_OK;
    int64_t                  shared, of_maker;
    p.price = (int64_t)(d->best_price[index] / limit_of(d, index));
    if (p.price < 1)
        return HAUL_OK;
    HAUL__ASSERT(proof->price_count < HAUL__PLACE_PRICES && d->g->limit[p.device]);
    proof->prices[proof->price_count] = p;
    for (size_t t = 0; t < g->tensor_count && !status; t++)
        if (haul__place_counted(&g->tensors[t], &p, &shared, &of_maker))
            status = haul__place_add_share(proof, (haul__place_share){(int)t, p.device, proof->price_count,
                                                                      g->operations[g->tensors[t].producer].group,
                                                                      p.price * (shared + of_maker)});
    proof->price_count++;
    return status;
}

/* The whole part of each share. */
static haul_status write_shares(const dual *d, haul__place_proof *proof)
{
    const haul__place_graph *g = d->g;
    proof->share_count = 0;
    for (size_t t = 0; t < g->tensor_count; t++)
        for (int k = g->tensors[t].user; k < g->tensors[t].user + g->tensors[t].user_count; k++)
            for (int to = 0; to < g->device_count; to++) {
                const int64_t amount = (int64_t)d->best[(size_t)k * (size_t)g->device_count + (size_t)to];
                if (!amount)
                    continue;
                if (haul__place_add_share(proof, (haul__place_share){(int)t, to, -1, g->users[k].group, amount}))
                    return haul_error_status();
            }
    proof->price_count = 0;
    for (int i = 0; i < d->price_count; i++)
        if (write_price(d, i, proof))
            return haul_error_status();
    HAUL__ASSERT(proof->price_count <= d->price_count);
    return haul__place_prove(g, proof);
}

haul_status haul__place_bound(const haul__place_graph *g, int64_t cost, uint8_t *place, haul__place_proof *proof)
{
    const size_t      n = (size_t)g->device_count, users = g->user_count * n, tensors = g->tensor_count * n;
    const size_t      prices = (size_t)proof->price_count, held = g->group_count * prices;
    const size_t      count = 3 * users + tensors + g->group_count * n + 3 * prices + held + 1;
    double           *numbers = haul__calloc(count, sizeof *numbers);
    haul__place_price moments[HAUL__PLACE_PRICES];
    dual              d = {.g = g,
                           .share = numbers,
                           .now = haul__calloc(g->group_count + 1, 1),
                           .place = place,
                           .moments = moments,
                           .price_count = proof->price_count};
    HAUL__ASSERT(proof->price_count <= HAUL__PLACE_PRICES);
    memcpy(moments, proof->prices, sizeof moments);
    haul_status status = numbers && d.now ? HAUL_OK : haul__fail_memory("haul plan", count * sizeof *numbers);
    if (!status) {
        d.slope = d.share + users;
        d.best = d.slope + users;
        d.paid = d.best + users;
        d.own = d.paid + tensors;
        d.price = d.own + g->group_count * n;
        d.price_slope = d.price + prices;
        d.best_price = d.price_slope + prices;
        d.held = d.best_price + prices;
        find_held(&d);
        climb(&d, (double)cost);
        status = write_shares(&d, proof);
    }
    haul__free(numbers);
    haul__free(d.now);
    return status;
}
