/* Draws from distributions: their moments and whole distributions with fixed seeds, extreme parameters, the same bits
 * on every device and for any number of threads, recorded steps, and parameters with which nothing can be drawn.
 *
 * ctest: cuda; labels=threads; cuda-labels=none */
#include "base/alloc.h"
#include "support/linalg.h"

enum { MANY = 40000 };

static double got[MANY];

static void take(haul_tensor *x, int64_t count)
{
    if (!haul_tensor_is_valid(x))
        fail_msg("%s", haul_error_message());
    assert_int_equal(haul_tensor_count(x), count);
    assert_int_equal(read_values(x, got, count), HAUL_OK);
}

static haul_tensor *filled(haul_dtype dtype, double value)
{
    return haul_full(dtype, HAUL_SHAPE(MANY), value);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Kolmogorov's and Smirnov's distance of `got` from a distribution, times the root of the count: above 1.95 in one of a
 * thousand samples. The seeds are fixed. */
static void assert_distributed(double (*distribution)(double x, double parameter), double parameter, const char *what)
{
    double most = 0;
    qsort(got, MANY, sizeof *got, by_value);
    for (int i = 0; i < MANY; i++) {
        const double p = distribution(got[i], parameter);
        most = fmax(most, fmax(p - (double)i / MANY, (double)(i + 1) / MANY - p));
    }
    if (!(most * sqrt(MANY) < 1.95))
        fail_msg("%s with %g: the distance is %g", what, parameter, most * sqrt(MANY));
}

static void assert_moments(double mean, double variance, const char *what)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < MANY; i++)
        sum += got[i];
    for (int i = 0; i < MANY; i++)
        squares += (got[i] - sum / MANY) * (got[i] - sum / MANY);
    if (fabs(sum / MANY - mean) > 4 * sqrt(variance / MANY) || fabs(squares / MANY - variance) > 0.08 * variance)
        fail_msg("%s: mean %g, not %g, variance %g, not %g", what, sum / MANY, mean, squares / MANY, variance);
}

/* ---- the distributions ---- */

static double exponential(double x, double rate)
{
    return 1 - exp(-rate * x);
}

static void exponentials(haul_device *device)
{
    haul_set_device(device);
    haul_manual_seed(21);
    for (int i = 0; i < 2; i++) {
        take(haul_exponential(i ? HAUL_F64 : HAUL_F32, HAUL_SHAPE(MANY), 2.5), MANY);
        assert_moments(1 / 2.5, 1 / (2.5 * 2.5), "exponential");
        assert_distributed(exponential, 2.5, "exponential");
        assert_true(got[0] > 0);
    }
    assert_true(haul_random_state_get().offset == MANY / 4 + MANY / 2);
}

static void test_draws__exponential(void **state)
{
    (void)state;
    on_devices(exponentials);
}

static void bernoullis(haul_device *device)
{
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64, HAUL_F16, HAUL_BF16};
    haul_set_device(device);
    haul_manual_seed(5);
    for (int i = 0; i < 4; i++) {
        const double p = 0.25; /* a value of all dtypes */
        take(haul_bernoulli(filled(dtypes[i], p)), MANY);
        assert_moments(p, p * (1 - p), "bernoulli");
        take(haul_bernoulli_scalar(dtypes[i], HAUL_SHAPE(MANY), p), MANY);
        assert_moments(p, p * (1 - p), "bernoulli_scalar");
        assert_float_equal(haul_item(haul_sum(haul_bernoulli(filled(dtypes[i], 0)))), 0, 0);
        assert_float_equal(haul_item(haul_min(haul_bernoulli(filled(dtypes[i], 1)))), 1, 0);
        assert_float_equal(haul_item(haul_sum(haul_bernoulli_scalar(dtypes[i], HAUL_SHAPE(9), 0))), 0, 0);
        assert_float_equal(haul_item(haul_min(haul_bernoulli_scalar(dtypes[i], HAUL_SHAPE(9), 1))), 1, 0);
    }
    /* the two forms draw the same numbers, and each element has its own chance */
    haul_manual_seed(6);
    haul_tensor *a = haul_bernoulli(filled(HAUL_F32, 0.3f));
    haul_manual_seed(6);
    haul_tensor *b = haul_bernoulli_scalar(HAUL_F32, HAUL_SHAPE(MANY), 0.3f);
    assert_float_equal(haul_item(haul_sum(haul_abs(haul_sub(a, b)))), 0, 0);
    haul_tensor *p = haul_transpose(haul_from_host(HAUL_F32, HAUL_SHAPE(2, 3), (float[]){0, 1, 0, 1, 0, 1}), 0, 1);
    assert_close(haul_bernoulli(haul_to(p, device)), (double[]){0, 1, 1, 0, 0, 1}, 6, 0, "a transposed operand");
    assert_int_equal(haul_tensor_count(haul_bernoulli(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3)))), 0);
}

