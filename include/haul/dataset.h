/* Datasets: numbered examples with named fields.
 *
 * Every example of a dataset has the same fields, each with a name, a dtype and a shape. A loader (data.h) makes
 * batches of them; transforms (transform.h) change examples as they are read. A dataset belongs to a scope. Its
 * examples are read when they are needed, by several threads at the same time.
 *
 *     haul_dataset *all = haul_image_folder("pictures", .size = {64, 64});
 *     haul_dataset *parts[2];
 *     haul_dataset_split(parts, all, .fractions = {0.9, 0.1}, .seed = 1);
 *
 * Files are validated before use, as in io.h. */
#ifndef HAUL_DATASET_H
#define HAUL_DATASET_H

#include <haul/base.h>
#include <haul/dtype.h>
#include <haul/error.h>
#include <haul/nn.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* The maximum number of fields of an example. */
#define HAUL_MAX_FIELDS 16
/* The count of a dataset whose end is not known in advance. */
#define HAUL_UNKNOWN (-1)

/* A field of the examples of a dataset: {"tokens", HAUL_I32, HAUL_SHAPE(-1), .padding = -100}. */
typedef struct haul_field {
    const char *name;  /* the name, without commas and blanks */
    haul_dtype  dtype; /* the dtype of its elements */
    haul_shape  shape; /* the shape in one example, at most 7 dimensions; one size may be -1: it varies */
    /* for a class index the number of classes, 0 ... classes - 1; 0: the field is something else */
    int                classes;
    const char *const *class_names; /* the names of the classes, `classes` texts; NULL: their numbers */
    /* the element that fills a batch of a varying field behind the end of shorter examples */
    double padding;
} haul_field;

/* ---- One example ----
 * Datasets and transforms of your own get examples in this form. */

/* Random numbers for one example: Philox 4x32-10, as in random.h. They depend only on the arguments of haul_draws_new,
 * so an example gets the same numbers whichever thread reads it. The members are private. */
typedef struct haul_draws {
    uint32_t haul__key[2], haul__counter[4], haul__words[4];
    int      haul__left;
} haul_draws;

/* Random numbers for one example, as a loader with this seed makes them.
 *
 * - seed: the loader's seed
 * - epoch: the number passed to haul_loader_start
 * - index: the index of the example in the loader's dataset */
HAUL_API haul_draws haul_draws_new(uint64_t seed, int64_t epoch, int64_t index);

HAUL_API uint32_t haul_draw_bits(haul_draws *draws); /* 32 random bits */

/* A number in 0 ... bound - 1; 0 for a bound of 0. */
HAUL_API uint64_t haul_draw_below(haul_draws *draws, uint64_t bound);

HAUL_API double haul_draw_unit(haul_draws *draws); /* a number in [0, 1), with 53 random bits */

/* A normally distributed number, with mean 0 and deviation 1. */
HAUL_API double haul_draw_normal(haul_draws *draws);

/* The value of a field in one example. */
typedef struct haul_value {
    const char *name;  /* the name of the field */
    haul_dtype  dtype; /* the dtype of its elements */
    haul_shape  shape; /* the shape in this example */
    void       *data;  /* the elements, row-major; NULL if there are none yet */
} haul_value;

/* An example that is being read or transformed. */
typedef struct haul_example {
    int64_t index; /* its number in the dataset whose `read` is called */
    int64_t epoch; /* the number passed to haul_loader_start */
    /* random numbers; each function continues where the one before it stopped: `read`, the first transform, and so on
     */
    haul_draws                   draws;
    int                          count;                   /* the number of `fields` */
    haul_value                   fields[HAUL_MAX_FIELDS]; /* the values, in the order of the dataset's fields */
    struct haul__example_memory *haul__memory;
} haul_example;

/* The field of that name. Returns NULL, with an error, if there is none. */
HAUL_API haul_value *haul_example_field(haul_example *example, const char *name);

/* Give a field another dtype and shape. Returns its new memory, whose elements are not set, or NULL, with an error. The
 * old memory stays readable until the next call for the same field. `read` calls it for a field that varies; a
 * transform for a field whose size or dtype changes. This is the only way to change them: an example whose fields were
 * changed by hand, or point to other memory, is refused.
 *
 * - field: the number of the field */
