/* Fuzzing the CSV reader: any bytes as a file, read as numbers and as labels. */
#include <stdlib.h>

#include "base/alloc.h"
#include "core/error.h"
#include "data/csv/csv_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All rows, with every column in one field of numbers, and then with the first one as labels. */
static void read_all(haul__csv_table *t, bool labels)
{
    void *out[HAUL_MAX_FIELDS] = {haul__calloc((size_t)t->columns, sizeof(double))};
    t->field_count = 1;
    t->field[0] = (haul__csv_field){.name = "x",
                                    .dtype = labels ? HAUL_I64 : HAUL_F64,
                                    .vector = !labels,
                                    .labels = labels,
                                    .count = labels ? 1 : t->columns};
    for (int c = 0; c < t->columns; c++) {
        t->column[c].field = labels && c ? -1 : 0;
        t->column[c].element = c;
    }
    t->collecting = labels;
    for (int64_t i = 0; out[0] && i < t->rows; i++)
        haul__csv_read(t, i, out);
    haul__free(out[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    haul__csv_table *t = haul__calloc(1, sizeof *t);
    haul_error_clear();
    if (!t || !(t->path = haul__strdup("fuzz.csv")))
        abort();
    t->data = (const char *)data;
    t->size = size;
    t->separator = ',';
    t->missing = size % 2;
    if (size % 5 == 0 && !(t->missing_text = haul__strdup("NA")))
        abort();
    if (haul__csv_index(t, size % 3 == 0) == HAUL_OK) {
        for (int64_t i = 0; i < t->rows; i++)
            if (t->begin[i] >= t->begin[i + 1] || (size_t)t->begin[i + 1] > size)
                abort();
        for (int c = 0; c < t->columns; c++)
            haul__csv_check_mixed(t, &t->column[c]);
        read_all(t, false);
        read_all(t, true);
    }
    haul__csv_free(t);
    return 0;
}
