/* What follows a detector: boxes with a score that is high enough, in the order of their scores, without those that
 * overlap a better one (non-maximum suppression).
 *
 *     boxes [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

enum { BOXES = 8 };
#define SCORE   0.3
#define OVERLAP 0.5

/* Left, top, right, bottom, and the score. */
static const float detected[BOXES][5] = {
    {10, 10, 50, 60, 0.91f},  {12, 9, 52, 58, 0.84f},    {100, 40, 160, 90, 0.77f}, {14, 14, 48, 62, 0.12f},
    {98, 44, 158, 92, 0.88f}, {200, 20, 230, 50, 0.45f}, {105, 60, 190, 95, 0.61f}, {60, 60, 90, 90, 0.28f},
};

/* Area over area of the intersections and unions, [n, n]. */
static haul_tensor *overlaps(haul_tensor *boxes)
{
    haul_tensor *low = haul_slice(boxes, 1, 0, 2, 1), *high = haul_slice(boxes, 1, 2, 4, 1);
    haul_tensor *begin = haul_maximum(haul_unsqueeze(low, 0), haul_unsqueeze(low, 1));
    haul_tensor *end = haul_minimum(haul_unsqueeze(high, 0), haul_unsqueeze(high, 1));
    haul_tensor *inner = haul_prod(haul_relu(haul_sub(end, begin)), HAUL_AXES(2));
    haul_tensor *area = haul_prod(haul_sub(high, low), HAUL_AXES(1));
    return haul_div(inner, haul_sub(haul_add(haul_unsqueeze(area, 0), haul_unsqueeze(area, 1)), inner));
}

/* The boxes that are left, of boxes in the order of their scores. Row i of `above` marks the worse boxes that box i
 * overlaps; they go if box i itself is left. */
static haul_tensor *suppress(haul_tensor *boxes)
{
    int64_t      n = haul_tensor_shape(boxes).dims[0];
    haul_tensor *above = haul_triu(haul_gt_scalar(overlaps(boxes), OVERLAP), 1);
    haul_tensor *left = haul_ones(HAUL_BOOL, HAUL_SHAPE(n));
    for (int64_t i = 0; i < n; i++) {
        haul_tensor *gone = haul_logical_and(haul_select(above, 0, i), haul_slice(left, 0, i, i + 1, 1));
        left = haul_logical_and(left, haul_logical_not(gone));
    }
    return haul_index(boxes, left);
}

int main(int argc, char **argv)
{
    float        rows[BOXES][5] = {{0}};
    haul_tensor *scores, *order;
    haul_scope  *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    haul_tensor *all = haul_from_host(HAUL_F32, HAUL_SHAPE(BOXES, 5), detected);
    haul_scope  *selection = haul_scope_push();
    haul_budget(.d2h_bytes = 8 + 8 + 4 * 5 * 4, .waits = 3); /* two numbers of rows, and four rows */
    haul_tensor *likely = haul_index(all, haul_gt_scalar(haul_select(all, 1, 4), SCORE));
    haul_sort(haul_select(likely, 1, 4), 0, true, &scores, &order);
    haul_tensor *left = suppress(haul_index_select(likely, 0, order));
    int64_t      n = haul_tensor_is_valid(left) ? haul_tensor_shape(left).dims[0] : 0;
    haul_read(left, rows, (size_t)n * sizeof *rows);
    for (int64_t i = 0; i < n; i++)
        printf("%.2f: %g,%g to %g,%g\n", rows[i][4], rows[i][0], rows[i][1], rows[i][2], rows[i][3]);
    haul_scope_pop(selection);
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
