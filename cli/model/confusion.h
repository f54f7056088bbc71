/* Which classes are taken for which: counts of examples, or of pixels, by their class and the predicted one. */
#ifndef CLI_MODEL_CONFUSION_H
#define CLI_MODEL_CONFUSION_H

#include <cjson/cJSON.h>
#include <haul/haul.h>
#include <stdint.h>

#include "cli/model/source.h"

typedef struct confusion {
    const char *unit; /* of the counts: "examples", "pixels" */
    int         classes;
    int64_t    *counts; /* [classes][classes]: rows are the true classes */
} confusion;

/* As many classes as the data has; none, and nothing is counted, if it has none or is a text. False if memory is
 * exhausted. */
bool confusion_init(confusion *c, const data_spec *spec);
void confusion_free(confusion *c);

/* Count the examples of a mini-batch. */
haul_status confusion_add(confusion *c, const data_spec *spec, haul_tensor *logits, haul_tensor *y);

/* The mean over the classes of the answers that are right, divided by those that are of the class or were taken for it:
 * intersection over union. Classes that do not occur do not count. */
double confusion_mean_iou(const confusion *c);

/* The accuracy of each class and, for up to 20 classes that fit on the line, which classes they were taken for; else
 * the pairs that are confused most. */
void confusion_print(const confusion *c, const cJSON *names);

/* The fields classes and confusion. */
void confusion_to_json(const confusion *c, const cJSON *names, cJSON *event);

#endif
