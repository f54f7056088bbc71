/* Readers of files and archives close and free what they opened, after a failure, too. */
#include <dirent.h>

#include "base/alloc.h"
#include "formats/archive/archive.h"
#include "formats/onnx/model.h"
#include "support/datasets.h"
#include "support/onnx/file.h"

static int count_open(void)
{
    int  count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void save(const char *path)
{
    haul_scope       *scope = haul_scope_push();
    haul_named_tensor named = {.name = "a", .tensor = haul_arange(HAUL_F32, 0, 4, 1)};
    if (strstr(path, ".npz"))
        assert_int_equal(haul_save_npz(path, &named, 1, false), HAUL_OK);
    else
        assert_int_equal(haul_save_safetensors(path, &named, 1, NULL, 0), HAUL_OK);
    haul_scope_pop(scope);
}

static void test_descriptors__of_tensors(void **state)
{
    static const char *const paths[] = {"d.npz", "d.safetensors", "d.index.json"};
    (void)state;
    save(paths[0]);
    save(paths[1]);
    write_text(paths[2], "{\"weight_map\":{\"a\":\"d.safetensors\"}}");
    for (int map = 0; map < 2; map++)
        for (int i = 0; i < 3; i++) {
            const int   before = count_open();
            haul_scope *scope = haul_scope_push();
            assert_true(haul_tensor_is_valid(haul_safetensors_load(haul_open_safetensors(paths[i], .map = map), "a")));
            haul_scope_pop(scope);
            assert_int_equal(count_open(), before);
        }
    const int before = count_open();
    for (int i = 0; i < 3; i++) {
        const int64_t blocks = haul__counted_blocks();
        bool          opened = false;
        for (int64_t nth = 1; !opened; nth++) {
            haul_scope *scope = haul_scope_push();
            haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_FILE, nth);
            opened = haul_open_safetensors(paths[i]) != NULL;
            const bool reached = haul__fault_count() >= nth;
            haul__fault_plan(0, 0);
            assert_int_equal(opened, !reached);
            haul_error_clear();
            haul_scope_pop(scope);
            assert_int_equal(count_open(), before);
        }
        assert_int_equal(haul__counted_blocks(), blocks);
    }
    write_text("wrong", "12345678{}");
    assert_null(haul_open_safetensors("wrong"));
    haul_error_clear();
    assert_int_equal(count_open(), before);
}

static bool find_none(void *context, const char *name)
{
    (void)context, (void)name;
    return false;
}

static void test_descriptors__of_archives(void **state)
{
    bool any = true;
    (void)state;
    save("d.npz");
    write_text("text", "a text");
    const int before = count_open();
    assert_true(haul__is_archive("d.npz"));
    assert_int_equal(count_open(), before);
    assert_false(haul__is_archive("text"));
    assert_int_equal(count_open(), before);
    assert_int_equal(haul__archive_look("d.npz", "test", find_none, NULL, &any), HAUL_OK);
    assert_false(any);
    assert_int_equal(count_open(), before);
    const int64_t  blocks = haul__counted_blocks();
    haul__archive *archive = NULL;
    for (int64_t nth = 1; !archive; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_FILE, nth);
        archive = haul__archive_of_files("d.npz", "test", NULL, NULL);
        haul__fault_plan(0, 0);
        haul_error_clear();
        assert_int_equal(count_open(), before + (archive != NULL));
    }
    assert_int_equal(haul__archive_count(archive), 1);
    haul__archive_close(archive);
    assert_int_equal(count_open(), before);
    assert_int_equal(haul__counted_blocks(), blocks);
    assert_null(haul__archive_of_files("text", "test", NULL, NULL));
    haul_error_clear();
    assert_int_equal(count_open(), before);
}

static void test_descriptors__of_external_data(void **state)
{
    static const float values[5] = {1, 2, 3, 4, 5};
    haul__onnx_model   m;
    float              out[4];
    message            graph = {0}, tensor = {0}, entry = {0};
    (void)state;
    write_bytes("w.data", values, sizeof values);
    put_number(&tensor, 1, 4);
    put_number(&tensor, 2, 1);
    put_number(&tensor, 14, 1);
    put_text(&entry, 1, "location");
    put_text(&entry, 2, "w.data");
    put_message(&tensor, 13, &entry);
    put_message(&graph, 5, &tensor);
    const message file = model_of(&graph, 17);
    assert_int_equal(haul__onnx_read(&m, (haul__bytes){file.bytes, file.size}, NULL, "t.onnx", "test"), HAUL_OK);
    const haul__onnx_tensor *t = m.graph.tensors;
    const int                before = count_open();
    assert_int_equal(haul__onnx_check_external(t, "t.onnx", "test", 20), HAUL_OK);
    assert_int_equal(count_open(), before);
    assert_int_equal(haul__onnx_check_external(t, "t.onnx", "test", 21), HAUL_FORMAT);
    expect("short", HAUL_FORMAT, "is in w.data, which is shorter than that; fetch the file again");
    assert_int_equal(count_open(), before);
    assert_int_equal(haul__onnx_elements(t, "t.onnx", "test", out, sizeof out), HAUL_OK);
    assert_memory_equal(out, values, sizeof out);
    assert_int_equal(count_open(), before);
    haul__onnx_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors__of_tensors),
        cmocka_unit_test(test_descriptors__of_archives),
        cmocka_unit_test(test_descriptors__of_external_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
