/* MNIST and Fashion-MNIST: where their files are found, plain and packed by gzip, and every kind of damage. CIFAR-100.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "formats/deflate.h"
#include "support/datasets.h"

enum { PICTURES = 5, HEIGHT = 3, WIDTH = 4, PIXELS = HEIGHT * WIDTH };

typedef struct bytes {
    uint8_t of[8192];
    size_t  size;
} bytes;

static void put(bytes *b, const void *data, size_t size)
{
    assert_true(b->size + size <= sizeof b->of);
    memcpy(b->of + b->size, data, size);
    b->size += size;
}

static void put_head(bytes *b, int type, int ndim, const uint32_t *dims)
{
    const uint8_t head[4] = {0, 0, (uint8_t)type, (uint8_t)ndim};
    b->size = 0;
    put(b, head, 4);
    for (int d = 0; d < ndim; d++) {
        const uint8_t dim[4] = {(uint8_t)(dims[d] >> 24), (uint8_t)(dims[d] >> 16), (uint8_t)(dims[d] >> 8),
                                (uint8_t)dims[d]};
        put(b, dim, 4);
    }
}

/* Pixel k of picture i is 16 i + k, and its label 9 - i. */
static void make_pictures(bytes *b)
{
    put_head(b, 8, 3, (const uint32_t[]){PICTURES, HEIGHT, WIDTH});
    for (int i = 0; i < PICTURES; i++)
        for (int k = 0; k < PIXELS; k++)
            put(b, &(uint8_t){(uint8_t)(16 * i + k)}, 1);
}

static void make_labels(bytes *b)
{
    put_head(b, 8, 1, (const uint32_t[]){PICTURES});
    for (int i = 0; i < PICTURES; i++)
        put(b, &(uint8_t){(uint8_t)(9 - i)}, 1);
}

/* Packs with a name in the header, as gzip does. Returns false in a build without zlib. */
static bool pack(bytes *b)
{
    static const uint8_t head[] = {0x1f, 0x8b, 8, 8, 1, 2, 3, 4, 0, 3, 'n', 'a', 'm', 'e', 0};
    const uint32_t       crc = haul__crc32(0, b->of, b->size), size = (uint32_t)b->size;
    size_t               packed;
    void                *data = haul__deflate("test", b->of, b->size, "", 0, &packed);
    haul_error_clear();
    if (!data)
        return false;
    b->size = 0;
    put(b, head, sizeof head);
    put(b, data, packed);
    for (int i = 0; i < 8; i++)
        put(b, &(uint8_t){(uint8_t)((i < 4 ? crc : size) >> 8 * (i % 4))}, 1);
    haul__free(data);
    return true;
}

static void write_to(const char *folder, const char *name, const bytes *b)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_bytes(path, b->of, b->size);
}

static void check(haul_dataset *d)
{
    uint8_t picture[PIXELS];
    int64_t label;
    if (!d)
        fail_msg("%s", haul_error_message());
    assert_int_equal(haul_dataset_count(d), PICTURES);
    for (int i = 0; i < PICTURES; i++) {
        assert_int_equal(read_example_of(d, i, picture, &label), HAUL_OK);
        assert_int_equal(label, 9 - i);
        for (int k = 0; k < PIXELS; k++)
            assert_int_equal(picture[k], 16 * i + k);
    }
}

static void test_mnist__files_are_found(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    haul_field  x;
    bytes       pictures, labels;
    make_pictures(&pictures);
    make_labels(&labels);
    mkdir("m", 0777);
    mkdir("m/MNIST", 0777);
    mkdir("m/MNIST/raw", 0777);
    write_to("m/MNIST/raw", "train-images-idx3-ubyte", &pictures);
    write_to("m/MNIST/raw", "train-labels-idx1-ubyte", &labels);
    write_to("m/MNIST/raw", "t10k-images.idx3-ubyte", &pictures);
    write_to("m/MNIST/raw", "t10k-labels.idx1-ubyte", &labels);
    check(haul_mnist("m"));
    check(haul_mnist("m/MNIST"));
    check(haul_mnist("m/MNIST/raw"));
    haul_dataset *test = haul_mnist("m", .test = true);
    check(test);
    assert_string_equal(haul_dataset_name(test), "mnist (test)");
    assert_string_equal(class_name(test, 9), "9");
    assert_int_equal(haul_dataset_field(test, 0, &x), HAUL_OK);
    assert_true(x.shape.ndim == 3 && x.shape.dims[0] == 1 && x.shape.dims[1] == HEIGHT && x.shape.dims[2] == WIDTH);
    if (pack(&pictures) && pack(&labels)) {
        mkdir("f", 0777);
        write_to("f", "train-images-idx3-ubyte.gz", &pictures);
        write_to("f", "train-labels-idx1-ubyte.gz", &labels);
        write_to("f", "t10k-images-idx3-ubyte", &pictures); /* packed, although the name does not say so */
        write_to("f", "t10k-labels-idx1-ubyte", &labels);
        check(haul_fashion_mnist("f"));
        check(haul_fashion_mnist("f", .test = true));
        assert_string_equal(class_name(haul_fashion_mnist("f"), 9), "Ankle boot");
    }
    haul_scope_pop(scope);
}