static void test_draws__bernoulli(void **state)
{
    (void)state;
    on_devices(bernoullis);
}

static double normal(double x, double deviation)
{
    return 0.5 * erfc(-x / deviation / sqrt(2));
}

static void normals(haul_device *device)
{
    haul_set_device(device);
    haul_manual_seed(31);
    take(haul_normal_of(haul_scalar(0), filled(HAUL_F32, 3)), MANY);
    assert_distributed(normal, 3, "normal_of");
    take(haul_normal_of(filled(HAUL_F64, -2), haul_full(HAUL_F32, HAUL_SCALAR_SHAPE, 0.5)), MANY);
    assert_moments(-2, 0.25, "normal_of");
    haul_tensor *mean = haul_from_host(HAUL_F32, HAUL_SHAPE(3, 1), (float[]){1, 2, 3});
    assert_close(haul_normal_of(haul_to(mean, device), haul_zeros(HAUL_F32, HAUL_SHAPE(2))),
                 (double[]){1, 1, 2, 2, 3, 3}, 6, 0, "without deviation");
    /* the numbers of haul_normal */
    haul_manual_seed(32);
    haul_tensor *a = haul_normal(HAUL_F32, HAUL_SHAPE(MANY), 0, 2);
    haul_manual_seed(32);
    haul_tensor *b = haul_normal_of(filled(HAUL_F32, 0), filled(HAUL_F32, 2));
    assert_float_equal(haul_item(haul_sum(haul_abs(haul_sub(a, b)))), 0, 0);
}

static void test_draws__normal_with_tensors(void **state)
{
    (void)state;
    on_devices(normals);
}

/* The regularised lower incomplete gamma function: its series, or Lentz's continued fraction of the rest. */
static double gamma_distribution(double x, double alpha)
{
    const double factor = exp(alpha * log(x) - x - lgamma(alpha));
    if (x <= 0)
        return 0;
    if (x < alpha + 1) {
        double term = 1 / alpha, sum = term;
        for (int n = 1; n < 2000 && term > 1e-17 * sum; n++)
            sum += term *= x / (alpha + n);
        return factor * sum;
    }
    double b = x + 1 - alpha, c = 1e300, d = 1 / b, h = d;
    for (int n = 1; n < 2000; n++) {
        const double an = -n * (n - alpha);
        b += 2;
        d = 1 / (an * d + b);
        c = b + an / c;
        h *= d * c;
        if (fabs(d * c - 1) < 1e-15)
            break;
    }
    return 1 - factor * h;
}

static void gammas(haul_device *device)
{
    static const double alphas[] = {0.1, 0.7, 1, 2.5, 40, 5000};
    haul_set_device(device);
    haul_manual_seed(41);
    for (int i = 0; i < 12; i++) {
        const double alpha = alphas[i / 2];
        take(haul_gamma(filled(i % 2 ? HAUL_F64 : HAUL_F32, alpha)), MANY);
        assert_moments(alpha, alpha, "gamma");
        assert_distributed(gamma_distribution, alpha, "gamma");
    }
    take(haul_gamma(filled(HAUL_F32, 1e-3)), MANY); /* most round to 0 */
    for (int i = 0; i < MANY; i++)
        assert_true(got[i] >= 0 && got[i] < 20);
    take(haul_gamma(filled(HAUL_BF16, 8)), MANY);
    assert_moments(8, 8, "gamma of bf16");
}

