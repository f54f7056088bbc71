/* Placement of random graphs: the plan against all placements, with and without memory limits, and certificates that
 * are checked, tampered with and checked again.
 * ctest: labels=slow */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "plan/place/certificate.h"
#include "plan/verify/verify.h"
#include "support/random.h"

/* ---- random graphs ---- */

static void use_some(haul__place_graph *g, int operation)
{
    for (int64_t k = operation ? 1 + below(3) : 0; k > 0 && g->tensor_count; k--) {
        const int64_t back = below(g->tensor_count > 40 ? 40 : (int64_t)g->tensor_count);
        assert_int_equal(haul__place_add_use(g, (int)((int64_t)g->tensor_count - 1 - back), operation), HAUL_OK);
    }
}

static void make_some(haul__place_graph *g, int operation)
{
    for (int64_t k = 1 + below(2); k > 0; k--) {
        const int64_t bytes = 1024 * (1 + below(60)), latency = below(400), rates[2] = {5 + below(40), 5 + below(40)};
        const haul__place_tensor t = {.producer = operation,
                                      .from = below(8) ? operation : 0,
                                      .until = operation,
                                      .bytes = below(8) ? bytes : bytes / 2,
                                      .home_bytes = below(10) ? bytes : 0};
        haul__place_copies       copies = {.ps = {{0}}};
        for (int to = 0; to < 2; to++)
            copies.ps[!to][to] = latency + bytes * rates[to] / 1024;
        assert_true(haul__place_add_tensor(g, &t, &copies) >= 0);
    }
}

/* Comparable times and copies, some pins and some groups. A pin of one member is a pin of its group. */
static void make_graph(haul__place_graph *g, uint64_t seed, int operations)
{
    int pinned[64];
    *g = (haul__place_graph){.device_count = 2};
    random_state = seed * 7919 + 1;
    for (int i = 0; i < operations; i++) {
        haul__place_operation o = {.name = "work", .call = i, .cost = {below(2500), below(2500)}};
        const int             with = i > 3 && below(8) == 0 ? (int)below(i) : -1;
        const int             pin = below(6) == 0 ? (int)below(2) : -1;
        snprintf(o.module, sizeof o.module, "part%d", i / 3);
        pinned[i % 64] = with >= 0 ? pinned[with % 64] : pin;
        if (operations <= 64 && pinned[i] >= 0)
            o.cost[!pinned[i]] = HAUL__PLACE_NEVER;
        assert_int_equal(haul__place_add_operation(g, &o), i);
        if (operations <= 64 && with >= 0)
            haul__place_join(g, i, with);
        use_some(g, i);
        make_some(g, i);
    }
    assert_int_equal(haul__place_finish(g), HAUL_OK);
}

/* ---- brute force ---- */

static bool fits(const haul__place_graph *g, const uint8_t *place)
{
    int64_t          scratch[2 * 65];
    haul__place_peak peaks[HAUL__PLACE_DEVICES];
    haul__place_peaks(g, place, scratch, peaks);
    return haul__place_fits(g, peaks);
}

/* The least cost of all placements that fit; INT64_MAX: there is none. */
static int64_t brute_force(const haul__place_graph *g)
{
    int64_t least = INT64_MAX;
    for (uint32_t mask = 0; mask < UINT32_C(1) << g->group_count; mask++) {
        uint8_t place[32];
        bool    allowed = true;
        for (size_t k = 0; k < g->group_count; k++) {
            place[k] = mask >> k & 1;
            allowed = allowed && haul__place_allows(g, (int)k, place[k]);
        }
        if (allowed && haul__place_cost(g, place) < least && fits(g, place))
            least = haul__place_cost(g, place);
    }
    return least;
}

/* ---- certificates ---- */

static char *certify(const haul__place_graph *g, const haul__placement *p)
{
    const haul__certificate c = {.graph = g,
                                 .placement = p,
                                 .program = "0123456789abcdef",
                                 .machine = "fedcba9876543210",
                                 .devices = (const char *const[]){"cpu", "cuda:0", "cuda:1"}};
    char                   *text = haul__certificate_text(&c);
    assert_non_null(text);
    return text;
}

