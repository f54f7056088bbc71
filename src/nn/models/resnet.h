/* Residual networks, for the table of models. */
#ifndef HAUL_NN_MODELS_RESNET_H
#define HAUL_NN_MODELS_RESNET_H

#include <haul/layers.h>

/* ResNet-18 for pictures as small as CIFAR-10's: 11,173,962 parameters for three channels and ten classes. */
haul_status haul__build_resnet18(haul_module *m, const haul_model_options *o);

/* torchvision's resnet18 and resnet50: 11,689,512 and 25,557,032 parameters for three channels and 1,000 classes. */
haul_status haul__build_resnet18_imagenet(haul_module *m, const haul_model_options *o);
haul_status haul__build_resnet50(haul_module *m, const haul_model_options *o);

#endif