static void test_draws__gamma(void **state)
{
    (void)state;
    on_devices(gammas);
}

/* Chi squared over the counts that are expected at least ten times, with the rest together, against the bound that one
 * of ten thousand samples exceeds (Wilson and Hilferty). */
static void assert_poisson(double rate)
{
    const int first = (int)fmax(0, floor(rate - 8 * sqrt(rate) - 8)), count = (int)(16 * sqrt(rate) + 40);
    double   *seen = calloc((size_t)count, sizeof *seen), squares = 0, rest = MANY, rest_seen = MANY;
    int       freedom = 0;
    assert_non_null(seen);
    for (int i = 0; i < MANY; i++) {
        assert_true(got[i] == floor(got[i]) && got[i] >= first && got[i] < first + count);
        seen[(int)got[i] - first]++;
    }
    for (int k = 0; k < count; k++) {
        const double n = first + k, want = MANY * exp(n * log(rate) - rate - lgamma(n + 1));
        if (want < 10)
            continue;
        squares += (seen[k] - want) * (seen[k] - want) / want;
        rest -= want;
        rest_seen -= seen[k];
        freedom++;
    }
    free(seen);
    if (rest >= 1) {
        squares += (rest_seen - rest) * (rest_seen - rest) / rest;
        freedom++;
    }
    const double f = freedom - 1 > 0 ? freedom - 1 : 1, bound = f * pow(1 - 2 / (9 * f) + 3.72 * sqrt(2 / (9 * f)), 3);
    if (!(squares < bound))
        fail_msg("rate %g: chi squared is %g, the bound %g", rate, squares, bound);
}

static void poissons(haul_device *device)
{
    static const double rates[] = {0.125, 1, 9.75, 10, 30, 1000};
    haul_set_device(device);
    haul_manual_seed(51);
    for (int i = 0; i < 12; i++) {
        take(haul_poisson(filled(i % 2 ? HAUL_F64 : HAUL_F32, rates[i / 2])), MANY);
        assert_moments(rates[i / 2], rates[i / 2], "poisson");
        assert_poisson(rates[i / 2]);
    }
    assert_float_equal(haul_item(haul_max(haul_poisson(filled(HAUL_F32, 0)))), 0, 0);
    take(haul_poisson(filled(HAUL_F32, 1e6)), MANY);
    assert_moments(1e6, 1e6, "poisson of a large rate");
    take(haul_poisson(filled(HAUL_F32, 1e37)), MANY);
    assert_true(got[0] > 9e36 && got[0] < 1.1e37);
}

static void test_draws__poisson(void **state)
{
    (void)state;
    on_devices(poissons);
}

/* ---- categories ---- */

static void categories(haul_device *device)
{
    static const float weights[] = {0, 1, 3, 0, 4, 0};
    haul_set_device(device);
    haul_manual_seed(61);
    for (int i = 0; i < 2; i++) {
        int          seen[6] = {0};
        haul_tensor *w = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(6), weights), device);
        haul_tensor *y = haul_multinomial(haul_cast(w, i ? HAUL_F64 : HAUL_F16), MANY, true);
        assert_int_equal(haul_tensor_dtype(y), HAUL_I64);
        take(y, MANY);
        for (int k = 0; k < MANY; k++)
            seen[(int)got[k]]++;
        for (int k = 0; k < 6; k++)
            assert_true(abs(seen[k] - (int)(MANY * weights[k] / 8)) <= 4 * sqrt(MANY * weights[k] / 8));
        /* the first without replacement has the same chances, the second those of the others */
        haul_tensor *rows = haul_contiguous(haul_expand(w, HAUL_SHAPE(MANY / 3, 6)));
        int          pairs[6][6] = {{0}};
        y = haul_multinomial(rows, 3, false);
        assert_true(haul_tensor_shape(y).ndim == 2 && haul_tensor_shape(y).dims[1] == 3);
        take(y, MANY / 3 * 3);
        for (int k = 0; k < MANY / 3; k++) {
            pairs[(int)got[3 * k]][(int)got[3 * k + 1]]++;
            assert_true(got[3 * k] + got[3 * k + 1] + got[3 * k + 2] == 7); /* 1, 2 and 4 in some order */
        }
        for (int a = 0; a < 6; a++)
            for (int b = 0; b < 6; b++) {
                const double left = 8 - weights[a];
                const double want = a == b ? 0 : MANY / 3.0 * weights[a] / 8 * weights[b] / left;
                assert_true(fabs(pairs[a][b] - want) <= 4 * sqrt(want));
            }
    }
    haul_tensor *sure = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(3, 2), (float[]){0, 1, 2, 0, 0, 1e-30f}), device);
    assert_close(haul_multinomial(sure, 2, true), (double[]){1, 1, 0, 0, 1, 1}, 6, 0, "certain categories");
    assert_close(haul_multinomial(sure, 1, false), (double[]){1, 0, 1}, 3, 0, "certain categories, once");
}

