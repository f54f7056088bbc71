/* Sharded safetensors: every tensor is in exactly one file of the index's folder, or an error names it. */
#include <sys/stat.h>
#include <unistd.h>

#include "formats/tensor_file.h"
#include "support/datasets.h"
#include "support/linalg.h"

#define INDEX "m/model.safetensors.index.json"

static void write_shard(const char *path, const char *first, const char *second, double value)
{
    haul_tensor      *t = haul_full(HAUL_F32, HAUL_SHAPE(2), value);
    haul_named_tensor tensors[] = {{.name = first, .tensor = t}, {.name = second, .tensor = t}};
    assert_int_equal(haul_save_safetensors(path, tensors, second ? 2 : 1, NULL, 0), HAUL_OK);
}

static haul_safetensors *open_with(const char *text, bool map)
{
    write_bytes(INDEX, text, strlen(text));
    return haul_open_safetensors(INDEX, .map = map);
}

static void refused(const char *text, const char *message)
{
    assert_null(open_with(text, false));
    expect(text, HAUL_FORMAT, message);
}

#define MAP(rows) "{\"metadata\": {\"total_size\": 32}, \"weight_map\": {" rows "}}"
#define A         "\"a\": \"1.safetensors\", "
#define B         "\"b\": \"1.safetensors\", "
#define C         "\"c\": \"2.safetensors\""

static void make_shards(void)
{
    assert_true(mkdir("m", 0777) == 0 || access("m", W_OK) == 0);
    write_shard("m/1.safetensors", "a", "b", 1);
    write_shard("m/2.safetensors", "c", NULL, 2);
}

static void test_io_index__tensors_of_all_files(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c"};
    haul_scope              *scope = haul_scope_push();
    make_shards();
    for (int map = 0; map < 2; map++) {
        haul_safetensors *file = open_with(MAP(A B C), map);
        assert_non_null(file);
        assert_int_equal(haul_safetensors_count(file), 3);
        assert_string_equal(haul__safetensors_header_of(file)->format, "sharded safetensors");
        for (int i = 0; i < 3; i++) {
            float x[2] = {0};
            assert_int_equal(haul_read(haul_safetensors_load(file, names[i]), x, sizeof x), HAUL_OK);
            assert_true(x[0] == (i < 2 ? 1 : 2) && x[1] == x[0]);
        }
    }
    assert_int_equal(haul_safetensors_count(open_with("{\"weight_map\": {}}", true)), 0);
    haul_scope_pop(scope);
}

static void test_io_index__modules_load(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_true(mkdir("w", 0777) == 0);
    haul_module      *net = haul_nn_linear(1, 2), *other = haul_nn_linear(1, 2);
    haul_named_tensor all[2];
    assert_int_equal(haul_module_tensors(net, all, 2), 2);
    assert_int_equal(haul_save_safetensors("w/1.safetensors", &all[0], 1, NULL, 0), HAUL_OK);
    assert_int_equal(haul_save_safetensors("w/2.safetensors", &all[1], 1, NULL, 0), HAUL_OK);
    static const char map[] = "{\"weight_map\":{\"weight\":\"1.safetensors\",\"bias\":\"2.safetensors\"}}";
    write_bytes("w/model.safetensors.index.json", map, sizeof map - 1);
    assert_int_equal(haul_load_weights("w/model.safetensors.index.json", other), HAUL_OK);
    float x[2], y[2];
    assert_int_equal(haul_read(haul_module_parameter(net, "weight"), x, sizeof x), HAUL_OK);
    assert_int_equal(haul_read(haul_module_parameter(other, "weight"), y, sizeof y), HAUL_OK);
    assert_memory_equal(x, y, sizeof x);
    haul_scope_pop(scope);
}

