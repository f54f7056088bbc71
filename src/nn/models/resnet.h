/* Residual networks, for the table of models. */
#ifndef HAUL_NN_MODELS_RESNET_H
#define HAUL_NN_MODELS_RESNET_H

#include <haul/nn.h>

/* ResNet-18 for pictures as small as CIFAR-10's: 11,173,962 parameters for three channels and ten classes. */
haul_status haul__build_resnet18(haul_module *m, const haul_shape *input, int64_t outputs);

#endif
