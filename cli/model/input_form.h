/* What an example becomes before the network sees it: kept with a run, so that the network meets new pictures as it met
 * those it learned from. */
#ifndef CLI_MODEL_INPUT_FORM_H
#define CLI_MODEL_INPUT_FORM_H

#include <cjson/cJSON.h>
#include <haul/haul.h>

typedef struct input_form {
    haul_shape shape;           /* [channels, height, width] of pictures */
    double     mean, deviation; /* bytes become (byte / 255 - mean) / deviation; deviation 0: the input is not bytes */
} input_form;

/* The form that training gives to the field x of raw data. */
input_form input_form_of(const haul_field *x);

/* Normalise the bytes of a dataset. NULL with the library's error. */
haul_dataset *input_form_apply(const input_form *form, haul_dataset *raw);

bool input_is_picture(const input_form *form);

cJSON *input_form_to_json(const input_form *form); /* NULL if memory is exhausted */
bool   input_form_from_json(const cJSON *json, input_form *out);

#endif
