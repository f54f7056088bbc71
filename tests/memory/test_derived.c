/* Derived copies: casts of parameters within autocast are kept with the parameter's storage, counted, outdated by
 * changes, and given back where memory runs short.
 *
 * ctest: cuda; labels=threads */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "memory/derived.h"
#include "memory/dry_run/dry_run.h"
#include "support/conformance/conformance.h"

enum { ROWS = 64, COLUMNS = 256, CAST_BYTES = ROWS * COLUMNS * 2 };

static haul_memory_stats stats_of(haul_device *device)
{
    haul_memory_stats s = {0};
    assert_int_equal(haul_memory_stats_get(device, &s), HAUL_OK);
    return s;
}

static int64_t derived_on(haul_device *device)
{
    return stats_of(device).derived_bytes;
}

typedef struct fixture {
    haul_tensor *x, *w;
} fixture;

static fixture fixture_on(haul_device *device)
{
    assert_int_equal(haul_set_device(device), HAUL_OK);
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    return (fixture){haul_ones(HAUL_F32, HAUL_SHAPE(1, COLUMNS)),
                     haul_set_requires_grad(haul_full(HAUL_F32, HAUL_SHAPE(ROWS, COLUMNS), 0.5), true)};
}

/* The first element of x w^T in bf16. */
static double infer(const fixture *f, bool recorded)
{
    haul_scope *scope = haul_scope_push();
    haul_set_grad_enabled(recorded);
    haul_autocast_state before = haul_autocast_begin("all", HAUL_BF16);
    haul_tensor        *y = haul_linear(f->x, f->w);
    haul_autocast_end(before);
    double first = haul_item(haul_select(haul_select(y, 0, 0), 0, 0));
    assert_int_equal(haul_error_status(), HAUL_OK);
    haul_scope_pop(scope);
    return first;
}

static void on_devices(void (*check)(haul_device *device))
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    for (int i = 0; i < count; i++) {
        haul_scope *scope = haul_scope_push();
        check(devices[i]);
        haul_scope_pop(scope);
        assert_int_equal(derived_on(devices[i]), 0); /* copies end with their parameter */
    }
}

/* ---- kept, counted ---- */

static void check_kept(haul_device *device)
{
    fixture f = fixture_on(device);
    assert_int_equal(derived_on(device), 0);
    assert_true(infer(&f, false) == 0.5 * COLUMNS);
    assert_int_equal(derived_on(device), CAST_BYTES);
    int64_t made = stats_of(device).allocations;
    assert_true(infer(&f, false) == 0.5 * COLUMNS);
    int64_t with_copy = stats_of(device).allocations - made;
    haul__derived_give_back(device);
    made = stats_of(device).allocations;
    assert_true(infer(&f, false) == 0.5 * COLUMNS);
    assert_int_equal(stats_of(device).allocations - made, with_copy + 1);
    made = stats_of(device).allocations;
    assert_true(infer(&f, true) == 0.5 * COLUMNS); /* a graph uses the same copy, which goes with it */
    assert_int_equal(stats_of(device).allocations - made, with_copy);
    assert_int_equal(derived_on(device), 0);
}

static void test_kept__between_autocasts(void **state)
{
    (void)state;
    on_devices(check_kept);
}

static void check_changed(haul_device *device)
{
    fixture f = fixture_on(device);
    assert_true(infer(&f, false) == 0.5 * COLUMNS);
    haul_set_grad_enabled(false);
    assert_int_equal(haul_fill_into(f.w, 2), HAUL_OK);
    haul_set_grad_enabled(true);
    assert_true(infer(&f, false) == 2.0 * COLUMNS);
    assert_int_equal(derived_on(device), CAST_BYTES); /* in the place of the outdated one */
    int64_t made = stats_of(device).allocations;
    assert_true(infer(&f, false) == 2.0 * COLUMNS);
    int64_t with_copy = stats_of(device).allocations - made;
    haul__derived_give_back(device);
    made = stats_of(device).allocations;
    assert_true(infer(&f, false) == 2.0 * COLUMNS);
    assert_int_equal(stats_of(device).allocations - made, with_copy + 1); /* the new one was used, not made again */
    assert_true(infer(&f, true) == 2.0 * COLUMNS);
}

static void test_changed__copies_are_made_anew(void **state)
{
    (void)state;
    on_devices(check_changed);
}

/* Two forms of one storage, and those of a view, are kept apart. */
static void check_forms(haul_device *device)
{
    fixture f = fixture_on(device);
    infer(&f, false);
    haul_scope         *scope = haul_scope_push();
    haul_autocast_state before = haul_autocast_begin("all", HAUL_F16);
    haul_set_grad_enabled(false);
    haul_linear(f.x, f.w);
    haul_autocast_end(before);
    haul_scope_pop(scope);
    assert_int_equal(derived_on(device), 2 * CAST_BYTES);
    haul__form     form = {.dtype = HAUL_BF16, .layout = {COLUMNS, 1}};
    haul__storage *copy = haul__derived_find(f.w, &form);
    assert_non_null(copy);
    haul__object_release(copy);
    form.layout[0] = 1;
    assert_null(haul__derived_find(f.w, &form));
    form.layout[0] = COLUMNS;
    assert_null(haul__derived_find(haul_slice(haul_detach(f.w), 0, 1, ROWS, 1), &form));
    assert_true(haul__derived_give_back(device)); /* all of a storage */
    assert_int_equal(derived_on(device), 0);
    assert_false(haul__derived_give_back(device));
}

