/* A small vision transformer, for the table of models. */
#ifndef HAUL_NN_MODELS_VIT_H
#define HAUL_NN_MODELS_VIT_H

#include <haul/layers.h>

/* ViT-Tiny: 5,717,416 parameters for three channels, 224x224 pixels and 1,000 classes. */
haul_status  haul__build_vit_tiny(haul_module *m, const haul_model_options *o);
haul_tensor *haul__vit_tiny_forward(haul_module *m, haul_args *args);

#endif
