/* The network on the page: a drawing of each layer's result in the order of the network, with shapes, and a table. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/report/page.h"
#include "cli/report/text.h"

enum { ROOMY = 20, MOST_DRAWN = 120, BASE = 58 };

/* "6 x 28 x 28": without the mini-batch, which comes first. */
static const char *shape_text(const cJSON *output, char *out, size_t size)
{
    int count = cJSON_GetArraySize(output);
    snprintf(out, size, "-");
    for (int i = 1; i < count && i < 8; i++) {
        size_t used = i == 1 ? 0 : strlen(out);
        snprintf(out + used, size - used, "%s%.0f", i == 1 ? "" : "\xc3\x97",
                 cJSON_GetNumberValue(cJSON_GetArrayItem(output, i)));
    }
    return out;
}

static double size_at(const cJSON *output, int at)
{
    const cJSON *item = cJSON_GetArrayItem(output, at);
    return cJSON_IsNumber(item) && item->valuedouble >= 1 && item->valuedouble < 1e12 ? item->valuedouble : 1;
}

/* From 4 to 44, by the logarithm. */
static double length_of(double size)
{
    return fmin(4 + 4.4 * log2(size), 44);
}

/* A box as wide as there are channels, and as high and deep as the picture; features are a bar. */
static void draw(html *h, const cJSON *output, bool learns)
{
    bool   picture = cJSON_GetArraySize(output) == 4;
    double wide = picture ? length_of(size_at(output, 1)) * 0.75 : 7;
    double high = picture ? length_of(size_at(output, 2)) : length_of(size_at(output, 1));
    double deep = picture ? 0.4 * length_of(size_at(output, 3)) : 3;
    double x = 2, y = BASE - high;
    html_add(h, "<svg viewBox=\"0 0 %.0f 62\" width=\"%.0f\" height=\"87\" aria-hidden=\"true\" class=\"%s\">",
             ceil(wide + deep + 4), 1.4 * ceil(wide + deep + 4), learns ? "learns" : "fixed");
    html_add(h, "<path d=\"M%.1f %.1fl%.1f %.1fh%.1fl%.1f %.1fz\" class=\"lit\"/>", x, y, deep, -deep / 2, wide, -deep,
             deep / 2);
    html_add(h, "<path d=\"M%.1f %.1fl%.1f %.1fv%.1fl%.1f %.1fz\" class=\"dim\"/>", x + wide, y, deep, -deep / 2, high,
             -deep, deep / 2);
    html_add(h, "<path d=\"M%.1f %.1fh%.1fv%.1fh%.1fz\"/></svg>", x, y, wide, high, -wide);
}

static void write_layer(html *h, const cJSON *layer)
{
    const cJSON *output = document_list(layer, "output");
    double       parameters = number_of(layer, "parameters");
    char         shape[120];
    html_put(h, "<li>");
    draw(h, output, parameters > 0);
    html_put(h, "<b>");
    html_name(h, document_text(layer, "name"));
    html_put(h, "</b>");
    if (strcmp(document_text(layer, "kind"), document_text(layer, "name")) != 0)
        html_add(h, "<small>%s</small>", document_text(layer, "kind"));
    html_add(h, "<span>%s</span>", shape_text(output, shape, sizeof shape));
    if (parameters > 0)
        html_add(h, "<small>%s par.</small>", say_count(parameters));
    html_put(h, "</li>\n");
}

static double sum_of(const cJSON *layers, const char *name, const cJSON **largest)
{
    const cJSON *layer;
    double       sum = 0, most = 0;
    *largest = NULL;
    cJSON_ArrayForEach(layer, layers)
    {
        double value = number_of(layer, name);
        sum += value > 0 ? value : 0;
        if (value > most) {
            most = value;
            *largest = layer;
        }
    }
    return sum;
}

static void write_table(html *h, const cJSON *layers)
{
    const cJSON *layer, *largest;
    double       flops = sum_of(layers, "flops", &largest), parameters = sum_of(layers, "parameters", &largest);
    char         shape[120];
    page_folded_table(h, "layers, with the arithmetic of the forward pass for a mini-batch",
                      "Layer|Kind|Result of an example|#Parameters|#Forward|Share of the arithmetic|#");
    cJSON_ArrayForEach(layer, layers)
    {
        double flop = number_of(layer, "flops");
        html_put(h, "<tr><th scope=\"row\">");
        html_name(h, document_text(layer, "name"));
        html_add(h, "</th><td>%s</td><td>%s</td>", document_text(layer, "kind"),
                 shape_text(document_list(layer, "output"), shape, sizeof shape));
        page_number(h, say_count(number_of(layer, "parameters")));
        page_number(h, say_flop(flop));
        page_bar(h, flops > 0 ? flop / flops : 0, "a");
        page_number(h, flops > 0 ? say_share(flop / flops) : "-");
        html_put(h, "</tr>\n");
    }
    html_put(h, "</tbody><tfoot><tr><th scope=\"row\">all</th><td></td><td></td>");
    page_number(h, say_count(parameters));
    page_number(h, say_flop(flops));
    html_put(h, "<td></td><td></td></tr></tfoot><tbody>");
    page_folded_end(h);
}

static void write_lead(html *h, const cJSON *network, const cJSON *layers)
{
    const cJSON *wide, *slow;
    double       parameters = sum_of(layers, "parameters", &wide), flops = sum_of(layers, "flops", &slow);
    html_add(h, "<p>%s with %s parameters (%s).", page_plural(cJSON_GetArraySize(layers), "layer"),
             say_count(number_of(network, "parameters")), say_bytes(number_of(network, "parameter_bytes")));
    if (isfinite(number_of(network, "step_flops")))
        html_add(h, " A training step is %s.", say_flop(number_of(network, "step_flops")));
    html_put(h, "</p><p>");
    if (wide) {
        html_name(h, document_text(wide, "name"));
        html_add(h, " has %s of the parameters. ", say_share(number_of(wide, "parameters") / parameters));
    }
    if (slow) {
        html_name(h, document_text(slow, "name"));
        html_add(h, " has %s of the arithmetic of the forward pass.", say_share(number_of(slow, "flops") / flops));
    }
    html_put(h, "</p>");
}

void page_network(page *p)
{
    const cJSON *network = p->runs[0].network, *layers = document_list(network, "layers"), *layer;
    int          drawn = 0;
    if (!cJSON_GetArraySize(layers)) {
        page_lacks(p, "Network", "the log has no network event; a training without --resume writes one");
        return;
    }
    html *h = page_begin(p, "network", "Network");
    write_lead(h, network, layers);
    html_put(h, "<p class=\"note\">Sizes of the boxes are logarithmic. Filled: layers with parameters.</p>");
    page_body(p);
    html_put(h, cJSON_GetArraySize(layers) > ROOMY ? "<ol class=\"net dense\">\n" : "<ol class=\"net\">\n");
    cJSON_ArrayForEach(layer, layers)
    {
        if (drawn++ < MOST_DRAWN)
            write_layer(h, layer);
    }
    html_put(h, "</ol>\n");
    if (drawn > MOST_DRAWN)
        html_add(h, "<p class=\"note\">%s more are in the table.</p>", page_plural(drawn - MOST_DRAWN, "layer"));
    write_table(h, layers);
    page_end(p);
}
