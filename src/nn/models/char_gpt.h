/* A small transformer, for the table of models. */
#ifndef HAUL_NN_MODELS_CHAR_GPT_H
#define HAUL_NN_MODELS_CHAR_GPT_H

#include <haul/layers.h>

/* A decoder with two blocks of 32 features. `input` is [context], and `outputs` is the number of tokens: 30,592
 * parameters for 32 and 128. */
haul_status  haul__build_char_gpt(haul_module *m, const haul_model_options *o);
haul_forward haul__char_gpt_forward;

#endif