/* True if the text is accepted. Otherwise *out names the fault; it has no member if the text is not JSON. */
static bool accepts(const char *text, haul__verdict *out)
{
    haul__json *json = NULL;
    size_t      used;
    *out = (haul__verdict){0};
    assert_int_equal(haul__json_read("test", (const uint8_t *)text, strlen(text), 8, &json, &used), HAUL_OK);
    const bool fine = json && haul__verify(json, out);
    haul__json_free(json);
    return fine;
}

static void check_certificate(const haul__place_graph *g, const haul__placement *p)
{
    haul__verdict verdict;
    char         *text = certify(g, p);
    if (!accepts(text, &verdict))
        fail_msg("%s[%lld]: %s\n%s", verdict.member, (long long)verdict.item, verdict.why_not, text);
    assert_int_equal(verdict.cost, p->cost);
    assert_int_equal(verdict.bound, p->proof.bound);
    haul__free(text);
}

/* ---- tests ---- */

static void test_place__equals_brute_force(void **context)
{
    (void)context;
    for (uint64_t seed = 1; seed <= (uint64_t)some_of(500); seed++) {
        haul__place_graph g;
        haul__placement   p;
        make_graph(&g, seed, 8 + (int)(seed % 9));
        assert_int_equal(haul__place_solve(&g, &p), HAUL_OK);
        assert_int_equal(p.cost, haul__place_cost(&g, p.device));
        assert_int_equal(p.cost, brute_force(&g));
        assert_int_equal(p.proof.bound, p.cost);
        check_certificate(&g, &p);
        haul__placement_free(&p);
        haul__place_free(&g);
    }
}

/* Limits between what the best placement needs and three fifths of it. */
static void limit(haul__place_graph *g, const haul__placement *free_plan)
{
    const int device = free_plan->peaks[1].bytes && below(2) ? 1 : 0;
    g->limit[device] = free_plan->peaks[device].bytes * (60 + below(40)) / 100;
    if (below(3) == 0)
        g->limit[!device] = free_plan->peaks[!device].bytes * (90 + below(40)) / 100;
}

static void check_limited(const haul__place_graph *g, int *fitting, double *gaps)
{
    haul__placement   p;
    const int64_t     least = brute_force(g);
    const haul_status status = haul__place_solve(g, &p);
    if (least == INT64_MAX) {
        assert_int_equal(status, HAUL_OUT_OF_MEMORY);
        return;
    }
    assert_int_equal(status, HAUL_OK);
    assert_true(haul__place_fits(g, p.peaks) && fits(g, p.device));
    assert_true(p.proof.bound <= least && least <= p.cost);
    if (p.cost > least + least / 20)
        fail_msg("cost %lld, least %lld", (long long)p.cost, (long long)least);
    for (int d = 0; d < 2; d++) {
        haul__placement single;
        assert_int_equal(haul__place_single(g, d, &single), HAUL_OK);
        assert_true(!haul__place_fits(g, single.peaks) || p.cost <= single.cost);
        haul__placement_free(&single);
    }
    check_certificate(g, &p);
    *fitting += 1;
    *gaps += (double)(least - p.proof.bound) / (double)least;
    haul__placement_free(&p);
}

static void test_place__keeps_limits(void **context)
{
    (void)context;
    int    fitting = 0;
    double gaps = 0;
    for (uint64_t seed = 1; seed <= (uint64_t)some_of(300); seed++) {
        haul__place_graph g;
        haul__placement   p;
        make_graph(&g, 1000 + seed, 8 + (int)(seed % 7));
        assert_int_equal(haul__place_solve(&g, &p), HAUL_OK);
        limit(&g, &p);
        haul__placement_free(&p);
        check_limited(&g, &fitting, &gaps);
        haul__place_free(&g);
    }
    assert_true(fitting >= some_of(100));
    print_message("%d limits that something fits; the optimum is %.1f %% above the bound in the mean\n", fitting,
                  100 * gaps / fitting);
}

/* ---- tampering ---- */

/* The text with a number in place of the one at `at`; to free. */
static char *with_number(const char *text, size_t at, int64_t number)
{
    const size_t length = strspn(text + at, "-0123456789");
    char        *out = haul__format("%.*s%lld%s", (int)at, text, (long long)number, text + at + length);
    assert_non_null(out);
    return out;
}

static size_t place_of(const char *text, const char *what)
{
    const char *found = strstr(text, what);
    assert_non_null(found);
    return (size_t)(found - text) + strlen(what);
}

