/* A picture is read, made smaller, turned, blurred, equalised, and written, on any device. Without a file it is drawn
 * first: waves of colours, dark and with little contrast.
 *
 *     picture [DEVICE [FILE]] */
#include <haul/haul.h>
#include <stdio.h>

enum { SIDE = 96, SMALL = 64 };

static void draw(const char *path)
{
    haul_tensor *x = haul_linspace(HAUL_F32, 0, 12, SIDE), *y = haul_unsqueeze(x, 1), *planes[3];
    for (int c = 0; c < 3; c++) {
        haul_tensor *wave = haul_sin(haul_add_scalar(haul_add(haul_mul_scalar(x, 1 + c), haul_mul(y, x)), c));
        planes[c] = haul_affine(wave, 0.1, 0.25);
    }
    haul_save_image(path, haul_stack(planes, 3, 0));
}

static void print(const char *what, haul_tensor *x)
{
    float        level[6];
    haul_tensor *both[] = {haul_mean(x, HAUL_AXES(1, 2)), haul_std(x, HAUL_AXES(1, 2))};
    haul_read(haul_stack(both, 2, 0), level, sizeof level);
    printf("%s: mean %.2f %.2f %.2f, deviation %.2f %.2f %.2f\n", what, level[0], level[1], level[2], level[3],
           level[4], level[5]);
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    if (argc < 3)
        draw("picture.png");
    haul_tensor *x = haul_div_scalar(haul_read_image(argc > 2 ? argv[2] : "picture.png"), 255);
    print("read", x);
    haul_scope *pipeline = haul_scope_push();
    haul_budget(.d2h_bytes = 3 * SMALL * SMALL + 6 * 4, .waits = 2); /* the result, and six numbers */
    x = haul_interpolate(haul_unsqueeze(x, 0), .size = {SMALL, SMALL}, .mode = HAUL_BILINEAR, .antialias = true);
    x = haul_rotate(haul_squeeze(x, 0), 20, .mode = HAUL_BILINEAR);
    x = haul_equalize(haul_gaussian_blur(x, 5, 1.5));
    print("made", x);
    haul_save_image("made.png", x);
    haul_scope_pop(pipeline);
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
