/* A text that a network continues, character by character. */
#ifndef CLI_PREDICT_CONTINUATION_H
#define CLI_PREDICT_CONTINUATION_H

#include "cli/predict/predictor.h"

/* Print the prompt of the options and the characters that follow it. False after a complaint. */
bool continue_prompt(const predictor *p);

#endif