static void refused(const bytes *pictures, const bytes *labels, const char *why)
{
    write_to("bad", "train-images-idx3-ubyte", pictures);
    write_to("bad", "train-labels-idx1-ubyte", labels);
    assert_null(haul_mnist("bad"));
    expect(why, HAUL_FORMAT, why);
}

static void test_mnist__unsound_files_are_refused(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    bytes       pictures, labels, b;
    make_pictures(&pictures);
    make_labels(&labels);
    const int64_t blocks = haul__host_blocks();
    mkdir("bad", 0777);
    assert_null(haul_mnist("bad"));
    expect("empty", HAUL_IO,
           "found no train-images-idx3-ubyte or train-images-idx3-ubyte.gz in bad or in its MNIST/raw");
    assert_null(haul_fashion_mnist(NULL));
    expect("NULL", HAUL_INVALID_ARGUMENT, "directory");
    refused(&labels, &labels, "pictures have three dimensions");
    refused(&pictures, &pictures, "labels have one dimension");
    put_head(&b, 13, 3, (const uint32_t[]){1, 1, 1});
    refused(&b, &labels, "its elements are not bytes");
    put_head(&b, 8, 3, (const uint32_t[]){0xffffffffu, 4096, 4096});
    refused(&b, &labels, "its header claims 72057594021150720 elements, but 0 bytes follow");
    put_head(&b, 8, 3, (const uint32_t[]){1, 0, 3});
    refused(&b, &labels, "sides of its pictures are not from 1 to 4,096");
    put_head(&b, 8, 3, (const uint32_t[]){0, 1, 1});
    refused(&b, &labels, "it has no elements");
    b = pictures;
    b.size = 9;
    refused(&b, &labels, "it ends within its header");
    b = pictures;
    b.size--;
    refused(&b, &labels, "elements, but");
    b = labels;
    b.of[8] = 10;
    refused(&pictures, &b, "label 0 is 10, but the highest is 9");
    put_head(&b, 8, 1, (const uint32_t[]){1});
    put(&b, "", 1);
    refused(&pictures, &b, "has 5 pictures, but bad/train-labels-idx1-ubyte has 1 labels");
    b.size = 0;
    put(&b, "PK\3\4", 4);
    refused(&b, &labels, "is not an IDX file, but a zip archive");
    assert_int_equal(haul__host_blocks(), blocks);
    haul_scope_pop(scope);
}

/* A packed file gives the pictures that were written, or an error: the checksum covers all of it. */
static void test_mnist__damage_of_packed_files_is_found(void **state)
{
    (void)state;
    bytes pictures, labels;
    make_pictures(&pictures);
    make_labels(&labels);
    if (!pack(&pictures))
        skip();
    mkdir("d", 0777);
    write_to("d", "train-labels-idx1-ubyte", &labels);
    for (size_t i = 0; i < 2 * pictures.size; i++) {
        haul_scope *scope = haul_scope_push();
        bytes       b = pictures;
        if (i < b.size)
            b.of[i] ^= 0x24;
        else
            b.size = i - b.size;
        write_to("d", "train-images-idx3-ubyte", &b);
        haul_dataset *d = haul_mnist("d");
        if (d)
            check(d);
        haul_error_clear();
        haul_scope_pop(scope);
    }
}

static void test_cifar100__the_class_is_the_fine_one(void **state)
{
    (void)state;
    enum { RECORD = 3074 };
    haul_scope    *scope = haul_scope_push();
    static uint8_t data[2 * RECORD], picture[3072];
    int64_t        label;
    mkdir("c", 0777);
    mkdir("c/cifar-100-binary", 0777);
    data[RECORD] = 19;
    data[RECORD + 1] = 99;
    for (int i = 0; i < 3072; i++)
        data[RECORD + 2 + i] = (uint8_t)i;
    write_bytes("c/cifar-100-binary/train.bin", data, sizeof data);
    haul_dataset *d = haul_cifar100("c");
    if (!d)
        fail_msg("%s", haul_error_message());
    assert_int_equal(haul_dataset_count(d), 2);
    assert_string_equal(haul_dataset_name(d), "cifar100 (train)");
    assert_int_equal(read_example_of(d, 1, picture, &label), HAUL_OK);
    assert_int_equal(label, 99);
    assert_memory_equal(picture, data + RECORD + 2, sizeof picture);
    assert_string_equal(class_name(d, 99), "worm");
    assert_string_equal(class_name(d, 0), "apple");
    assert_null(haul_cifar100("c", .test = true));
    expect("test", HAUL_IO, "found no test.bin in c or in its cifar-100-binary");
    data[1] = 100;
    write_bytes("c/cifar-100-binary/test.bin", data, sizeof data);
    assert_null(haul_cifar100("c", .test = true));
    expect("label", HAUL_FORMAT, "is not a valid CIFAR-100 file: record 0 has the label 100, but the highest is 99");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mnist__files_are_found),
        cmocka_unit_test(test_mnist__unsound_files_are_refused),
        cmocka_unit_test(test_mnist__damage_of_packed_files_is_found),
        cmocka_unit_test(test_cifar100__the_class_is_the_fine_one),
    };
    return cmocka_run_group_tests_name("data_idx", tests, NULL, NULL);
}
