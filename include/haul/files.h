/* Datasets in files: CSV, npy, and folders of shards, which may be larger than memory.
 *
 * Files are mapped into memory: the system reads the parts that are used and drops them again, so the process needs
 * memory for a batch, not for the data set.
 *
 * A mapped file must not be changed in place: reading a page that truncation removed ends the process with SIGBUS,
 * which no library can turn into an error. Replacing the file by renaming another one over it is safe. */
#ifndef HAUL_FILES_H
#define HAUL_FILES_H

#include <haul/base.h>
#include <haul/dataset.h>
#include <haul/io.h>

HAUL_BEGIN

/* A field of a CSV file and the columns that make it. One column alone is a field without dimensions; several, and
 * "age..age", are [columns]. */
typedef struct haul_csv_field {
    /* name: the name of the field; columns: names of columns, "age, height", or from one to another, "age..height" */
    const char *name, *columns;
    /* the dtype; by default all cells decide: i64 if they are integers, f32 if they are numbers, and if none is a
     * number class indices, as with .labels. A column with numbers and other texts is an error, and so is an integer
     * beyond 2^53 that would become f32 */
    haul_dtype         dtype;
    int                classes;     /* how many .class_names there are */
    const char *const *class_names; /* labels: the field is class indices into these */
    /* the single column holds labels, whatever they look like: the field is class indices, in the order of the labels'
     * bytes, or of .class_names */
    bool labels;
} haul_csv_field;

/* A CSV file: haul_csv_dataset("iris.csv") has the fields x, f32 with all columns but the last, and y with the last
 * column. The text is UTF-8. Cells are separated by commas, or are within double quotes, where "" is one quote. Lines
 * end with LF or CR LF; empty lines are skipped. The first line names the columns; without .fields, numbers there are
 * an error, unless they count from 0.
 *
 * Blanks around numbers and names of columns are ignored. A label must have none around it, unless it is quoted. A
 * number that the dtype cannot represent is an error, also one that is too large for a floating dtype; "inf" and "nan"
 * are floating numbers.
 *
 * The file is read once when it is opened, to check it and to find where lines begin, which takes 8 bytes for each
 * line. Later only the lines that are needed are read. An error names the file and the line. */
typedef struct HAUL__DESIGNATED haul_csv_options {
    const char *path; /* the file; positional */
    HAUL__GUARD(fields)
    haul_csv_field fields[HAUL_MAX_FIELDS]; /* the fields, up to the first without a name; default x and y, as above */
    char           separator;               /* what separates cells; default ',' */
    bool           no_header;               /* the first line is data; columns are named "0", "1" and so on */
    bool           missing;                 /* an empty cell of a floating field is NaN, instead of an error */
    const char    *missing_text;            /* as .missing, and a cell with this text is like an empty one: "NA" */
} haul_csv_options;
#define haul_csv_dataset(...) haul_csv_dataset_with(HAUL__OPTIONS(haul_csv_options, .path = __VA_ARGS__))
HAUL_API haul_dataset *haul_csv_dataset_with(const haul_csv_options *options);

/* Examples from npy files, one file [N, ...] for each field: haul_npy_dataset({"x", "pictures.npy"}, {"y",
 * "labels.npy"}).
 *
 * - files: names of fields and paths */
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

/* The files of a folder one after the other, in the order of their names. Either all end in .safetensors, and each has
 * the same tensors, [N, ...] with an N of its own, whose names are those of the fields, in the order of their bytes; or
 * all end in .npy, for one field x. Other files are ignored. */
HAUL_API haul_dataset *haul_shard_dataset(const char *directory);

HAUL_END

#endif
