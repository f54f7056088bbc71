/* A trained network with what its run says about it: classes, form of its examples, and options of the training. */
#ifndef CLI_PREDICT_PREDICTOR_H
#define CLI_PREDICT_PREDICTOR_H

#include <cjson/cJSON.h>
#include <haul/haul.h>

#include "cli/model/input_form.h"
#include "cli/model/source.h"
#include "cli/options/options.h"
#include "cli/run_folder/folder.h"

typedef struct predict_options {
    const char  *run, *data, *split, *device, *weights;
    const char  *prompt, *masks; /* NULL: none */
    operand_list pictures;
    int64_t      index, count, batch, top, length, seed;
    double       temperature;
    bool         trace, json;
} predict_options;

typedef struct predictor {
    const predict_options *options;
    run_folder             run;
    cJSON                 *stored, *classes; /* options of the training; names of its classes */
    input_form             input;
    haul_device           *device;
    haul_dataset          *data; /* normalised; NULL for single pictures */
    const char            *part; /* the part of the data: "test", "validation" or "train"; "" without parts */
    data_spec              spec;
    haul_module           *net;
    const char            *weights; /* the file */
    bool                   best;    /* it is that of the best epoch */
} predictor;

/* False after a complaint. predictor_close is needed in either case. */
bool predictor_open(predictor *p, const predict_options *options);
void predictor_close(predictor *p);

/* A picture as an example, f32 [1, channels, height, width] on the CPU, in the form of those of the training. NULL with
 * the library's error. */
haul_tensor *predictor_picture(const predictor *p, const char *path);

#endif
