/* A small U-Net, for the table of models. */
#ifndef HAUL_NN_MODELS_UNET_H
#define HAUL_NN_MODELS_UNET_H

#include <haul/layers.h>

/* Three levels of 8, 16 and 32 channels: 28,745 parameters for one channel and one output without kinds. */
haul_status  haul__build_unet(haul_module *m, const haul_model_options *o);
haul_forward haul__unet_forward;

#endif