static void test_draws__multinomial(void **state)
{
    (void)state;
    on_devices(categories);
}

/* ---- devices, threads, recordings ---- */

static haul_tensor *draws(void *context)
{
    (void)context;
    haul_tensor *parts[16];
    int          n = 0;
    haul_manual_seed(123);
    for (int i = 0; i < 2; i++) {
        const haul_dtype dtype = i ? HAUL_F64 : HAUL_F32;
        haul_tensor     *x = haul_uniform(dtype, HAUL_SHAPE(3001), 0, 1);
        parts[n++] = haul_exponential(dtype, HAUL_SHAPE(3001), 2);
        parts[n++] = haul_bernoulli_scalar(dtype, HAUL_SHAPE(3001), 0.4);
        parts[n++] = haul_bernoulli(x);
        parts[n++] = haul_normal_of(x, haul_add_scalar(x, 1));
        parts[n++] = haul_poisson(haul_mul_scalar(x, 20));
        parts[n++] = haul_gamma(haul_mul_scalar(haul_add_scalar(x, 1e-3), 2));
        parts[n++] = haul_cast(haul_multinomial(x, 3001, true), HAUL_F64);
        parts[n++] = haul_cast(haul_multinomial(x, 3001, false), HAUL_F64);
    }
    for (int i = 0; i < n; i++)
        parts[i] = haul_cast(parts[i], HAUL_F64);
    return haul_cat(parts, n, 0);
}

static void test_draws__same_bits_for_threads_and_devices(void **state)
{
    enum { ALL = 16 * 3001 };
    static double first[ALL], other[ALL];
    haul_device  *devices[8];
    int           count = test_devices(devices, 8);
    (void)state;
    assert_same_for_threads(draws, NULL);
    for (int i = 0; i < count; i++) {
        haul_scope *scope = haul_scope_push();
        haul_set_device(devices[i]);
        assert_int_equal(haul_read(draws(NULL), i ? other : first, sizeof first), HAUL_OK);
        if (i && memcmp(other, first, sizeof first) != 0)
            for (int k = 0; k < ALL; k++)
                if (memcmp(&other[k], &first[k], sizeof *first) != 0)
                    fail_msg("element %d of draw %d is %.17g on %s, %.17g on %s", k % 3001, k / 3001, other[k],
                             haul_device_name(devices[i]), first[k], haul_device_name(devices[0]));
        haul_scope_pop(scope);
    }
}

typedef struct step_of_draws {
    haul_tensor *x, *y;
} step_of_draws;

static haul_tensor *step_draws(haul_tensor *x)
{
    haul_tensor *sum = haul_add(haul_bernoulli(x), haul_poisson(haul_mul_scalar(x, 30)));
    sum = haul_add(sum, haul_add(haul_gamma(haul_add_scalar(x, 0.1)), haul_normal_of(x, x)));
    sum = haul_add(sum, haul_exponential(HAUL_F32, HAUL_SHAPE(500), 1));
    sum = haul_add(sum, haul_bernoulli_scalar(HAUL_F32, HAUL_SHAPE(500), 0.5));
    sum = haul_add(sum, haul_cast(haul_multinomial(x, 500, true), HAUL_F32));
    return haul_add(sum, haul_cast(haul_multinomial(x, 500, false), HAUL_F32));
}

