/* The rows of operations.def. */
#include <stdlib.h>
#include <string.h>

#include <haul/elementwise.h>
#include <haul/linalg.h>

#include "onnx/families.h"
#include "onnx/fold.h"

#define haul__onnx_none NULL
static const haul__onnx_row rows[] = {
#define NEWEST HAUL__ONNX_NEWEST
#define ROW(name_, first_, last_, host_, run_, ...)                                                                    \
    {.name = #name_, .first = first_, .last = last_, .host = host_, .run = haul__onnx_##run_, __VA_ARGS__},
#include "onnx/operations.def"
#undef ROW
};
enum { ROWS = sizeof rows / sizeof *rows };

const haul__onnx_row *haul__onnx_rows(int *count)
{
    *count = ROWS;
    return rows;
}

const haul__onnx_row *haul__onnx_find_row(const char *name)
{
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    return NULL;
}
