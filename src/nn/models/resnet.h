/* Residual networks, for the table of models. */
#ifndef HAUL_NN_MODELS_RESNET_H
#define HAUL_NN_MODELS_RESNET_H

#include <haul/layers.h>

/* ResNet-18 for pictures as small as CIFAR-10's: 11,173,962 parameters for three channels and ten classes. */
haul_status haul__build_resnet18(haul_module *m, const haul_model_options *o);

#endif
