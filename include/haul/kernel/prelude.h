/* In the source tree; what is installed here is the file itself. */
#include "../../../src/backends/cpu/prelude.h"