static haul_status step(void *context)
{
    step_of_draws *s = context;
    return haul_copy_into(s->y, step_draws(s->x));
}

/* Each run of a recorded step draws the numbers that the calls would draw. */
static void recorded(haul_device *device)
{
    enum { RUNS = 5 };
    haul_set_device(device);
    step_of_draws   s = {haul_uniform(HAUL_F32, HAUL_SHAPE(500), 0, 1), haul_zeros(HAUL_F32, HAUL_SHAPE(500))};
    haul_recording *r = haul_recording_new(step, &s);
    double          want[RUNS][500];
    haul_manual_seed(9);
    for (int i = 0; i < RUNS; i++) {
        assert_int_equal(read_values(step_draws(s.x), want[i], 500), HAUL_OK);
        assert_true(!i || memcmp(want[i], want[i - 1], sizeof *want) != 0);
    }
    const haul_random_state end = haul_random_state_get();
    haul_manual_seed(9);
    for (int i = 0; i < RUNS; i++) {
        assert_int_equal(haul_recording_run(r), HAUL_OK);
        take(s.y, 500);
        assert_memory_equal(got, want[i], sizeof *want);
    }
    assert_true(haul_random_state_get().offset == end.offset);
}

static void test_draws__recorded_steps_draw_anew(void **state)
{
    (void)state;
    on_devices(recorded);
}

/* ---- parameters with which nothing can be drawn ---- */

static void assert_bad(haul_device *device, haul_tensor *y, const char *words)
{
    double any;
    if (!haul_tensor_is_valid(y)) {
        assert_refused(y, HAUL_INVALID_ARGUMENT, words);
        return;
    }
    assert_false(device == haul_cpu());
    assert_int_equal(haul_read(haul_reshape(haul_cast(haul_slice(y, 0, 0, 1, 1), HAUL_F64), HAUL_SHAPE(-1)), &any, 8),
                     HAUL_INVALID_ARGUMENT);
    if (!strstr(haul_error_message(), words))
        fail_msg("the message is \"%s\", it should contain \"%s\"", haul_error_message(), words);
    haul_error_clear();
}

static haul_tensor *three(haul_device *device, float third)
{
    return haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(3), (float[]){1, 0.5f, third}), device);
}

static void bad(haul_device *device)
{
    haul_set_device(device);
    static const float not_chances[] = {-0.1f, 1.1f, NAN, INFINITY};
    for (int i = 0; i < 4; i++)
        assert_bad(device, haul_bernoulli(three(device, not_chances[i])), "p[2] is not a probability between 0 and 1");
    static const float not_rates[] = {-1, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        assert_bad(device, haul_poisson(three(device, not_rates[i])), "rate[2] is not a finite number from 0 on");
        assert_bad(device, haul_gamma(three(device, not_rates[i])), "alpha[2] is not a finite number above 0");
        haul_tensor *w = haul_reshape(haul_cat((haul_tensor *[]){three(device, 1), three(device, not_rates[i])}, 2, 0),
                                      HAUL_SHAPE(2, 3));
        assert_bad(device, haul_multinomial(w, 1, true), "row 1 of weights cannot be drawn from");
        assert_bad(device, haul_multinomial(w, 1, false), "row 1 of weights cannot be drawn from");
    }
    assert_bad(device, haul_gamma(three(device, 0)), "alpha[2]");
    assert_bad(device, haul_normal_of(three(device, 0), three(device, -1)), "haul_normal_of: deviation[2] is not");
    assert_bad(device, haul_normal_of(three(device, 0), three(device, NAN)), "haul_normal_of: deviation[2] is not");
    assert_bad(device, haul_multinomial(haul_zeros(HAUL_F32, HAUL_SHAPE(3)), 2, true), "at least 1 of them above 0");
    assert_bad(device, haul_multinomial(three(device, 0), 3, false), "at least 3 of them above 0");
}

static void test_draws__bad_parameters(void **state)
{
    (void)state;
    on_devices(bad);
}