HAUL_API void *haul_example_resize(haul_example *example, int field, haul_dtype dtype, haul_shape shape);

/* ---- Datasets ---- */

/* The number of examples; HAUL_UNKNOWN if it is unknown, and on failure. */
HAUL_API int64_t haul_dataset_count(const haul_dataset *dataset);

HAUL_API const char *haul_dataset_name(const haul_dataset *dataset); /* the name, "cifar10 (train)"; NULL on failure */
HAUL_API int         haul_dataset_fields(const haul_dataset *dataset); /* the number of fields; -1 on failure */

/* Fill *out with field `index`, from 0. Its texts live as long as the dataset. class_names is NULL only if there are no
 * classes. */
HAUL_API haul_status haul_dataset_field(const haul_dataset *dataset, int index, haul_field *out);

/* A function that reads or transforms an example. Returns HAUL_OK, or an error that it recorded with haul_error_set.
 * Several threads may call it at the same time. In fields of HAUL_BOOL, any byte but 0 is true. It may use loaders, but
 * not the one for which it runs: that is refused. The rules of scope.h for functions of the program hold for it. */
typedef haul_status haul_example_function(void *context, haul_example *example);

/* A dataset of your own. */
typedef struct haul_dataset_source {
    haul_field  fields[HAUL_MAX_FIELDS]; /* the fields, up to the first without a name */
    int64_t     count;                   /* the number of examples, or HAUL_UNKNOWN */
    const char *name;                    /* the name of the dataset */
    /* writes each field of an example to its memory. A field that varies has no memory yet: haul_example_resize gives
     * it */
    haul_example_function *read;
    /* called when nothing holds the dataset any more, and also if haul_dataset_new fails; may be NULL */
    void (*close)(void *context);
    void *context; /* passed to `read` and `close` */
} haul_dataset_source;

/* Make a dataset of your own. The struct, its names and its texts are copied.
 *
 * With .count = HAUL_UNKNOWN, `read` returns HAUL_END_OF_DATA past the last example, without recording an error. It is
 * then called for the indices 0, 1, 2 and so on, in this order, by one thread at a time; index 0 begins a new epoch. */
HAUL_API haul_dataset *haul_dataset_new(const haul_dataset_source *source);

/* Examples in memory: tensors [N, ...] of any dtype on the CPU, which the dataset holds. Fields have the names of the
 * tensors.
 *
 * haul_dataset_from_tensors names them "x" and "y". If y is i64 [N] it holds class indices, which must not be negative;
 * the highest one determines the number of classes. */
HAUL_API haul_dataset *haul_dataset_from_named(const haul_named_tensor *tensors, int count);
HAUL_API haul_dataset *haul_dataset_from_tensors(haul_tensor *x, haul_tensor *y);

/* ---- Parts and sums of datasets ----
 * Each holds the datasets that it is made of. Their counts must be known. */

/* The examples with these indices, in this order. An index may occur more than once.
 *
 * - index_count: the number of `indices` */
HAUL_API haul_dataset *haul_dataset_subset(haul_dataset *dataset, const int64_t *indices, int64_t index_count);

/* The maximum number of parts of haul_dataset_split. */
#define HAUL_MAX_PARTS 16

/* Cut a dataset at random into parts that share no example: haul_dataset_split(parts, dataset, .fractions = {0.8, 0.2},
 * .seed = 1). With the same seed the parts are the same. On failure nothing is made, and `parts` is not changed.
 *
 * - parts: gets a dataset for each part */
typedef struct HAUL__DESIGNATED haul_dataset_split_options {
    haul_dataset *dataset; /* the dataset; positional */
    HAUL__GUARD(fractions)
    /* parts of the whole, which add up to 1; examples that are left over go to the first parts, one each */
    double   fractions[HAUL_MAX_PARTS];
    int64_t  counts[HAUL_MAX_PARTS]; /* numbers of examples, instead of .fractions, which add up to the dataset's */
    uint64_t seed;                   /* seed of the random order */
    bool     in_order;               /* do not shuffle: the first part has the first examples */
} haul_dataset_split_options;
#define haul_dataset_split(parts, ...)                                                                                 \
    haul_dataset_split_with(parts, HAUL__OPTIONS(haul_dataset_split_options, .dataset = __VA_ARGS__))
HAUL_API haul_status haul_dataset_split_with(haul_dataset **parts, const haul_dataset_split_options *options);