static char *change_claim(const char *text, const char *member, int64_t change)
{
    const size_t at = place_of(text, member);
    return with_number(text, at, strtoll(text + at, NULL, 10) + change);
}

/* Another number in the shares or the prices. */
static char *change_share(const char *text)
{
    const size_t from = place_of(text, "\"shares\":["), length = strlen(text) - from;
    for (;;) {
        size_t at = from + (size_t)below((int64_t)length);
        if (!strchr("0123456789", text[at]))
            continue;
        while (strchr("0123456789", text[at - 1]))
            at--;
        return with_number(text, at, strtoll(text + at, NULL, 10) + (below(2) ? 1 + below(40) : -1 - below(3)));
    }
}

/* An operation on the other device. */
static char *move_operation(const char *text)
{
    static const char name[] = "\"device\":\"";
    const char       *at = strstr(text, "\"operations\"");
    for (int64_t skip = below(8); skip >= 0 && strstr(at, name); skip--)
        at = strstr(at, name) + strlen(name);
    const bool   host = !strncmp(at, "cpu", 3);
    const size_t before = (size_t)(at - text);
    char        *out = haul__format("%.*s%s%s", (int)before, text, host ? "cuda:0" : "cpu", at + (host ? 3 : 6));
    assert_non_null(out);
    return out;
}

static char *tamper(const char *text)
{
    switch (below(4)) {
    case 0: return change_claim(text, "\"cost_ps\":", -1 - below(500));
    case 1: return change_claim(text, "\"bound_ps\":", 1 + below(500));
    case 2: return move_operation(text);
    default: return change_share(text);
    }
}

/* The cost of the placement in a text. */
static int64_t stated_placement_cost(const haul__place_graph *g, const char *text)
{
    uint8_t     place[64];
    const char *at = strstr(text, "\"operations\"");
    for (size_t i = 0; i < g->operation_count; i++) {
        at = strstr(at, "\"device\":\"") + strlen("\"device\":\"");
        place[g->operations[i].group] = strncmp(at, "cpu", 3) != 0;
    }
    return haul__place_cost(g, place);
}

/* A change of a share that still proves a bound is accepted: then cost and bound are true. */
static void check_tampered(const haul__place_graph *g, const char *text, int64_t least, int *accepted)
{
    haul__verdict verdict;
    char         *other = tamper(text);
    if (accepts(other, &verdict)) {
        assert_int_equal(verdict.cost, stated_placement_cost(g, other));
        assert_true(verdict.bound <= least);
        *accepted += 1;
    } else {
        assert_non_null(verdict.member);
        assert_non_null(verdict.why_not);
    }
    haul__free(other);
}

static void test_place__refuses_false_certificates(void **context)
{
    (void)context;
    int accepted = 0;
    for (uint64_t seed = 1; seed <= (uint64_t)some_of(100); seed++) {
        haul__place_graph g;
        haul__placement   p;
        make_graph(&g, 3000 + seed, 8 + (int)(seed % 5));
        assert_int_equal(haul__place_solve(&g, &p), HAUL_OK);
        if (seed % 2) {
            limit(&g, &p);
            haul__placement_free(&p);
            if (haul__place_solve(&g, &p)) {
                haul__place_free(&g);
                continue;
            }
        }
        char         *text = certify(&g, &p);
        const int64_t least = brute_force(&g);
        for (int i = 0; i < 20; i++)
            check_tampered(&g, text, least, &accepted);
        haul__free(text);
        haul__placement_free(&p);
        haul__place_free(&g);
    }
    assert_true(accepted < some_of(100));
}

/* ---- forgery: claims that fit shares and placements that are not allowed ---- */

/* Changes a share, or adds one. */
static void forge_share(const haul__place_graph *g, haul__place_proof *p)
{
    haul__place_share *s;
    assert_true(haul__grow(&p->shares, &p->share_room, p->share_count + 1, sizeof *p->shares));
    if (!p->share_count || below(3) == 0)
        p->shares[p->share_count++] = (haul__place_share){.price = -1, .amount = 1 + below(2000)};
    s = &p->shares[p->share_count - 1 - (size_t)below((int64_t)p->share_count)];
    switch (below(5)) {
    case 0: s->group = (int)below((int64_t)g->group_count); break;
    case 1: s->tensor = (int)below((int64_t)g->tensor_count); break;
    case 2: s->device = !s->device; break;
    case 3: s->price = (int)below(p->price_count + 1) - 1; break;
    default: s->amount += 1 + below(20000);
    }
}

