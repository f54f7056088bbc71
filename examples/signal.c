/* Two tones and noise: which tones there are, and the signal without the noise, by a Fourier transform.
 *
 *     signal [DEVICE] */
#include <haul/haul.h>
#include <math.h>
#include <stdio.h>

enum { SAMPLES = 3000, RATE = 1000, LIMIT = 60 }; /* samples, samples in a second, and hertz that are kept */

/* 5 Hz and 42 Hz, with a tone of 180 Hz and noise on top of them in `noisy`. */
static void make_signal(haul_tensor **clean, haul_tensor **noisy)
{
    static double a[SAMPLES], b[SAMPLES];
    const double  turn = 2 * acos(-1);
    for (int i = 0; i < SAMPLES; i++) {
        double t = (double)i / RATE;
        a[i] = sin(turn * 5 * t) + 0.5 * cos(turn * 42 * t);
        b[i] = a[i] + 0.4 * sin(turn * 180 * t) + 0.3 * sin(12.9898 * i * i);
    }
    *clean = haul_from_host(HAUL_F64, HAUL_SHAPE(SAMPLES), a);
    *noisy = haul_from_host(HAUL_F64, HAUL_SHAPE(SAMPLES), b);
}

/* The root of the mean square. */
static double rms(haul_tensor *x)
{
    return sqrt(haul_item(haul_mean(haul_mul(x, x))));
}

int main(int argc, char **argv)
{
    haul_tensor *clean, *noisy, *largest, *where;
    double       hertz[3] = {0}, size[3] = {0};
    haul_scope  *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    make_signal(&clean, &noisy);
    haul_scope *analysis = haul_scope_push();
    haul_budget(.d2h_bytes = 8 * 8, .waits = 4); /* three tones with their sizes, and two errors */
    haul_tensor *terms = haul_rfft(noisy, -1);   /* [SAMPLES / 2 + 1, 2], real and imaginary parts */
    haul_topk(haul_norm(terms, HAUL_AXES(1)), 3, 0, true, &largest, &where);
    haul_read(haul_mul_scalar(haul_cast(where, HAUL_F64), (double)RATE / SAMPLES), hertz, sizeof hertz);
    haul_read(haul_mul_scalar(largest, 2.0 / SAMPLES), size, sizeof size);
    for (int i = 0; i < 3; i++)
        printf("%6.1f Hz, amplitude %.3f\n", hertz[i], size[i]);
    haul_tensor *bin = haul_arange_i64(0, SAMPLES / 2 + 1, 1);
    haul_tensor *kept =
        haul_where_scalar(haul_unsqueeze(haul_lt_scalar(bin, (double)LIMIT * SAMPLES / RATE), 1), terms, 0);
    haul_tensor *filtered = haul_irfft(kept, -1, .n = SAMPLES);
    printf("error before: %.4f, after: %.4f\n", rms(haul_sub(noisy, clean)), rms(haul_sub(filtered, clean)));
    haul_scope_pop(analysis);
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
