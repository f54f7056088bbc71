/* Principal components of points in three dimensions, and the plane that fits them best.
 *
 *     pca [DEVICE] */
#include <haul/haul.h>
#include <math.h>
#include <stdio.h>

enum { POINTS = 200, DIMENSIONS = 3 };

/* A flat cloud: two directions, and a little of a third. */
static haul_tensor *make_points(void)
{
    static double points[POINTS][DIMENSIONS];
    for (int i = 0; i < POINTS; i++) {
        double a = 3 * sin(12.9898 * i), b = sin(78.233 * i), c = 0.1 * sin(37.719 * i);
        points[i][0] = 5 + a + b;
        points[i][1] = 1 + a - b + c;
        points[i][2] = 2 - a + c;
    }
    return haul_from_host(HAUL_F64, HAUL_SHAPE(POINTS, DIMENSIONS), points);
}

static void show_components(haul_tensor *x)
{
    double       shares[DIMENSIONS] = {0}, spread[2] = {0};
    haul_tensor *variances, *directions;
    haul_eigh(haul_cov(haul_transpose(x, 0, 1)), &variances, &directions);
    variances = haul_flip(variances, HAUL_AXES(0)); /* the largest first */
    directions = haul_flip(directions, HAUL_AXES(1));
    haul_tensor *centred = haul_sub(x, haul_mean(x, HAUL_AXES(0)));
    haul_tensor *components = haul_matmul(centred, haul_index(directions, HAUL_ALL, HAUL_RANGE(0, 2, 1)));
    haul_read(haul_div(variances, haul_sum(variances)), shares, sizeof shares);
    haul_read(haul_var(components, HAUL_AXES(0)), spread, sizeof spread);
    printf("shares of the variance: %.4f %.4f %.4f\n", shares[0], shares[1], shares[2]);
    printf("variance of two components: %.4f %.4f\n", spread[0], spread[1]);
}

/* z = k[0] + k[1] x + k[2] y */
static void show_plane(haul_tensor *x)
{
    double       k[3] = {0};
    haul_tensor *ones = haul_ones(HAUL_F64, HAUL_SHAPE(POINTS, 1));
    haul_tensor *a = haul_cat((haul_tensor *[]){ones, haul_slice(x, 1, 0, 2, 1)}, 2, 1), *z = haul_slice(x, 1, 2, 3, 1);
    haul_tensor *found = haul_lstsq(a, z);
    haul_read(found, k, sizeof k);
    printf("plane: z = %.4f %+.4f x %+.4f y\n", k[0], k[1], k[2]);
    printf("mean error: %.4f\n", haul_item(haul_mean(haul_abs(haul_sub(haul_matmul(a, found), z)))));
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    haul_tensor *x = make_points();
    haul_scope  *analysis = haul_scope_push();
    haul_budget(.d2h_bytes = 9 * 8, .waits = 5); /* three, two and three numbers, and the mean error */
    show_components(x);
    show_plane(x);
    haul_scope_pop(analysis);
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