/* Charges groups for memory, whether or not it is resident at that moment or on that device. */
static void forge_memory(const haul__place_graph *g, haul__place_proof *p)
{
    for (int64_t k = p->price_count ? 1 + below(4) : 0; k > 0; k--) {
        const int                 tensor = (int)below((int64_t)g->tensor_count), price = (int)below(p->price_count);
        const haul__place_tensor *t = &g->tensors[tensor];
        const int64_t             kib = haul__place_kib(t->bytes < t->home_bytes ? t->bytes : t->home_bytes);
        const int                 device = below(4) ? p->prices[price].device : !p->prices[price].device;
        assert_true(haul__grow(&p->shares, &p->share_room, p->share_count + 1, sizeof *p->shares));
        p->shares[p->share_count++] =
            (haul__place_share){.tensor = tensor,
                                .device = device,
                                .price = price,
                                .group = below(2) && t->user_count ? g->users[t->user + below(t->user_count)].group
                                                                   : g->operations[t->producer].group,
                                .amount = p->prices[price].price * kib};
    }
}

static void forge_price(const haul__place_graph *g, haul__place_proof *p)
{
    haul__place_price *x = &p->prices[p->price_count ? below(p->price_count) : p->price_count++];
    switch (below(3)) {
    case 0: x->device = !x->device; break;
    case 1: x->moment = (int)below((int64_t)g->operation_count); break;
    default: x->price = 1 + below(2 * x->price + 1);
    }
}

/* Other places, with their true cost. They may be above the limits. */
static void forge_places(const haul__place_graph *g, haul__placement *p)
{
    for (int64_t k = 1 + below(3); k > 0; k--) {
        const int64_t group = below((int64_t)g->group_count);
        p->device[group] ^= haul__place_allows(g, (int)group, !p->device[group]);
    }
    p->cost = haul__place_cost(g, p->device);
}

typedef struct forgeries {
    int accepted, false_bounds, false_places; /* the false ones are refused; bounds that are not above the cost */
} forgeries;

static void check_forged(const haul__place_graph *g, const haul__placement *p, int64_t least, forgeries *f)
{
    haul__verdict verdict;
    char         *text = certify(g, p);
    const bool    fit = fits(g, p->device), accepted = accepts(text, &verdict);
    if (accepted && (verdict.bound > least || !fit || verdict.cost != p->cost))
        fail_msg("bound %lld, but %lld is possible, %s\n%s", (long long)verdict.bound, (long long)least,
                 fit ? "and fits" : "above a limit", text);
    f->accepted += accepted;
    f->false_bounds += fit && p->proof.bound > least && p->proof.bound <= p->cost;
    f->false_places += !fit;
    haul__free(text);
}

/* The bound of the shares, as a certificate can state it: not below 0. */
static void state_bound(const haul__place_graph *g, haul__place_proof *p)
{
    assert_int_equal(haul__place_prove(g, p), HAUL_OK);
    p->bound = p->bound < 0 ? 0 : p->bound;
}

/* A dear placement leaves room for a bound that is false and below its cost. */
static void forge(const haul__place_graph *g, int64_t least, forgeries *f)
{
    haul__placement p;
    assert_int_equal(haul__place_solve(g, &p), HAUL_OK);
    if (below(8))
        forge_places(g, &p);
    const bool memory_only = below(2) == 0;
    for (int64_t k = memory_only ? 0 : below(4); k > 0; k--)
        (below(6) ? forge_share : forge_price)(g, &p.proof);
    if (memory_only)
        forge_memory(g, &p.proof);
    state_bound(g, &p.proof);
    check_forged(g, &p, least, f);
    haul__placement_free(&p);
}

/* A limit that binds, and one on the other device that does not but can have prices. */
static void loose_limit(haul__place_graph *g, const haul__placement *free_plan)
{
    const int device = free_plan->peaks[1].bytes ? 1 : 0;
    g->limit[device] = free_plan->peaks[device].bytes * (85 + below(14)) / 100;
    g->limit[!device] = 1 << 24;
}

