#include "cli/model/answer.h"

#include <math.h>
#include <stdlib.h>

#include "cli/model/classes.h"
#include "cli/model/network.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/terminal.h"

/* ---- reading ---- */

/* The first of the most probable classes that are not taken; their probabilities become negative when they are. */
static int take_best(float *probabilities, int count)
{
    int best = -1;
    for (int i = 0; i < count; i++)
        if (probabilities[i] >= 0 && (best < 0 || probabilities[i] > probabilities[best]))
            best = i;
    return best;
}

static void take_all(float *probabilities, int count, int most, answer *out)
{
    for (out->count = 0; out->count < most; out->count++) {
        int best = take_best(probabilities, count);
        if (best < 0)
            break;
        out->top[out->count] = (answer_class){best, probabilities[best]};
        probabilities[best] = -1;
    }
}

static haul_status read_classes(haul_tensor *logits, int count, int most, answer *out)
{
    float *probabilities = calloc((size_t)count, sizeof *probabilities);
    if (!probabilities)
        return haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    haul_status status = haul_read(haul_softmax(logits, 1), probabilities, (size_t)count * sizeof *probabilities);
    if (!status)
        take_all(probabilities, count, most, out);
    free(probabilities);
    return status;
}

static haul_status read_yes(haul_tensor *logits, int most, answer *out)
{
    double yes = haul_item(haul_sigmoid(haul_select(haul_reshape(logits, HAUL_SHAPE(-1)), 0, 0)));
    bool   is_yes = yes > 0.5;
    out->top[0] = (answer_class){is_yes, is_yes ? yes : 1 - yes};
    out->top[1] = (answer_class){!is_yes, is_yes ? 1 - yes : yes};
    out->count = most < 2 ? most : 2;
    return haul_error_status();
}

/* Each class with its share of the pixels. */
static haul_status read_shares(const data_spec *spec, haul_tensor *logits, int most, answer *out)
{
    haul_tensor  *classes = network_classes(spec, logits);
    const int64_t pixels = haul_tensor_count(classes);
    int64_t      *found = calloc((size_t)pixels, sizeof *found);
    float        *shares = calloc((size_t)spec->y.classes, sizeof *shares);
    haul_status   status = found && shares ? haul_read(classes, found, (size_t)pixels * sizeof *found)
                                           : haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    for (int64_t i = 0; i < pixels && !status; i++)
        if (found[i] < spec->y.classes)
            shares[found[i]]++;
    for (int i = 0; i < spec->y.classes && !status; i++)
        shares[i] /= (float)pixels;
    if (!status)
        take_all(shares, spec->y.classes, most, out);
    free(found);
    free(shares);
    return status;
}

haul_status answer_read(const data_spec *spec, haul_tensor *logits, int most, answer *out)
{
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return haul_error_status();
    most = most < ANSWER_MOST ? most : ANSWER_MOST;
    haul_status status = source_task(spec) == TASK_PIXELS ? read_shares(spec, logits, most, out)
                         : spec->y.dtype == HAUL_I64      ? read_classes(logits, spec->y.classes, most, out)
                                                          : read_yes(logits, most, out);
    haul_scope_pop(scope);
    if (!status && !out->count)
        status = haul_error_set(HAUL_STATE, NULL, NULL, "the network's result is not a number; train it again");
    return status;
}

/* ---- printing ---- */

const char *answer_name(const cJSON *classes, int index)
{
    static char numbers[4][16];
    static int  at;
    const char *name = classes_name(classes, index);
    if (name)
        return name;
    at = (at + 1) % 4;
    snprintf(numbers[at], sizeof numbers[at], "%d", index);
    return numbers[at];
}

const char *answer_percent(double probability)
{
    static char texts[4][8];
    static int  at;
    int         percent = whole_within(round(100 * probability), 0, probability < 1 ? 99 : 100);
    at = (at + 1) % 4;
    if (isnan(probability))
        snprintf(texts[at], sizeof texts[at], "-");
    else
        snprintf(texts[at], sizeof texts[at], percent || probability <= 0 ? "%d %%" : "<1 %%", percent);
    return texts[at];
}

static void print_bar(double probability, int width)
{
    int length = whole_within(round(probability * width), 0, width);
    printf("%s", length ? "  " : "");
    while (length-- > 0)
        putchar('#');
}

static int longest_name(const answer *a, const cJSON *classes)
{
    int longest = 0;
    for (int i = 0; i < a->count; i++) {
        int columns = text_columns(answer_name(classes, a->top[i].index));
        longest = columns > longest ? columns : longest;
    }
    return longest;
}

void answer_print(const answer *a, const cJSON *classes, const char *name, int name_width)
{
    enum { BAR = 30, GAPS = 2 + 2 + 5 + 2, LEAST_BAR = 5 };
    int room = output_room() - name_width - GAPS, class_width = longest_name(a, classes);
    int bar = room - class_width < BAR ? room - class_width : BAR;
    if (bar < LEAST_BAR) {
        bar = 0;
        class_width = class_width < room ? class_width : room > 1 ? room : 1;
    }
    for (int i = 0; i < a->count; i++) {
        print_fitted(i ? "" : name, name_width);
        printf("  ");
        set_style(i ? STYLE_PLAIN : STYLE_BOLD);
        print_fitted(answer_name(classes, a->top[i].index), class_width);
        set_style(STYLE_PLAIN);
        printf("  %5s", answer_percent(a->top[i].probability));
        print_bar(a->top[i].probability, bar);
        putchar('\n');
    }
}

void answer_to_json(const answer *a, const cJSON *classes, cJSON *event)
{
    json_text(event, "class", answer_name(classes, a->top[0].index));
    json_number(event, "probability", a->top[0].probability);
    cJSON *top = json_array(event, "top");
    for (int i = 0; i < a->count; i++) {
        cJSON *one = cJSON_CreateObject();
        json_text(one, "class", answer_name(classes, a->top[i].index));
        json_number(one, "probability", a->top[i].probability);
        json_push(top, one);
    }
}
