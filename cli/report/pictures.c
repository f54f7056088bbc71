/* A grid of pictures with the network's answers. */
#include <math.h>
#include <stdlib.h>

#include "cli/model/answer.h"
#include "cli/report/answers.h"
#include "cli/report/page.h"
#include "cli/report/text.h"
#include "cli/shared/png.h"

enum { SIDE = 40 }; /* larger pictures are reduced to it */

static unsigned char byte_of(const input_form *form, float value)
{
    double byte = round(255 * ((double)value * form->deviation + form->mean));
    return (unsigned char)(byte > 0 ? fmin(byte, 255) : 0);
}

/* The mean of a rectangle of one channel. */
static float mean_of(const float *channel, int64_t width, const int64_t from[2], const int64_t to[2])
{
    double sum = 0;
    for (int64_t y = from[0]; y < to[0]; y++)
        for (int64_t x = from[1]; x < to[1]; x++)
            sum += (double)channel[y * width + x];
    return (float)(sum / (double)((to[0] - from[0]) * (to[1] - from[1])));
}

/* From values [channels][height][width] to bytes [high][wide][channels]. */
static void reduce(const input_form *form, const float *values, int wide, int high, unsigned char *out)
{
    int64_t channels = form->shape.dims[0], height = form->shape.dims[1], width = form->shape.dims[2];
    for (int y = 0; y < high; y++)
        for (int x = 0; x < wide; x++)
            for (int64_t c = 0; c < channels; c++) {
                int64_t from[] = {y * height / high, x * width / wide};
                int64_t to[] = {(y + 1) * height / high, (x + 1) * width / wide};
                *out++ = byte_of(form, mean_of(values + c * height * width, width, from, to));
            }
}

static bool write_picture(html *h, const input_form *form, const float *values)
{
    int64_t        height = form->shape.dims[1], width = form->shape.dims[2], longest = width > height ? width : height;
    int            wide = (int)(longest > SIDE ? width * SIDE / longest : width), channels = (int)form->shape.dims[0];
    int            high = (int)(longest > SIDE ? height * SIDE / longest : height);
    size_t         size = 0;
    unsigned char  pixels[3 * SIDE * SIDE];
    unsigned char *png = NULL;
    wide = wide < 1 ? 1 : wide;
    high = high < 1 ? 1 : high;
    reduce(form, values, wide, high, pixels);
    png = png_encode(pixels, wide, high, channels, &size);
    if (!png)
        return false;
    html_add(h, "<img width=\"%d\" height=\"%d\"", wide, high);
    html_png(h, png, size);
    free(png);
    return true;
}

static void write_answer(html *h, const page_answers *a, const page_answer *given)
{
    const char *wanted = answer_name(a->network.classes, given->wanted);
    const char *predicted = answer_name(a->network.classes, given->predicted);
    bool        right = given->wanted == given->predicted;
    html_add(h, " alt=\"%s%s, taken for %s\">", right ? "" : "wrong: ", wanted, predicted);
    html_add(h, "<span class=\"sure\"><i style=\"width:%.0f%%\"></i></span>", 100 * (double)given->probability);
    html_put(h, right ? "<span>\xe2\x9c\x93\xc2\xa0" : "<b class=\"bad\">\xe2\x9c\x97\xc2\xa0");
    html_name(h, predicted);
    html_put(h, right ? "</span>" : "</b>");
    html_add(h, "<span>%s</span>", say_percent((double)given->probability));
    if (right)
        return;
    html_put(h, "<span>is ");
    html_name(h, wanted);
    html_put(h, "</span>");
}

/* The example's input, which is copied to `values`. */
static bool read_example(const page_answers *a, int64_t index, float *values, size_t bytes)
{
    haul_scope  *scope = haul_scope_push();
    haul_loader *loader = scope ? haul_loader_new(a->network.data, .batch = 1, .device = haul_cpu()) : NULL;
    bool         done = loader && !haul_loader_start_at(loader, 0, index);
    if (done) {
        const haul_batch *batch = haul_loader_next(loader);
        done = batch && !haul_read(batch->x, values, bytes);
    }
    haul_scope_pop(scope);
    return done;
}

bool page_pictures(html *h, const page_answers *a, const int64_t *chosen, int count)
{
    const input_form *form = &a->network.input;
    size_t            values = (size_t)(form->shape.dims[0] * form->shape.dims[1] * form->shape.dims[2]);
    float            *example = calloc(values, sizeof *example);
    bool              done = example != NULL;
    html_put(h, "<ul class=\"pictures\">\n");
    for (int i = 0; i < count && done; i++) {
        const page_answer *given = &a->list[chosen[i]];
        done = read_example(a, chosen[i], example, values * sizeof *example);
        html_put(h, !done || given->wanted == given->predicted ? "<li>" : "<li class=\"wrong\">");
        done = done && write_picture(h, form, example);
        if (done)
            write_answer(h, a, given);
        html_put(h, "</li>\n");
    }
    html_put(h, "</ul>\n");
    free(example);
    return done;
}
