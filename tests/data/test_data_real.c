/* Real CIFAR-10, as binary files and as pictures in folders; HAUL_TEST_DATA names the folder that has both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/example.h"

static const char *folder;

/* Number of pictures and mean of all values, for each class. */
typedef struct summary {
    int64_t counts[10];
    double  means[10];
} summary;

static summary summarise(const haul_dataset *d)
{
    summary s = {{0}, {0}};
    uint8_t picture[3072];
    int64_t label;
    if (!d)
        fail_msg("%s", haul_error_message());
    for (int64_t i = 0; i < haul_dataset_count(d); i++) {
        int64_t sum = 0;
        assert_int_equal(read_example_of(d, i, picture, &label), HAUL_OK);
        for (int k = 0; k < 3072; k++)
            sum += picture[k];
        s.counts[label]++;
        s.means[label] += (double)sum / 3072;
    }
    for (int i = 0; i < 10; i++)
        s.means[i] /= (double)s.counts[i];
    return s;
}

static void test_real__pictures_and_binary_files_agree(void **state)
{
    (void)state;
    char        images[1024];
    haul_scope *scope = haul_scope_push();
    snprintf(images, sizeof images, "%s/images", folder);
    for (int test = 0; test <= 1; test++) {
        haul_dataset *binary = haul_cifar10(folder, .test = test), *pictures = haul_image_folder(images, .test = test);
        summary       a = summarise(binary), b = summarise(pictures);
        haul_field    one, other;
        assert_int_equal(haul_dataset_field(binary, 1, &one), HAUL_OK);
        assert_int_equal(haul_dataset_field(pictures, 1, &other), HAUL_OK);
        for (int i = 0; i < 10; i++) {
            assert_string_equal(one.class_names[i], other.class_names[i]);
            assert_int_equal(a.counts[i], test ? 1000 : 5000);
            assert_int_equal(b.counts[i], test ? 1000 : 5000);
            assert_true(fabs(a.means[i] - b.means[i]) < 0.5); /* JPEG loses little */
        }
    }
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_real__pictures_and_binary_files_agree)};
    folder = getenv("HAUL_TEST_DATA");
    if (!folder) {
        printf("skipped: HAUL_TEST_DATA does not name a folder with CIFAR-10\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
