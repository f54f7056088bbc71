/* A build without a backend that compiles kernels at run time has no kernel text. */
#include "kernels/text.h"

const haul__kernel_text haul__kernel_texts[] = {{NULL, NULL, NULL, 0, 0}};
const size_t            haul__kernel_text_count = 0;