static void test_kept__forms_apart(void **state)
{
    (void)state;
    on_devices(check_forms);
}

/* Two views of the same shape and strides differ in where they begin. */
static void check_views(haul_device *device)
{
    fixture          f = fixture_on(device);
    const haul__form form = {.dtype = HAUL_BF16, .layout = {COLUMNS, 1}};
    haul_tensor     *views[2], *casts[2];
    for (int i = 0; i < 2; i++) {
        views[i] = haul_slice(haul_detach(f.w), 0, i * ROWS / 2, (i + 1) * ROWS / 2, 1);
        casts[i] = haul_cast(views[i], HAUL_BF16);
        assert_int_equal(haul_tensor_check(casts[i]), HAUL_OK);
        assert_null(haul__derived_find(views[i], &form));
        haul__derived_keep(views[i], &form, casts[i]->storage);
        haul__storage *copy = haul__derived_find(views[i], &form);
        assert_ptr_equal(copy, casts[i]->storage);
        haul__object_release(copy);
    }
    haul__derived_drop(f.w->storage, f.w->storage); /* it has no copy of that name */
    assert_true(derived_on(device) > 0);
    haul__derived_drop(f.w->storage, casts[1]->storage);
    assert_null(haul__derived_find(views[1], &form));
}

static void test_kept__views_apart(void **state)
{
    (void)state;
    on_devices(check_views);
}

/* The older copy on a device is dropped, and the younger one is still found there. */
static void check_two_storages(haul_device *device)
{
    fixture          f = fixture_on(device), g = fixture_on(device);
    const haul__form form = {.dtype = HAUL_BF16, .layout = {COLUMNS, 1}};
    infer(&f, false);
    infer(&g, false);
    assert_int_equal(derived_on(device), 2 * CAST_BYTES);
    haul__storage *copy = haul__derived_find(f.w, &form);
    assert_non_null(copy);
    haul__derived_drop(f.w->storage, copy);
    haul__object_release(copy);
    assert_int_equal(derived_on(device), CAST_BYTES);
    infer(&f, false);
    assert_int_equal(derived_on(device), 2 * CAST_BYTES);
    assert_true(haul__derived_give_back(device));
    assert_int_equal(derived_on(device), 0);
}

static void test_dropped__one_of_two_storages(void **state)
{
    (void)state;
    on_devices(check_two_storages);
}

/* ---- given back ---- */

/* Under a limit that leaves no room next to the copy, the copy is freed and the allocation succeeds. */
static void check_limit(haul_device *device)
{
    fixture f = fixture_on(device);
    infer(&f, false);
    haul__storage *held = haul__derived_find(f.w, &(haul__form){.dtype = HAUL_BF16, .layout = {COLUMNS, 1}});
    assert_non_null(held);
    haul__object_release(held);
    assert_int_equal(derived_on(device), CAST_BYTES);
    haul_memory_stats s = stats_of(device);
    assert_int_equal(haul_memory_set_tensor_limit(device, s.allocated + CAST_BYTES / 2), HAUL_OK);
    haul_tensor *t = haul_ones(HAUL_F32, HAUL_SHAPE(CAST_BYTES / 4));
    assert_int_equal(haul_memory_set_limit(device, 0), HAUL_OK);
    assert_int_equal(haul_tensor_check(t), HAUL_OK);
    assert_int_equal(derived_on(device), 0);
    assert_true(infer(&f, false) == 0.5 * COLUMNS);
}

static void test_given_back__under_a_limit(void **state)
{
    (void)state;
    on_devices(check_limit);
}

static void check_released(haul_device *device)
{
    fixture f = fixture_on(device);
    infer(&f, false);
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    assert_int_equal(derived_on(device), 0);
    infer(&f, false);
}

static void test_given_back__with_the_cache(void **state)
{
    (void)state;
    on_devices(check_released);
}

/* ---- dry runs ---- */

static haul_status infer_dry(void *context)
{
    fixture *f = context;
    haul_set_grad_enabled(false);
    haul_autocast_begin("all", HAUL_BF16);
    return haul_tensor_check(haul_linear(f->x, f->w));
}

static void check_dry(haul_device *device)
{
    fixture              f = fixture_on(device);
    haul_estimate_result r;
    assert_int_equal(haul_estimate(infer_dry, &f, &r), HAUL_OK);
    assert_true(r.bytes_touched > 0);
    haul_estimate_free(&r);
    assert_int_equal(derived_on(device), 0);
    assert_true(infer(&f, false) == 0.5 * COLUMNS);
    assert_int_equal(derived_on(device), CAST_BYTES);
}

static void test_dry_run__leaves_no_copies(void **state)
{
    (void)state;
    on_devices(check_dry);
}