static void test_place__refuses_forged_certificates(void **context)
{
    (void)context;
    forgeries f = {0};
    for (uint64_t seed = 1; seed <= (uint64_t)some_of(400); seed++) {
        haul__place_graph g;
        haul__placement   p;
        make_graph(&g, 5000 + seed, 8 + (int)(seed % 5));
        assert_int_equal(haul__place_solve(&g, &p), HAUL_OK);
        if (seed % 2)
            loose_limit(&g, &p);
        haul__placement_free(&p);
        const int64_t least = brute_force(&g);
        for (int i = 0; least < INT64_MAX && i < 25; i++)
            forge(&g, least, &f);
        haul__place_free(&g);
    }
    print_message("%d accepted, %d with a false bound and %d above a limit refused\n", f.accepted, f.false_bounds,
                  f.false_places);
    assert_true(f.accepted > some_of(20) && f.false_bounds > some_of(20) && f.false_places > some_of(100));
}

/* A share of memory is for the device of its price. */
static void test_place__refuses_shares_of_another_device(void **context)
{
    (void)context;
    int refused = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        haul__place_graph g;
        haul__placement   p;
        haul__verdict     verdict;
        make_graph(&g, 5000 + seed, 10);
        assert_int_equal(haul__place_solve(&g, &p), HAUL_OK);
        loose_limit(&g, &p);
        haul__placement_free(&p);
        if (haul__place_solve(&g, &p) == HAUL_OK) {
            for (size_t i = 0; i < p.proof.share_count; i++)
                if (p.proof.shares[i].price >= 0)
                    p.proof.shares[i].device ^= 1;
            state_bound(&g, &p.proof);
            char *text = certify(&g, &p);
            if (!accepts(text, &verdict) && !strcmp(verdict.member, "shares"))
                refused++;
            else
                assert_int_equal(p.proof.price_count, 0);
            haul__free(text);
            haul__placement_free(&p);
        }
        haul__place_free(&g);
    }
    assert_true(refused >= 10);
    haul_error_clear();
}

/* Texts that are not a certificate: the message names the member. */
static void test_place__names_what_is_wrong(void **context)
{
    static const struct {
        const char *from, *to, *member;
        int64_t     item;
    } cases[] = {
        {"\"cost_ps\"", "\"cost\"", "cost_ps", -1},
        {"\"cost_ps\":", "\"cost_ps\":1,\"cost_ps\":", "cost_ps", -1},
        {"\"cost_ps\":", "\"cost_ps\":-", "cost_ps", -1},
        {"\"bound_ps\":", "\"bound_ps\":184467440737095516150", "bound_ps", -1},
        {"\"graph\":{", "\"graph\":7,\"other\":{", "graph", -1},
        {"\"groups\":[0", "\"groups\":[99", "groups", 0},
        {"\"groups\":[0", "\"groups\":[0,0", "groups", -1},
        {"\"costs\":[[", "\"costs\":[[1,", "costs", 0},
        {"\"costs\":[[", "\"costs\":[[9007199254740993", "costs", 0},
        {"\"copies\":[[0", "\"copies\":[[99", "copies", 0},
        {"\"limits\":[null", "\"limits\":[10", "limits", 0},
        {"\"limits\":[null", "\"limits\":[true,1", "limits", -1},
        {"\"devices\":[\"cpu\"", "\"devices\":[\"cuda:0\"", "devices", 1},
        {"\"device\":\"c", "\"device\":\"C", "operations", 0},
        {"\"device\":", "\"place\":", "device", -1},
        {"\"shares\":[", "\"shares\":[[0,0,null,0],", "shares", 0},
        {"\"shares\":[", "\"shares\":[[99,0,null,0,1],", "shares", 0},
        {"\"shares\":[", "\"shares\":[[0,0,0,0,1],", "shares", 0},
        {"\"prices\":[", "\"prices\":[[0,0,1]", "prices", 0},
    };
    (void)context;
    haul__place_graph g;
    haul__placement   p;
    make_graph(&g, 7, 9);
    assert_int_equal(haul__place_solve(&g, &p), HAUL_OK);
    char *text = certify(&g, &p);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        haul__verdict verdict;
        const size_t  after = place_of(text, cases[i].from), before = after - strlen(cases[i].from);
        char         *other = haul__format("%.*s%s%s", (int)before, text, cases[i].to, text + after);
        assert_false(accepts(other, &verdict));
        if (!verdict.member || strcmp(verdict.member, cases[i].member) != 0 || verdict.item != cases[i].item)
            fail_msg("%s: %s[%lld]", cases[i].to, verdict.member, (long long)verdict.item);
        haul__free(other);
    }
    haul__free(text);
    haul__placement_free(&p);
    haul__place_free(&g);
}

