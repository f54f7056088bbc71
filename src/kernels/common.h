/* The common part of kernel text, after the prelude: the types of the dtype being compiled, its mathematics, and what
 * many kernels do. CPU units of the library have of the latter two what they use (tools/embed_functions.c). */
#include "element.h"
/* after the types */
#include "functions.h"
/* after the functions */
#include "elementary.h"
/* after the mathematics */
#include "shared.h"
