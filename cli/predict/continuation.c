#include "cli/predict/continuation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/model/answer.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"

/* All characters so far, as numbers. */
typedef struct tokens {
    int64_t *items;
    int64_t  count;
} tokens;

/* ---- the prompt ---- */

/* The number of the character of `length` bytes; -1 if the network does not know it. */
static int64_t number_of(const predictor *p, const char *character, size_t length)
{
    int64_t number = 0;
    for (const cJSON *known = p->classes->child; known; known = known->next, number++) {
        const char *name = cJSON_GetStringValue(known);
        if (name && strlen(name) == length && !memcmp(name, character, length))
            return number;
    }
    return -1;
}

static bool complain_unknown(const predictor *p, const char *character, size_t length)
{
    char text[8];
    snprintf(text, sizeof text, "%.*s", (int)length, character);
    complain("--prompt: the text that %s was trained on has no '%s'; use its %d characters", p->options->run, text,
             cJSON_GetArraySize(p->classes));
    return false;
}

/* `out` has room for all characters. */
static bool read_prompt(const predictor *p, tokens *out)
{
    const char *prompt = p->options->prompt;
    for (size_t length; *prompt; prompt += length) {
        uint32_t code;
        length = character_at(prompt, &code);
        const int64_t number = number_of(p, prompt, length);
        if (number < 0)
            return complain_unknown(p, prompt, length);
        out->items[out->count++] = number;
    }
    return true;
}

/* ---- the characters that follow ---- */

/* One of the characters at random, by their probabilities; the most probable one at temperature 0. */
static int64_t choose(const float *logits, int count, double temperature, haul_draws *draws)
{
    int    best = 0;
    double sum = 0;
    for (int i = 1; i < count; i++)
        best = logits[i] > logits[best] ? i : best;
    if (temperature == 0)
        return best;
    for (int i = 0; i < count; i++)
        sum += exp(((double)logits[i] - (double)logits[best]) / temperature);
    double left = haul_draw_unit(draws) * sum;
    for (int i = 0; i < count; i++)
        if ((left -= exp(((double)logits[i] - (double)logits[best]) / temperature)) < 0)
            return i;
    return best;
}

/* The logits of the character that follows the last ones, as many as the network reads. */
static haul_status ask(const predictor *p, const tokens *t, float *logits)
{
    const int64_t context = p->input.shape.dims[0], length = t->count < context ? t->count : context;
    haul_scope   *scope = haul_scope_push();
    if (!scope)
        return haul_error_status();
    haul_tensor *x = haul_from_host(HAUL_I64, HAUL_SHAPE(1, length), t->items + t->count - length);
    haul_tensor *last = haul_select(haul_call(p->net, x), 1, -1);
    haul_status  status = haul_read(haul_cast(last, HAUL_F32), logits, (size_t)p->spec.y.classes * sizeof *logits);
    haul_scope_pop(scope);
    return status;
}

static bool write_on(const predictor *p, tokens *t)
{
    haul_draws draws = haul_draws_new((uint64_t)p->options->seed, 0, 0);
    float     *logits = calloc((size_t)p->spec.y.classes, sizeof *logits);
    bool       done = logits || (complain("memory is exhausted"), false);
    for (int64_t i = 0; i < p->options->length && done; i++) {
        done = !ask(p, t, logits) || !complain_error();
        if (done)
            t->items[t->count++] = choose(logits, p->spec.y.classes, p->options->temperature, &draws);
    }
    free(logits);
    return done;
}

/* ---- printing ---- */

/* Characters from a file may be some that a terminal obeys; line ends and tabs may pass. */
static void print_character(const char *character)
{
    uint32_t code;
    if (*character == '\n' || *character == '\t' || !obeyed_length(character, &code))
        fputs(character, stdout);
    else
        print_visible(character, 0);
}

/* The characters from `first` on as a text, to free; NULL if memory is exhausted. */
static char *text_of(const predictor *p, const tokens *t, int64_t first)
{
    size_t size = 1;
    for (int64_t i = first; i < t->count; i++)
        size += strlen(answer_name(p->classes, (int)t->items[i]));
    char *text = malloc(size), *at = text;
    for (int64_t i = first; text && i < t->count; i++)
        at = stpcpy(at, answer_name(p->classes, (int)t->items[i]));
    if (text)
        *at = 0;
    return text;
}

static bool print(const predictor *p, const tokens *t, int64_t prompt)
{
    if (!p->options->json) {
        for (int64_t i = 0; i < t->count; i++)
            print_character(answer_name(p->classes, (int)t->items[i]));
        putchar('\n');
        return output_works();
    }
    char  *text = text_of(p, t, prompt);
    cJSON *event = text ? json_event("continuation") : NULL;
    if (!event) {
        free(text);
        return complain("memory is exhausted"), false;
    }
    json_text(event, "prompt", p->options->prompt);
    json_text(event, "text", text);
    free(text);
    return json_print(event);
}

bool continue_prompt(const predictor *p)
{
    const size_t room = strlen(p->options->prompt) + (size_t)p->options->length + 1;
    tokens       t = {.items = calloc(room, sizeof *t.items)};
    bool         done = t.items || (complain("memory is exhausted"), false);
    done = done && read_prompt(p, &t);
    const int64_t prompt = t.count;
    done = done && write_on(p, &t) && print(p, &t, prompt);
    free(t.items);
    return done;
}
