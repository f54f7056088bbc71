/* In the source tree; the installed header is the file itself. */
#include "../../../src/backends/cpu/prelude.h"
