/* The rows of exports.def. */
#include <string.h>

#include "onnx/export/families.h"

static const haul__onnx_saved_row rows[] = {
#define ROW(operation_, save_, type_) {.name = "haul_" #operation_, .save = haul__onnx_save_##save_, .type = type_},
#include "onnx/export/exports.def"
#undef ROW
};

const haul__onnx_saved_row *haul__onnx_saved_row_of(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    return NULL;
}
