/* What the stand-in's NVRTC hands over where NVIDIA's compiles: PTX behind the header of an image. */
#ifndef HAUL_TESTS_STANDIN_PTX_IMAGE_H
#define HAUL_TESTS_STANDIN_PTX_IMAGE_H

#include "../module.h"

/* In standin_image.magic; the stamp is not looked at. */
#define STANDIN_MAGIC_PTX "\177st-ptx"

#endif
