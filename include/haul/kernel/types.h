/* In the source tree; what is installed here is the file itself. */
#include "../../../src/kernels/types.h"