static void test_draws__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(3)), *whole = haul_ones(HAUL_I32, HAUL_SHAPE(3));
    haul_random_state_set((haul_random_state){6, 5});
    assert_refused(haul_exponential(HAUL_F32, HAUL_SHAPE(1), 0), HAUL_INVALID_ARGUMENT, "rate is 0");
    assert_refused(haul_exponential(HAUL_F32, HAUL_SHAPE(1), NAN), HAUL_INVALID_ARGUMENT, "rate is");
    assert_refused(haul_exponential(HAUL_I32, HAUL_SHAPE(1), 1), HAUL_DTYPE, "i32");
    assert_refused(haul_bernoulli_scalar(HAUL_F32, HAUL_SHAPE(1), 1.5), HAUL_INVALID_ARGUMENT, "p is 1.5");
    assert_refused(haul_bernoulli_scalar(HAUL_F32, HAUL_SHAPE(1), NAN), HAUL_INVALID_ARGUMENT, "p is");
    assert_refused(haul_bernoulli(whole), HAUL_DTYPE, "haul_bernoulli");
    assert_refused(haul_poisson(whole), HAUL_DTYPE, "haul_poisson");
    assert_refused(haul_gamma(whole), HAUL_DTYPE, "haul_gamma");
    assert_refused(haul_multinomial(whole, 1, true), HAUL_DTYPE, "haul_multinomial");
    assert_refused(haul_normal_of(x, haul_ones(HAUL_F32, HAUL_SHAPE(2))), HAUL_SHAPE, "haul_normal_of");
    assert_refused(haul_multinomial(haul_scalar(1), 1, true), HAUL_SHAPE, "category");
    assert_refused(haul_multinomial(haul_zeros(HAUL_F32, HAUL_SHAPE(2, 0)), 1, true), HAUL_SHAPE, "category");
    assert_refused(haul_multinomial(x, 0, true), HAUL_INVALID_ARGUMENT, "0 samples");
    assert_refused(haul_multinomial(x, 4, false), HAUL_INVALID_ARGUMENT, "4 samples of 3 categories");
    assert_int_equal(haul_tensor_count(haul_multinomial(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3)), 2, true)), 0);
    assert_int_equal(haul_tensor_count(haul_multinomial(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3)), 2, false)), 0);
    assert_true(haul_random_state_get().offset == 5);
    /* gradients do not flow through draws */
    haul_tensor *p = haul_set_requires_grad(haul_full(HAUL_F32, HAUL_SHAPE(3), 0.5), true);
    assert_false(haul_requires_grad(haul_bernoulli(p)));
    assert_false(haul_requires_grad(haul_normal_of(p, p)));
    /* into given tensors */
    haul_tensor *out = haul_transpose(haul_zeros(HAUL_F32, HAUL_SHAPE(7, 5)), 0, 1);
    haul_manual_seed(3);
    haul_tensor *e = haul_exponential(HAUL_F32, HAUL_SHAPE(5, 7), 2),
                *b = haul_bernoulli_scalar(HAUL_F32, HAUL_SHAPE(5, 7), 0.5);
    haul_manual_seed(3);
    assert_int_equal(haul_exponential_into(out, 2), HAUL_OK);
    assert_float_equal(haul_item(haul_sum(haul_abs(haul_sub(out, e)))), 0, 0);
    assert_int_equal(haul_bernoulli_scalar_into(out, 0.5), HAUL_OK);
    assert_float_equal(haul_item(haul_sum(haul_abs(haul_sub(out, b)))), 0, 0);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draws__exponential),
        cmocka_unit_test(test_draws__bernoulli),
        cmocka_unit_test(test_draws__normal_with_tensors),
        cmocka_unit_test(test_draws__gamma),
        cmocka_unit_test(test_draws__poisson),
        cmocka_unit_test(test_draws__multinomial),
        cmocka_unit_test(test_draws__same_bits_for_threads_and_devices),
        cmocka_unit_test(test_draws__recorded_steps_draw_anew),
        cmocka_unit_test(test_draws__bad_parameters),
        cmocka_unit_test(test_draws__errors),
    };
    return cmocka_run_group_tests_name("draws", tests, NULL, NULL);
}
