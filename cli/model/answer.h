/* What a network says about one example: the classes that are most probable. */
#ifndef CLI_MODEL_ANSWER_H
#define CLI_MODEL_ANSWER_H

#include <cjson/cJSON.h>
#include <haul/haul.h>

#include "cli/model/source.h"

enum { ANSWER_MOST = 100 };

typedef struct answer_class {
    int    index;
    double probability;
} answer_class;

typedef struct answer {
    answer_class top[ANSWER_MOST]; /* the most probable first */
    int          count;
} answer;

/* The `most` most probable classes from the logits of one example; of one whose pixels have classes those with the most
 * pixels, and their shares. Without classes, 1 and 0 are the classes of the first logit. */
haul_status answer_read(const data_spec *spec, haul_tensor *logits, int most, answer *out);

/* The name of class `index` among those of a run; its number if it has none. Valid for the next few calls. */
const char *answer_name(const cJSON *classes, int index);

/* Whole per cent, 100 only for certainty: "<1%", "42%", "99%". Valid for the next few calls. */
const char *answer_percent(double probability);

/* Lines with a bar for each class, the first of which begins with the name of the picture. Names get `name_width`
 * columns. */
void answer_print(const answer *a, const cJSON *classes, const char *name, int name_width);

/* The fields class, probability and top. */
void answer_to_json(const answer *a, const cJSON *classes, cJSON *event);

#endif