/* Datasets one after the other, as one: haul_dataset_concat(a, b). All must have the same fields: names, dtypes, shapes
 * and classes. */
HAUL_API haul_dataset *haul_dataset_concat_list(haul_dataset *const *datasets, int count);
#ifdef __cplusplus
extern "C++" {
template <size_t N> haul_dataset *haul__concat(haul_dataset *const (&datasets)[N])
{
    return haul_dataset_concat_list(datasets, static_cast<int>(N));
}
}
#define haul_dataset_concat(...) haul__concat({__VA_ARGS__})
#else
#define haul_dataset_concat(...)                                                                                       \
    haul_dataset_concat_list((haul_dataset *const[]){__VA_ARGS__}, HAUL__COUNT(haul_dataset *const, __VA_ARGS__))
#endif

/* ---- Data sets of pictures, numbers and texts ----
 * Pictures are a field x, u8 [channels, height, width], and a field y, i64 without dimensions, the class index. */

/* The training or test split of CIFAR-10, from its binary files (data_batch_1.bin ... test_batch.bin) in `directory` or
 * in its folder cifar-10-batches-bin: haul_cifar10("data", .test = true).
 *
 * For this and the following functions, `directory` may be a .tar.gz, .tar or .zip file with the files, which is read
 * without unpacking it. A folder around all others is left out. The members of a .tar.gz file that are needed are kept
 * in memory, at most 4 GiB. An archive with links, with names that are absolute or have "..", or with one name twice is
 * an error of status HAUL_FORMAT, which names the member. */
typedef struct HAUL__DESIGNATED haul_split_options {
    const char *directory; /* the folder with the files, or an archive; positional */
    HAUL__GUARD(test)
    bool test; /* the test split instead of the training split */
} haul_split_options;
#define haul_cifar10(...) haul_cifar10_with(HAUL__OPTIONS(haul_split_options, .directory = __VA_ARGS__))
HAUL_API haul_dataset *haul_cifar10_with(const haul_split_options *options);

/* The same of CIFAR-100, from train.bin and test.bin in `directory` or in its folder cifar-100-binary. The class is the
 * fine one, of 100. */
#define haul_cifar100(...) haul_cifar100_with(HAUL__OPTIONS(haul_split_options, .directory = __VA_ARGS__))
HAUL_API haul_dataset *haul_cifar100_with(const haul_split_options *options);

/* The same of MNIST and Fashion-MNIST: x is [1, 28, 28]. The files are train-images-idx3-ubyte,
 * train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, also with the ending .gz as they are
 * published. They are in `directory` or in its folder raw, MNIST/raw or FashionMNIST/raw. */
#define haul_mnist(...)         haul_mnist_with(HAUL__OPTIONS(haul_split_options, .directory = __VA_ARGS__))
#define haul_fashion_mnist(...) haul_fashion_mnist_with(HAUL__OPTIONS(haul_split_options, .directory = __VA_ARGS__))
HAUL_API haul_dataset *haul_mnist_with(const haul_split_options *options);
HAUL_API haul_dataset *haul_fashion_mnist_with(const haul_split_options *options);

/* A folder with one folder of JPEG and PNG pictures for each class: haul_image_folder("photos", .size = {64, 64}).
 *
 * Classes are numbered in the order of their names. If the folder has folders named train and test, these hold the
 * classes of the two splits, and no other folders are allowed. Without them all pictures are the training split, and
 * there is no test split. Classes are numbered by the training split, so a class has the same number in both, even if
 * the test split lacks some. A class that only the test split has is an error.
 *
 * Hidden files and files with other endings than .jpg, .jpeg and .png are ignored. Pictures in other well-known formats
 * (.webp, .gif, .heic ...), class folders without pictures and folders within class folders are errors.
 *
 * Pictures are decoded and resized as by haul_read_image. Without .size all pictures of the split must have the same
 * size; if they differ, the error is HAUL_SHAPE. */
typedef struct HAUL__DESIGNATED haul_image_folder_options {
    const char *directory; /* the folder with the pictures, or an archive; positional */
    HAUL__GUARD(test)
    bool    test;     /* the test split instead of the training one */
    int64_t size[2];  /* {height, width} of every example; default: the size that all pictures have */
    int     channels; /* 3: RGB, 1: greyscale; default 3 */
    bool    draft;    /* decode large JPEG files at a smaller scale, as haul_read_image does */
} haul_image_folder_options;
#define haul_image_folder(...)                                                                                         \
    haul_image_folder_with(HAUL__OPTIONS(haul_image_folder_options, .directory = __VA_ARGS__))