/* A run that keeps copies has those of memory that existed before until it ends; others keep none. */
typedef struct keeping {
    fixture     f;
    bool        keeps;
    haul_status status;
} keeping;

static haul_status keep_dry(void *context)
{
    keeping         *k = context;
    const haul__form form = {.dtype = HAUL_BF16, .layout = {COLUMNS, 1}};
    haul_set_grad_enabled(false);
    haul_tensor *cast = haul_cast(k->f.w, HAUL_BF16), *own = haul_ones(HAUL_F32, HAUL_SHAPE(4, COLUMNS));
    haul_tensor *cast_of_own = haul_cast(own, HAUL_BF16);
    haul__dry_run_now()->keeps = k->keeps;
    if (haul_tensor_check(cast_of_own) || haul__derived_keep_in_run(k->f.w, &form, cast->storage) ||
        haul__derived_keep_in_run(own, &form, cast_of_own->storage))
        return haul_error_status();
    haul__storage *kept = haul__derived_find(k->f.w, &form), *kept_of_own = haul__derived_find(own, &form);
    const bool     is_right = kept == (k->keeps ? cast->storage : NULL) && kept_of_own == cast_of_own->storage;
    haul__object_release(kept);
    haul__object_release(kept_of_own);
    k->status = is_right ? HAUL_OK : HAUL_STATE;
    return HAUL_OK;
}

static void check_kept_in_run(haul_device *device)
{
    const haul__form form = {.dtype = HAUL_BF16, .layout = {COLUMNS, 1}};
    for (int keeps = 0; keeps < 2; keeps++) {
        keeping              k = {.f = fixture_on(device), .keeps = keeps, .status = HAUL_STATE};
        haul_estimate_result r;
        assert_int_equal(haul_estimate(keep_dry, &k, &r), HAUL_OK);
        haul_estimate_free(&r);
        assert_int_equal(k.status, HAUL_OK);
        assert_null(haul__derived_find(k.f.w, &form));
        assert_int_equal(derived_on(device), 0);
    }
}

static void test_dry_run__keeps_copies_until_it_ends(void **state)
{
    (void)state;
    on_devices(check_kept_in_run);
}

/* ---- entries ---- */

/* Of two copies in one form, which two threads made at once, the later one stays. */
static void check_twice(haul_device *device)
{
    fixture          f = fixture_on(device);
    const haul__form form = {.dtype = HAUL_BF16, .layout = {COLUMNS, 1}};
    haul_tensor     *casts[2];
    haul_set_grad_enabled(false);
    for (int i = 0; i < 2; i++)
        casts[i] = haul_cast(f.w, HAUL_BF16);
    haul_set_grad_enabled(true);
    for (int i = 0; i < 2; i++) {
        haul__derived_keep(f.w, &form, casts[i]->storage);
        assert_int_equal(derived_on(device), CAST_BYTES);
        haul__storage *copy = haul__derived_find(f.w, &form);
        assert_ptr_equal(copy, casts[i]->storage);
        haul__object_release(copy);
    }
}

static void test_kept__one_of_a_form(void **state)
{
    (void)state;
    on_devices(check_twice);
}

/* Without host memory for the entry nothing is kept, and the copy ends with its tensor. */
static void check_no_host_memory(haul_device *device)
{
    fixture          f = fixture_on(device);
    const haul__form form = {.dtype = HAUL_BF16, .layout = {COLUMNS, 1}};
    for (int64_t n = 1; n < 3; n++) {
        haul_scope *scope = haul_scope_push();
        haul_set_grad_enabled(false);
        haul_tensor  *cast = haul_cast(f.w, HAUL_BF16);
        const int64_t before = haul__counted_blocks();
        haul__fault_plan(HAUL__FAULT_HOST, n);
        haul__derived_keep(f.w, &form, cast->storage);
        haul__fault_plan(0, 0);
        haul_set_grad_enabled(true);
        assert_int_equal(haul__counted_blocks(), before);
        assert_null(haul__derived_find(f.w, &form));
        assert_int_equal(derived_on(device), 0);
        haul_scope_pop(scope);
    }
}

static void test_kept__not_without_host_memory(void **state)
{
    (void)state;
    on_devices(check_no_host_memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept__between_autocasts),
        cmocka_unit_test(test_changed__copies_are_made_anew),
        cmocka_unit_test(test_kept__forms_apart),
        cmocka_unit_test(test_given_back__under_a_limit),
        cmocka_unit_test(test_given_back__with_the_cache),
        cmocka_unit_test(test_dry_run__leaves_no_copies),
        cmocka_unit_test(test_kept__views_apart),
        cmocka_unit_test(test_dropped__one_of_two_storages),
        cmocka_unit_test(test_dry_run__keeps_copies_until_it_ends),
        cmocka_unit_test(test_kept__one_of_a_form),
        cmocka_unit_test(test_kept__not_without_host_memory),
    };
    haul_scope *scope = haul_scope_push();
    int         failed = cmocka_run_group_tests(tests, NULL, NULL);
    haul_scope_pop(scope);
    return failed;
}
