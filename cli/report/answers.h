/* What the trained network says about the data that it was not trained on: for the pictures and the confusion matrix of
 * the page. */
#ifndef CLI_REPORT_ANSWERS_H
#define CLI_REPORT_ANSWERS_H

#include "cli/model/confusion.h"
#include "cli/model/network.h"
#include "cli/predict/predictor.h"
#include "cli/report/draw/html.h"

typedef struct page_answer {
    int32_t wanted, predicted;
    float   probability; /* of the predicted class */
} page_answer;

typedef struct page_answers {
    predict_options options;
    predictor       network;
    confusion       confusion; /* counts of all examples */
    network_score   score;
    page_answer    *list; /* in the order of the data; NULL: the targets are not classes */
    int64_t         count, room;
} page_answers;

/* Pictures of some examples, the wrong ones marked. `chosen` are their indices. False after a failure, with the
 * library's error. */
bool page_pictures(html *h, const page_answers *a, const int64_t *chosen, int count);

/* The table of classes by predicted classes or, for many classes, the most confused ones. */
void page_confusion(html *h, const page_answers *a);

#endif
