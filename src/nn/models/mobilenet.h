/* MobileNetV2, for the table of models. */
#ifndef HAUL_NN_MODELS_MOBILENET_H
#define HAUL_NN_MODELS_MOBILENET_H

#include <haul/layers.h>

/* torchvision's mobilenet_v2: 3,504,872 parameters for three channels and 1,000 classes. */
haul_status haul__build_mobilenet_v2(haul_module *m, const haul_model_options *o);

#endif
