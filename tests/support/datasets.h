/* Shared by the tests of datasets: files, errors, names of classes, batches. For a test program's one source file. */
#ifndef HAUL_TESTS_DATASETS_H
#define HAUL_TESTS_DATASETS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <stdio.h>
#include <string.h>

#include "support/example.h"

static inline void write_bytes(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static inline void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

static inline void expect(const char *what, haul_status status, const char *words)
{
    if (haul_error_status() != status || !strstr(haul_error_message(), words) || strchr(haul_error_message(), '\n'))
        fail_msg("%s: %s (expected: %s)", what, haul_error_message(), words);
    haul_error_clear();
}

/* The name of class `index`; NULL past the end. */
static inline const char *class_name(const haul_dataset *d, int index)
{
    haul_field field;
    assert_int_equal(haul_dataset_field(d, 1, &field), HAUL_OK);
    return index >= 0 && index < field.classes ? field.class_names[index] : NULL;
}

/* All examples as one batch. */
static inline const haul_batch *whole(haul_dataset *d)
{
    haul_loader *loader = haul_loader_new(d, .batch = 1000, .device = haul_cpu());
    if (!loader || haul_loader_start(loader, 0))
        fail_msg("%s", haul_error_message());
    const haul_batch *batch = haul_loader_next(loader);
    if (!batch)
        fail_msg("%s", haul_error_message());
    return batch;
}

#endif