static void test_io_index__disagreement_is_an_error(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    make_shards();
    refused(MAP(B C), "m/1.safetensors holds 'a', which " INDEX " does not expect there");
    refused(MAP(A C), "m/1.safetensors holds 'b', which " INDEX " does not expect there");
    refused(MAP(A B "\"x\": \"1.safetensors\", " C), "m/1.safetensors lacks 'x', which " INDEX " expects there");
    refused(MAP(A B A C), "'a' occurs twice");
    write_shard("m/2.safetensors", "a", NULL, 2);
    refused(MAP(A B "\"a\": \"2.safetensors\""), "'a' occurs twice");
    refused(MAP(A B C), "m/2.safetensors lacks 'c'");
    refused(MAP("\"a\": 1"), "'a' has no name of a file");
    refused("{\"weight_map\": 1}", "has a weight_map");
    refused("{\"weight_map\": {", "has a weight_map");
    refused("{\"x\": 1}", "has a weight_map");
    assert_null(open_with(MAP("\"a\": \"3.safetensors\""), false));
    expect("missing", HAUL_IO, "cannot open m/3.safetensors");
    haul_scope_pop(scope);
}

static void test_io_index__files_stay_in_the_folder(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    make_shards();
    write_shard("outside.safetensors", "a", NULL, 1);
    refused(MAP("\"a\": \"../outside.safetensors\""), "leads out of the index's folder");
    refused(MAP("\"a\": \"/outside.safetensors\""), "leads out of the index's folder");
    refused(MAP("\"a\": \"..\""), "leads out of the index's folder");
    refused(MAP("\"a\": \"\""), "leads out of the index's folder");
    refused(MAP("\"a\": \"x/../1.safetensors\""), "leads out of the index's folder");
    unlink("m/link.safetensors");
    assert_int_equal(symlink("../outside.safetensors", "m/link.safetensors"), 0);
    refused(MAP("\"a\": \"link.safetensors\""), "is a link that leads out of the index's folder");
    unlink("m/link.safetensors");
    assert_int_equal(symlink("2.safetensors", "m/link.safetensors"), 0);
    assert_non_null(open_with(MAP("\"c\": \"link.safetensors\""), false));
    haul_scope_pop(scope);
}

/* An index is found by its text or by its name, and a file of weights is one by any name. */
static void test_io_index__files_have_any_name(void **state)
{
    (void)state;
    static const char map[] = MAP(A B C);
    haul_scope       *scope = haul_scope_push();
    make_shards();
    write_bytes("m/map", map, sizeof map - 1);
    assert_int_equal(haul_safetensors_count(haul_open_safetensors("m/map")), 3);
    write_shard("m/weights.index.json", "a", "a tensor whose name fills the header", 1);
    haul_safetensors *file = haul_open_safetensors("m/weights.index.json");
    assert_int_equal(haul_safetensors_count(file), 2);
    assert_string_equal(haul__safetensors_header_of(file)->format, "safetensors");
    haul_scope_pop(scope);
}

/* A name has at most 255 bytes, as names of files have. */
static void test_io_index__names_have_a_limit(void **state)
{
    (void)state;
    char        name[300], path[400], text[400];
    haul_scope *scope = haul_scope_push();
    make_shards();
    memset(name, 'n', sizeof name);
    for (size_t size = 255; size <= 256; size++) {
        name[size] = '\0';
        snprintf(path, sizeof path, "m/%s", name);
        if (size == 255) {
            write_shard("m/3.safetensors", "a", NULL, 3);
            assert_int_equal(rename("m/3.safetensors", path), 0);
        }
        snprintf(text, sizeof text, "{\"weight_map\":{\"a\":\"%s\"}}", name);
        if (size == 255)
            assert_int_equal(haul_safetensors_count(open_with(text, false)), 1);
        else
            refused(text, "'a' is in a file whose name leads out of the index's folder, or is hidden");
        name[size] = 'n';
    }
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_io_index__tensors_of_all_files),
        cmocka_unit_test(test_io_index__modules_load),
        cmocka_unit_test(test_io_index__disagreement_is_an_error),
        cmocka_unit_test(test_io_index__files_stay_in_the_folder),
        cmocka_unit_test(test_io_index__files_have_any_name),
        cmocka_unit_test(test_io_index__names_have_a_limit),
    };
    return cmocka_run_group_tests_name("io_index", tests, NULL, NULL);
}
