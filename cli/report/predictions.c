/* Predictions on the page: the network of the best epoch answers for all examples of the test data. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/model/answer.h"
#include "cli/report/answers.h"
#include "cli/report/page.h"
#include "cli/report/text.h"
#include "cli/shared/cli.h"

enum { FIRST = 20, SUREST = 10, BATCH = 64 };

/* ---- answers ---- */

static void take(page_answers *a, const float *probabilities, const int64_t *wanted, int64_t count, int classes)
{
    for (int64_t i = 0; i < count && a->count < a->room; i++) {
        const float *of = probabilities + i * classes;
        page_answer  one = {.wanted = (int32_t)wanted[i], .probability = of[0]};
        for (int j = 1; j < classes; j++)
            if (of[j] > one.probability) {
                one.probability = of[j];
                one.predicted = j;
            }
        a->list[a->count++] = one;
    }
}

static haul_status read_answers(page_answers *a, haul_tensor *logits, haul_tensor *y)
{
    const haul_shape shape = haul_tensor_shape(logits);
    int64_t          count = shape.dims[0], classes = a->network.spec.y.classes;
    bool             fits = shape.ndim == 2 && shape.dims[1] == classes && haul_tensor_count(y) == count;
    float           *probabilities = fits ? calloc((size_t)(count * classes), sizeof *probabilities) : NULL;
    int64_t         *wanted = fits ? calloc((size_t)count, sizeof *wanted) : NULL;
    haul_status      status = HAUL_OK;
    if (fits && (!probabilities || !wanted))
        status = haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    else if (fits)
        status = haul_read(haul_cast(haul_softmax(logits, 1), HAUL_F32), probabilities,
                           (size_t)(count * classes) * sizeof *probabilities);
    if (fits && !status)
        status = haul_read(y, wanted, (size_t)count * sizeof *wanted);
    if (fits && !status)
        take(a, probabilities, wanted, count, (int)classes);
    free(probabilities);
    free(wanted);
    return status;
}

static haul_status see(haul_tensor *logits, haul_tensor *y, void *context)
{
    page_answers *a = context;
    haul_status   status = confusion_add(&a->confusion, &a->network.spec, logits, y);
    return status || !a->list ? status : read_answers(a, logits, y);
}

/* False after a complaint. */
static bool ask(page_answers *a)
{
    network_watch watch = {.see = see, .context = a};
    a->room = haul_dataset_count(a->network.data);
    if (a->network.spec.y.dtype == HAUL_I64 && source_task(&a->network.spec) == TASK_ANSWER && a->room > 0 &&
        a->room < INT32_MAX)
        a->list = calloc((size_t)a->room, sizeof *a->list);
    if (!confusion_init(&a->confusion, &a->network.spec)) {
        complain("memory is exhausted");
        return false;
    }
    haul_loader *loader = haul_loader_new(a->network.data, .batch = BATCH, .workers = 2, .device = a->network.device);
    if (loader && !network_evaluate(a->network.net, &a->network.spec, loader, &watch, &a->score))
        return true;
    complain_error();
    return false;
}

static void close_answers(page_answers *a)
{
    predictor_close(&a->network);
    confusion_free(&a->confusion);
    free(a->list);
    *a = (page_answers){0};
}

/* On the run's device if it is there, else on any. `why` describes a failure; *exhausted: memory is exhausted. */
static bool open_answers(page_answers *a, const page_run *run, char *why, size_t size, bool *exhausted)
{
    const char *devices[] = {document_text(run->start, "device"), "auto"};
    for (int i = 0; i < 2; i++) {
        if (!*devices[i])
            continue;
        *a = (page_answers){.options = {.run = run->path, .device = devices[i], .top = 1, .batch = BATCH}};
        complain_into(why, size);
        bool done = predictor_open(&a->network, &a->options) && ask(a);
        complain_into(NULL, 0);
        if (done)
            return true;
        *exhausted = haul_error_status() == HAUL_OUT_OF_MEMORY || !strcmp(why, "memory is exhausted");
        haul_error_clear();
        close_answers(a);
    }
    return false;
}

/* ---- choosing ---- */

static bool is_wrong(const page_answer *given)
{
    return given->wanted != given->predicted;
}

/* The wrong answers of the highest probability, the surest first. */
static int choose_surest(const page_answers *a, int64_t *chosen)
{
    int count = 0;
    for (int64_t i = 0; i < a->count; i++) {
        if (!is_wrong(&a->list[i]) ||
            (count == SUREST && a->list[i].probability <= a->list[chosen[count - 1]].probability))
            continue;
        int at = count < SUREST ? count++ : count - 1;
        for (; at && a->list[chosen[at - 1]].probability < a->list[i].probability; at--)
            chosen[at] = chosen[at - 1];
        chosen[at] = i;
    }
    return count;
}

static int64_t count_wrong(const page_answers *a)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < a->count; i++)
        wrong += is_wrong(&a->list[i]);
    return wrong;
}

/* ---- the section ---- */

static void write_lead(html *h, const page_answers *a)
{
    const predictor *n = &a->network;
    int64_t          examples = haul_dataset_count(n->data);
    html_add(h, "<p>The network of the %s epoch answered for all %s examples of ", n->best ? "best" : "last",
             say_count((double)examples));
    html_name(h, haul_dataset_name(n->data));
    html_add(h, ": accuracy %s, loss %s.</p>", say_share(a->score.accuracy), say_loss(a->score.loss));
    if (a->list)
        html_add(h, "<p>%s of them are wrong.</p>", say_count((double)count_wrong(a)));
}

static void write_pictures(html *h, const page_answers *a)
{
    int64_t chosen[FIRST > SUREST ? FIRST : SUREST];
    int     count = a->count < FIRST ? (int)a->count : FIRST, wrong = 0;
    for (int i = 0; i < count; i++) {
        chosen[i] = i;
        wrong += is_wrong(&a->list[i]);
    }
    html_add(h, "<h3>The first %d <small>%d of them right; the bar is the probability of the answer</small></h3>",
             count, count - wrong);
    bool done = page_pictures(h, a, chosen, count);
    count = choose_surest(a, chosen);
    if (done && count) {
        html_add(h, "<h3>The surest mistakes <small>%d of %s</small></h3>", count, say_count((double)count_wrong(a)));
        done = page_pictures(h, a, chosen, count);
    }
    if (!done && (!haul_error_status() || haul_error_status() == HAUL_OUT_OF_MEMORY))
        h->failed = true;
    else if (!done)
        html_add(h, "<p class=\"note\">Pictures could not be read: %s.</p>", error_text());
    haul_error_clear();
}

void page_predictions(page *p)
{
    if (p->runs[0].program)
        return;
    page_answers a;
    char         why[900] = "memory is exhausted";
    bool         exhausted = true;
    haul_scope  *scope = haul_scope_push();
    if (!scope || !open_answers(&a, &p->runs[0], why, sizeof why, &exhausted)) {
        page_lacks(p, "Predictions and confusion matrix", why);
        p->sections.failed = p->sections.failed || exhausted;
        haul_scope_pop(scope);
        return;
    }
    html *h = page_begin(p, "predictions", "Predictions");
    write_lead(h, &a);
    html_put(h, "<p class=\"note\">A thick frame and \xe2\x9c\x97 mark a wrong answer.</p>");
    page_body(p);
    if (a.list && input_is_picture(&a.network.input))
        write_pictures(h, &a);
    page_confusion(h, &a);
    page_end(p);
    close_answers(&a);
    haul_scope_pop(scope);
}
