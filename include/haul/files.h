/* Datasets in files that may be larger than memory: CSV, npy, folders of shards.
 *
 * Files are mapped into memory, so that the system reads what is touched and forgets it again; the process needs memory
 * for a batch, not for the data set. A mapped file must not be changed in place: touching a page that truncation
 * removed ends the process with SIGBUS, which no library can turn into an error. Replacing the file by renaming another
 * one over it is safe. */
#ifndef HAUL_FILES_H
#define HAUL_FILES_H

#include <haul/base.h>
#include <haul/dataset.h>
#include <haul/io.h>

HAUL_BEGIN

/* Numbers and texts in lines: cells separated by commas, or within double quotes, in which "" is one quote; the first
 * line names the columns. Empty lines are skipped. haul_csv_dataset("iris.csv") has the fields x, f32 with all columns
 * but the last, and y with the last one. Opening reads the file once, to check it and to find where lines begin, 8
 * bytes each; later only the lines that are wanted are read. An error names the file and the line.
 *
 * .fields says which columns make which field: {"x", "age, height"} or {"x", "age..height"}, which are the columns from
 * age to height. One column alone is a field without dimensions; several, and "age..age", are [columns]. Without a
 * dtype a field is i64 if its columns hold integers only, f32 if they hold numbers, and else class indices: a single
 * column of labels, numbered in the order of their bytes. With .class_names the field is class indices into these. */
typedef struct haul_csv_field {
    const char        *name, *columns;
    haul_dtype         dtype;
    int                classes; /* with class_names: how many */
    const char *const *class_names;
} haul_csv_field;
typedef struct HAUL__DESIGNATED haul_csv_options {
    const char *path; /* positional */
    HAUL__GUARD
    haul_csv_field fields[HAUL_MAX_FIELDS]; /* up to the first without a name */
    char           separator;               /* default ',' */
    bool           no_header;               /* columns are named "0", "1" ... */
    bool           missing;                 /* an empty cell of a floating field is NaN, instead of an error */
} haul_csv_options;
#define haul_csv_dataset(...) haul_csv_dataset_with(HAUL__OPTIONS(haul_csv_options, .path = __VA_ARGS__))
HAUL_API haul_dataset *haul_csv_dataset_with(const haul_csv_options *options);

/* One npy file [N, ...] for each field: haul_npy_dataset({"x", "pictures.npy"}, {"y", "labels.npy"}). */
HAUL_API haul_dataset *haul_npy_dataset_list(const haul_text_pair *files, int count);
#ifdef __cplusplus
extern "C++" {
template <size_t N> haul_dataset *haul__npy_dataset(const haul_text_pair (&files)[N])
{
    return haul_npy_dataset_list(files, static_cast<int>(N));
}
}
#define haul_npy_dataset(...) haul__npy_dataset({__VA_ARGS__})
#else
#define haul_npy_dataset(...)                                                                                          \
    haul_npy_dataset_list((const haul_text_pair[]){__VA_ARGS__}, HAUL__COUNT(haul_text_pair, __VA_ARGS__))
#endif

/* The files of a folder, in the order of their names, one after the other. Either all end in .safetensors, and each has
 * the same tensors, [N, ...] with its own N, whose names are those of the fields in the order of their bytes; or all
 * end in .npy, for one field x. Other files are not looked at. */
HAUL_API haul_dataset *haul_shard_dataset(const char *directory);

HAUL_END

#endif