HAUL_API haul_dataset *haul_image_folder_with(const haul_image_folder_options *options);

/* A folder of pictures with a mask for each, which has the class of each pixel: haul_mask_folder("streets", .size =
 * {128, 128}). x is the picture, y is i64 [height, width].
 *
 * The folder has a folder images with JPEG and PNG files and a folder masks with a PNG file of the same name for each:
 * images/a.jpg and masks/a.png. Or it has folders named train and test, which each have these two folders. Without
 * them all pictures are the training split, and there is no test split.
 *
 * A pixel of a mask is a class: its grey value, of at most 8 bits, or its index into the palette. If the training split
 * has no other values than 0 and 255, these are the classes 0 and 1. A mask has the size of its picture, and no EXIF
 * orientation. A missing mask, a mask without a picture, one of another size, with colours, or with a value above the
 * classes is an error, which names the file.
 *
 * Pictures are decoded and resized as by haul_read_image; a pixel of a resized mask is that of the nearest pixel.
 * Without .size all pictures of the split must have the same size; if they differ, the error is HAUL_SHAPE. */
typedef struct HAUL__DESIGNATED haul_mask_folder_options {
    const char *directory; /* the folder with the folders, or an archive; positional */
    HAUL__GUARD(test)
    bool    test;     /* the test split instead of the training one */
    int64_t size[2];  /* {height, width} of every example; default: the size that all pictures have */
    int     channels; /* of pictures; 3: RGB, 1: greyscale; default 3 */
    int     classes;  /* the number of classes; default: one more than the highest value of the training split */
} haul_mask_folder_options;
#define haul_mask_folder(...) haul_mask_folder_with(HAUL__OPTIONS(haul_mask_folder_options, .directory = __VA_ARGS__))
HAUL_API haul_dataset *haul_mask_folder_with(const haul_mask_folder_options *options);

/* A text file as examples of characters: haul_text_file("book.txt", .context = 64). x is i64 [context], the numbers of
 * characters that follow each other; y is i64 [context], the number of the next character for each of them.
 *
 * The file is UTF-8 of at most 1 GiB, and a character is a code point; a byte order mark at the beginning is left out.
 * A byte that is not UTF-8 is an error of status HAUL_FORMAT that names the line. The characters that occur in the file
 * are numbered in the order of their code points, and are the names of the classes of both fields.
 *
 * The last tenth of the characters is the test split, the rest the training split. No example has characters of both.
 */
typedef struct HAUL__DESIGNATED haul_text_file_options {
    const char *path; /* the file; positional */
    HAUL__GUARD(test)
    bool    test;    /* the test split instead of the training split */
    int64_t context; /* characters of an example; default 64 */
    int64_t stride;  /* characters from the beginning of an example to that of the next; default .context */
} haul_text_file_options;
#define haul_text_file(...) haul_text_file_with(HAUL__OPTIONS(haul_text_file_options, .path = __VA_ARGS__))
HAUL_API haul_dataset *haul_text_file_with(const haul_text_file_options *options);

/* A JPEG or PNG file as u8 [channels, height, width] on the thread's current device: haul_read_image("cat.jpg", .size =
 * {64, 64}).
 *
 * The picture is turned upright as its EXIF orientation says. Greyscale, palette, CMYK and YCCK pictures become RGB, 16
 * bits become 8, and transparency is dropped. With .channels = 1, grey is 0.299 red + 0.587 green + 0.114 blue.
 *
 * With .size the picture keeps its proportions: it is scaled to the smallest picture that covers this size, with
 * antialiasing (bilinear weights over all pixels that a result covers), and its centre is cut out. For square sizes
 * these are the pixels of torchvision's Resize(n) followed by CenterCrop(n).
 *
 * With .draft = true, a JPEG file is decoded at 1/2, 1/4 or 1/8 of its size if that still covers .size, and then scaled
 * the rest of the way. This needs about half the time, and a pixel can differ by a few values, at sharp edges by many.
 * Pillow's Image.draft does the same.
 *
 * Files above 64 MiB and pictures above 16,384 pixels a side or 2^26 pixels in all are refused, as are truncated files.
 */