/* ---- graphs that cannot be placed ---- */

/* Memory from before the step is resident from its beginning on, but nothing is in it before its maker. */
static void test_place__refuses_uses_before_their_maker(void **context)
{
    (void)context;
    haul__place_graph        g = {.device_count = 2};
    haul__placement          p;
    haul__verdict            verdict;
    const haul__place_tensor t = {.producer = 1, .until = 1, .bytes = 1024, .home_bytes = 1024};
    const haul__place_copies none = {.ps = {{0}}};
    for (int i = 0; i < 3; i++)
        haul__place_add_operation(&g, &(haul__place_operation){.name = "work", .call = i, .cost = {5, 5}});
    assert_int_equal(haul__place_add_tensor(&g, &t, &none), 0);
    assert_int_equal(haul__place_add_use(&g, 0, 2), HAUL_OK);
    assert_int_equal(haul__place_finish(&g), HAUL_OK);
    assert_int_equal(haul__place_solve(&g, &p), HAUL_OK);
    char *text = certify(&g, &p), *use = strstr(text, ",2]]");
    assert_true(accepts(text, &verdict));
    assert_non_null(use);
    use[1] = '0';
    assert_false(accepts(text, &verdict));
    assert_string_equal(verdict.member, "copies");
    haul__free(text);
    haul__placement_free(&p);
    haul__place_free(&g);
}

static void test_place__refuses_impossible_graphs(void **context)
{
    (void)context;
    haul__place_graph     g = {.device_count = 2};
    haul__placement       p;
    haul__place_operation o = {.name = "one", .module = "fc1", .cost = {HAUL__PLACE_NEVER, 5}};
    assert_int_equal(haul__place_add_operation(&g, &o), 0);
    o = (haul__place_operation){.name = "two", .module = "fc1", .cost = {5, HAUL__PLACE_NEVER}};
    assert_int_equal(haul__place_add_operation(&g, &o), 1);
    haul__place_join(&g, 0, 1);
    assert_int_equal(haul__place_finish(&g), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "one of fc1 must be on one device"));
    haul__place_free(&g);

    g.device_count = 2;
    o.cost[0] = HAUL__PLACE_MOST;
    assert_int_equal(haul__place_add_operation(&g, &o), 0);
    assert_int_equal(haul__place_add_operation(&g, &o), 1);
    assert_int_equal(haul__place_finish(&g), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "2^53 - 1 at two"));
    haul__place_free(&g);

    make_graph(&g, 5, 12);
    g.limit[0] = g.limit[1] = 1;
    assert_int_equal(haul__place_solve(&g, &p), HAUL_OUT_OF_MEMORY);
    assert_non_null(strstr(haul_error_message(), "fits in 1 byte on device 0 and 1 byte on device 1"));
    haul__place_free(&g);
    haul_error_clear();
}

/* Each allocation fails once: an error and no leak. */
static void test_place__survives_failing_allocations(void **context)
{
    (void)context;
    haul__place_graph g;
    make_graph(&g, 11, 12);
    const int64_t blocks = haul__counted_blocks();
    for (int64_t nth = 1, failed = true; failed; nth++) {
        haul__placement p;
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        failed = haul__place_solve(&g, &p) != HAUL_OK;
        haul__fault_plan(0, 0);
        assert_true(!failed || haul_error_status() == HAUL_OUT_OF_MEMORY);
        if (!failed)
            haul__placement_free(&p);
        assert_int_equal(haul__counted_blocks(), blocks);
    }
    haul__place_free(&g);
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place__equals_brute_force),
        cmocka_unit_test(test_place__keeps_limits),
        cmocka_unit_test(test_place__refuses_false_certificates),
        cmocka_unit_test(test_place__refuses_forged_certificates),
        cmocka_unit_test(test_place__refuses_shares_of_another_device),
        cmocka_unit_test(test_place__names_what_is_wrong),
        cmocka_unit_test(test_place__refuses_uses_before_their_maker),
        cmocka_unit_test(test_place__refuses_impossible_graphs),
        cmocka_unit_test(test_place__survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