typedef struct HAUL__DESIGNATED haul_read_image_options {
    const char *path; /* the file; positional */
    HAUL__GUARD(size)
    int64_t size[2];  /* {height, width} of the result; default: those of the upright picture */
    int     channels; /* 3: RGB, 1: greyscale; default 3 */
    bool    draft;    /* decode large JPEG files at a smaller scale: faster, and a little less exact */
} haul_read_image_options;
#define haul_read_image(...) haul_read_image_with(HAUL__OPTIONS(haul_read_image_options, .path = __VA_ARGS__))
HAUL_API haul_tensor *haul_read_image_with(const haul_read_image_options *options);

/* Writes a picture as a PNG or JPEG file, as the ending of its name says: haul_save_image("turned.png", x). The file
 * appears when it is complete: on failure an existing one stays as it is. PNG keeps all values of u8.
 *
 * x may be on any device; a float below 0 or above 1 is clamped. Fails with HAUL_INVALID_ARGUMENT for another ending,
 * HAUL_DTYPE for other dtypes, HAUL_SHAPE for other shapes, sides above 16,384 or more than 2^26 pixels, and HAUL_IO if
 * the file cannot be written. */
typedef struct HAUL__DESIGNATED haul_save_image_options {
    const char  *path; /* the file, which is replaced if it exists: .png, .jpg or .jpeg; positional */
    haul_tensor *x;    /* [3, H, W], or grey as [1, H, W] or [H, W]: u8, or floats, of which 0 to 1 become 0 to 255;
                        * positional */
    HAUL__GUARD(quality)
    int quality; /* of JPEG, from 1 to 100; default 75 */
} haul_save_image_options;
#define haul_save_image(path_, ...)                                                                                    \
    haul_save_image_with(HAUL__OPTIONS(haul_save_image_options, .path = (path_), .x = __VA_ARGS__))
HAUL_API haul_status haul_save_image_with(const haul_save_image_options *options);

/* Drawn 32x32 RGB pictures of 10 kinds of shapes, made from a seed: haul_shapes(1000, .seed = 1). Position, size,
 * colour and noise vary, so that a convolutional network is needed. Example i is the same whatever `count` is. Test
 * examples differ from training examples. */
typedef struct HAUL__DESIGNATED haul_synthetic_options {
    int64_t count; /* the number of examples; positional */
    HAUL__GUARD(seed)
    uint64_t seed; /* seed of the examples */
    bool     test; /* test examples instead of training examples */
} haul_synthetic_options;
#define haul_shapes(...) haul_shapes_with(HAUL__OPTIONS(haul_synthetic_options, .count = __VA_ARGS__))
HAUL_API haul_dataset *haul_shapes_with(const haul_synthetic_options *options);

/* Rows x, f32 [10], in two Gaussian clouds, with the target y, f32 [1], 0 or 1: haul_blobs(1000, .seed = 1). For a
 * small dense network. */
#define haul_blobs(...) haul_blobs_with(HAUL__OPTIONS(haul_synthetic_options, .count = __VA_ARGS__))
HAUL_API haul_dataset *haul_blobs_with(const haul_synthetic_options *options);

/* Drawn 32x32 RGB pictures x with a disc and a square in noise, and y, i64 [32, 32], the class of each pixel:
 * background, disc or square. haul_scenes(1000, .seed = 1). Where the two overlap, the square is in front. Colours
 * vary, so only forms distinguish the classes. For networks that mark pixels. */
#define haul_scenes(...) haul_scenes_with(HAUL__OPTIONS(haul_synthetic_options, .count = __VA_ARGS__))
HAUL_API haul_dataset *haul_scenes_with(const haul_synthetic_options *options);

/* Made sentences: x, i64 [64], has 64 characters of them, and y, i64 [64], the next character for each:
 * haul_sentences(1000, .seed = 1). There are 28 characters: a blank, a full stop and the letters. For networks that
 * predict the next character. */
#define haul_sentences(...) haul_sentences_with(HAUL__OPTIONS(haul_synthetic_options, .count = __VA_ARGS__))
HAUL_API haul_dataset *haul_sentences_with(const haul_synthetic_options *options);

HAUL_END

#endif
