/* Files of PyTorch: names, layouts and dtypes of tensors, and every way in which a description can be wrong. The
 * pickles are written here as programs of one line; test_pickle.c has their bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/tensor_file.h"
#include "formats/zip.h"
#include "support/datasets.h"

enum { ROOM = 8192 };

/* Appends the bytes of a program: whole numbers, 'texts', <module name> for globals, T and F for truth values, and
 * operations of pickles with one character. */
static size_t assemble(const char *program, uint8_t *out)
{
    uint8_t *at = out;
    while (*program) {
        if (*program == ' ') {
            program++;
        } else if (*program == '-' || (*program >= '0' && *program <= '9')) {
            const long number = strtol(program, (char **)&program, 10);
            *at++ = 'J';
            for (int i = 0; i < 4; i++)
                *at++ = (uint8_t)((unsigned long)number >> 8 * i);
        } else if (*program == '\'') {
            const char  *end = strchr(++program, '\'');
            const size_t size = (size_t)(end - program);
            *at++ = 'X';
            for (int i = 0; i < 4; i++)
                *at++ = (uint8_t)(size >> 8 * i);
            memcpy(at, program, size);
            at += size;
            program = end + 1;
        } else if (*program == '<') {
            *at++ = 'c';
            for (program++; *program != '>'; program++)
                *at++ = *program == ' ' ? '\n' : (uint8_t)*program;
            *at++ = '\n';
            program++;
        } else {
            *at++ = *program == 'T' ? 0x88 : *program == 'F' ? 0x89 : (uint8_t)*program;
            program++;
        }
    }
    assert_true(at - out <= ROOM);
    return (size_t)(at - out);
}

/* Writes an archive with a storage of the numbers 0 to 11, of 32 bits each, and one of 5 bytes. */
static void write_archive(const char *folder, const char *program, const char *order)
{
    static const uint8_t bytes[5] = {1, 0, 1, 1, 0};
    uint8_t              pickle[ROOM];
    int32_t              numbers[12];
    char                 name[2048];
    haul__zip_writer zip = {.file = haul__writer_open("w.pt", "test"), .operation = "test", .limit = HAUL__ZIP_LIMIT};
    const size_t     size = assemble(program, pickle);
    for (int i = 0; i < 12; i++)
        numbers[i] = i;
    snprintf(name, sizeof name, "%sdata.pkl", folder);
    assert_int_equal(haul__zip_put(&zip, name, false, pickle, size, NULL, 0), HAUL_OK);
    snprintf(name, sizeof name, "%sbyteorder", folder);
    if (order)
        assert_int_equal(haul__zip_put(&zip, name, false, order, strlen(order), NULL, 0), HAUL_OK);
    snprintf(name, sizeof name, "%sdata/0", folder);
    assert_int_equal(haul__zip_put(&zip, name, false, numbers, sizeof numbers, NULL, 0), HAUL_OK);
    snprintf(name, sizeof name, "%sdata/b", folder);
    assert_int_equal(haul__zip_put(&zip, name, false, bytes, sizeof bytes, NULL, 0), HAUL_OK);
    assert_int_equal(haul__zip_end(&zip), HAUL_OK);
    assert_int_equal(haul__writer_commit(zip.file), HAUL_OK);
    haul__free(zip.directory);
}

/* Lists the tensors: name:dtype[shape]=values or name:dtype!fault. */
static void list(haul_safetensors *file, char *out, size_t room)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < haul_safetensors_count(file); i++) {
        haul_file_tensor e;
        assert_int_equal(haul_safetensors_entry(file, i, &e), HAUL_OK);
        used += (size_t)snprintf(out + used, room - used, "%s%s:%s", i ? "; " : "", e.name, e.dtype_name);
        haul_tensor *t = haul_safetensors_load(file, e.name);
        if (e.fault)
            assert_true(e.shape.ndim == 0 && e.bytes == 48); /* as the storage has */
        if (!haul_tensor_is_valid(t)) {
            used += (size_t)snprintf(out + used, room - used, "!%s", e.fault ? e.fault : "");
            haul_error_clear();
            continue;
        }
        for (int d = 0; d < e.shape.ndim; d++)
            used += (size_t)snprintf(out + used, room - used, "%s%lld", d ? "," : "[", (long long)e.shape.dims[d]);
        used += (size_t)snprintf(out + used, room - used, "%s=", e.shape.ndim ? "]" : "");
        assert_true(e.bytes == (uint64_t)haul_tensor_bytes(t));
        haul_tensor *wide = haul_cast(t, HAUL_I64);
        int64_t      values[16];
        assert_true(haul_tensor_count(wide) <= 16);
        assert_int_equal(haul_read(wide, values, haul_tensor_bytes(wide)), HAUL_OK);
        for (int64_t k = 0; k < haul_tensor_count(wide); k++)
            used += (size_t)snprintf(out + used, room - used, "%s%lld", k ? " " : "", (long long)values[k]);
    }
    assert_true(used < room);
}

#define STORAGE(dtype, key, count) "('storage' <" dtype "> '" key "' 'cpu' " count " tQ"
#define REST                       " F <collections OrderedDict> )R"
#define TENSOR_OF(storage, offset, sizes, strides)                                                                     \
    "<torch._utils _rebuild_tensor_v2> (" storage " " offset " (" sizes "t (" strides "t" REST "tR"
#define TENSOR(offset, sizes, strides) TENSOR_OF(STORAGE("torch IntStorage", "0", "12"), offset, sizes, strides)
#define BYTES(dtype)                   TENSOR_OF(STORAGE(dtype, "b", "5"), "0", "5", "1")
#define TYPED(dtype, storage_count)                                                                                    \
    "<torch._utils _rebuild_tensor_v3> (" STORAGE("torch.storage UntypedStorage", "0",                                 \
                                                  storage_count) " 0 (2t (1t" REST " <torch " dtype ">tR"

typedef struct row {
    const char *program, *result;
} row;

static void test_torch_file__tensors_are_listed(void **state)
{
    static const row rows[] = {
        {"}.", ""},
        {"N.", ""},
        {TENSOR("0", "3 4", "4 1") ".", "tensor:int32[3,4]=0 1 2 3 4 5 6 7 8 9 10 11"},
        {TENSOR("0", "", "") ".", "tensor:int32=0"},
        {TENSOR("11", "", "") ".", "tensor:int32=11"},
        {"}'a' " TENSOR("2", "2 3", "3 1") "s.", "a:int32[2,3]=2 3 4 5 6 7"},
        {"}'a' " TENSOR("0", "4 3", "1 4") "s.", "a:int32[4,3]=0 4 8 1 5 9 2 6 10 3 7 11"},
        {"}'a' " TENSOR("1", "2 2", "6 2") "s.", "a:int32[2,2]=1 3 7 9"},
        {"}'a' " TENSOR("3", "1 3", "100 1") "s.", "a:int32[1,3]=3 4 5"},
        {"}'a' " TENSOR("9", "3 1", "1 1") "s.", "a:int32[3,1]=9 10 11"},
        {"}'a' " TENSOR("0", "0 4", "4 1") "s.", "a:int32[0,4]="},
        {"}'a' " TENSOR("40", "2 0", "99 1") "s.", "a:int32[2,0]="},
        {"}'a' " TENSOR("0", "1 1 1 1 1 1 1 2", "1 1 1 1 1 1 1 1") "s.", "a:int32[1,1,1,1,1,1,1,2]=0 1"},
        {"}'a' " TENSOR("0", "1 1 1 1 1 1 1 1 1", "1 1 1 1 1 1 1 1 1") "s.", "a:int32!it has more than 8 dimensions"},
        {"}'a' " TENSOR("0", "2 3", "0 1") "s.",
         "a:int32!it has more elements than are stored, as expanded tensors have; save a clone() of it"},
        {"}'a' " TENSOR("2", "2 3", "0 1") "s.",
         "a:int32!it has more elements than are stored, as expanded tensors have; save a clone() of it"},
        {"}'a' " TENSOR("0", "2 2", "6 1") "s.", "a:int32[2,2]=0 1 6 7"},
        {"}'a' " TENSOR("0", "1 1 1 1 1 1 2 2", "1 1 1 1 1 1 1 2") "s.", "a:int32[1,1,1,1,1,1,2,2]=0 2 1 3"},
        {"}'a' " TENSOR_OF(STORAGE("torch IntStorage", "0", "0"), "0", "0", "1") "s.", "a:int32[0]="},
        {"}('long' " TENSOR("1", "1", "1") "'s' " TENSOR("2", "1", "1") "u.", "long:int32[1]=1; s:int32[1]=2"},
        {"}'b' " BYTES("torch BoolStorage") "s.", "b:bool[5]=1 0 1 1 0"},
        {"}'b' " BYTES("torch CharStorage") "s.", "b:int8[5]=1 0 1 1 0"},
        {"}'b' " BYTES("torch ByteStorage") "s.", "b:uint8[5]=1 0 1 1 0"},
        {"}'b' " BYTES("torch UntypedStorage") "s.", "b:uint8[5]=1 0 1 1 0"},
        {"}'s' " TENSOR_OF(STORAGE("torch ShortStorage", "0", "24"), "0", "6", "1") "s.", "s:int16[6]=0 0 1 0 2 0"},
        {"}'l' " TENSOR_OF(STORAGE("torch LongStorage", "0", "6"), "5", "1", "1") "s.", "l:int64[1]=47244640266"},
        {"}'c' " TENSOR_OF(STORAGE("torch ComplexFloatStorage", "0", "6"), "0", "1", "1") "s.", "c:complex64!"},
        {"}'h' " TENSOR_OF(STORAGE("torch HalfStorage", "0", "24"), "1", "1", "1") "s.", "h:float16[1]=0"},
        {"}'u' " TYPED("uint16", "48") "s.", "u:uint16[2]=0 0"},
        {"}'u' " TYPED("int32", "48") "s.", "u:int32[2]=0 1"},
        {"}'u' " TYPED("float8_e5m2", "48") "s.", "u:float8_e5m2!"},
        {"}'a' <torch._utils _rebuild_tensor> (" STORAGE("torch IntStorage", "0", "12") " 7 (2t (1ttRs.",
         "a:int32[2]=7 8"},
        {"}'a' <torch._utils _rebuild_parameter> (" TENSOR("4", "2", "1") "TNtRs.", "a:int32[2]=4 5"},
        {"}'a' <torch._utils _rebuild_parameter_with_state> (" TENSOR("4", "1", "1") "tRs.", "a:int32[1]=4"},
        {"}'a' <torch Size> ((1 2ttRs 'b' " TENSOR("1", "1", "1") "s.", "b:int32[1]=1"},
        {"}('z' 1 'y' N 'x' " TENSOR("1", "1", "1") "'w' 'text' u.", "x:int32[1]=1"},
        {"}'a' }'b' }'c' " TENSOR("1", "1", "1") "sss.", "a.b.c:int32[1]=1"},
        {"}'a' ](" TENSOR("1", "1", "1") "5 " TENSOR("2", "1", "1") "es.", "a.0:int32[1]=1; a.2:int32[1]=2"},
        {"(" TENSOR("1", "1", "1") TENSOR("2", "1", "1") "t.", "0:int32[1]=1; 1:int32[1]=2"},
        {"}'state' }(0 " TENSOR("1", "1", "1") "-7 " TENSOR("2", "1", "1") "us.",
         "state.0:int32[1]=1; state.-7:int32[1]=2"},
        {"}(N " TENSOR("1", "1", "1") ") " TENSOR("2", "1", "1") "'k' " TENSOR("3", "1", "1") "u.", "k:int32[1]=3"},
        {"<collections OrderedDict>)R'a' " TENSOR("1", "1", "1") "s}'_metadata' }sb.", "a:int32[1]=1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char        out[600];
        haul_scope *scope = haul_scope_push();
        write_archive(i % 2 ? "" : "archive/", rows[i].program, i % 3 ? "little" : NULL);
        haul_safetensors *file = haul_open_safetensors("w.pt", .map = i % 2);
        if (!file)
            fail_msg("%s: %s", rows[i].program, haul_error_message());
        list(file, out, sizeof out);
        assert_string_equal(out, rows[i].result);
        haul_scope_pop(scope);
    }
}

#define DESCRIBED(storage, offset, sizes, strides) "}'a' " TENSOR_OF(storage, offset, sizes, strides) "s."

static void test_torch_file__wrong_descriptions_are_refused(void **state)
{
    static const row rows[] = {
        {DESCRIBED("5", "0", "1", "1"), "'a' has no storage"},
        {DESCRIBED("5Q", "0", "1", "1"), "'a' has a storage without a name"},
        {DESCRIBED("('storage' <torch IntStorage> '0' 'cpu' tQ", "0", "1", "1"), "'a' has a storage without a name"},
        {DESCRIBED("('module' <torch IntStorage> '0' 'cpu' 12 tQ", "0", "1", "1"), "'a' has a storage without a name"},
        {DESCRIBED("('storage' <torch Size> '0' 'cpu' 12 tQ", "0", "1", "1"), "'a' has a storage without a name"},
        {DESCRIBED("('storage' <torch IntStorage> 0 'cpu' 12 tQ", "0", "1", "1"), "'a' has a storage without a name"},
        {DESCRIBED("('storage' <torch IntStorage> '1' 'cpu' 12 tQ", "0", "1", "1"),
         "'a' has a storage that the file lacks"},
        {DESCRIBED("('storage' <torch IntStorage> '0' 'cpu' 13 tQ", "0", "1", "1"),
         "'a' has a storage that is shorter than it claims"},
        {DESCRIBED("('storage' <torch IntStorage> '0' 'cpu' -1 tQ", "0", "1", "1"),
         "'a' has a storage that is shorter than it claims"},
        {DESCRIBED("('storage' <torch IntStorage> '0' 'cpu' N tQ", "0", "1", "1"),
         "'a' has a storage that is shorter than it claims"},
        {"}'a' " TENSOR("-1", "1", "1") "s.", "'a' has a description that is wrong"},
        {"}'a' " TENSOR("'0'", "1", "1") "s.", "'a' has a description that is wrong"},
        {"}'a' " TENSOR("0", "1 2", "1") "s.", "'a' has a description that is wrong"},
        {"}'a' <torch._utils _rebuild_tensor_v2> (" STORAGE("torch IntStorage", "0", "12") " 0 5 (1ttRs.",
         "'a' has a description that is wrong"},
        {"}'a' <torch._utils _rebuild_tensor_v2> (" STORAGE("torch IntStorage", "0", "12") " 0 ](1e (1ttRs.",
         "'a' has a description that is wrong"},
        {"}'a' <torch Sixe> ((1ttRs.", "w.pt holds the Python object 'torch.Sixe', which Haul does not read"},
        {"}'a' <torch._utils _rebuild_tensor_v2> (" STORAGE("torch IntStorage", "0", "12") " 0 (1t 5tRs.",
         "'a' has a description that is wrong"},
        {"}'a' <torch._utils _rebuild_tensor_v2> (" STORAGE("torch IntStorage", "0", "12") " 0 (1ttRs.",
         "'a' lacks a part of its description"},
        {"}'a' <torch._utils _rebuild_tensor_v3> (" STORAGE("torch UntypedStorage", "0", "48") " 0 (2t (1t" REST "tRs.",
         "'a' lacks a part of its description"},
        {"}'a' <torch._utils _rebuild_tensor_v3> (" STORAGE("torch UntypedStorage", "0", "48") " 0 (2t (1t" REST
                                                                                               " 5tRs.",
         "'a' has no dtype"},
        {"}'a' <torch._utils _rebuild_parameter> )Rs.", "'a' lacks a part of its description"},
        {"}'a' " TENSOR("0", "-1", "1") "s.", "'a' has a wrong size or stride"},
        {"}'a' " TENSOR("0", "1", "-1") "s.", "'a' has a wrong size or stride"},
        {"}'a' " TENSOR("0", "N", "1") "s.", "'a' has a wrong size or stride"},
        {"}'a' " TENSOR("0", "2000000000 2000000000 2000000000", "1 1 1") "s.", "'a' has a wrong size or stride"},
        {"}'a' " TENSOR("0", "13", "1") "s.", "'a' goes past the end of its storage"},
        {"}'a' " TENSOR("1", "12", "1") "s.", "'a' goes past the end of its storage"},
        {"}'a' " TENSOR("12", "", "") "s.", "'a' goes past the end of its storage"},
        {"}'a' " TENSOR("0", "2 2", "11 1") "s.", "'a' goes past the end of its storage"},
        {"}'a' " TENSOR("0", "2000000000 2000000000", "2000000000 2000000000") "s.",
         "'a' goes past the end of its storage"},
        {"}'a' " TYPED("int64", "48") "s.'b' " TENSOR_OF(STORAGE("torch IntStorage", "0", "12"), "0", "1", "1") "s",
         ""},
        {TENSOR("13", "1", "1") ".", "'its value' goes past the end of its storage"},
        {"].e", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        haul_scope *scope = haul_scope_push();
        write_archive("archive/", rows[i].program, "little");
        haul_safetensors *file = haul_open_safetensors("w.pt");
        if (rows[i].result[0]) {
            assert_null(file);
            assert_non_null(strstr(haul_error_message(), "w.pt "));
            expect(rows[i].program, HAUL_FORMAT, rows[i].result);
        } else {
            assert_non_null(file); /* nothing after the end of a pickle is read */
        }
        haul_scope_pop(scope);
    }
}

/* Dictionaries, one in the other, with a tensor in the innermost. */
static void nest(int depth, const char *name, char *program)
{
    program[0] = '\0';
    for (int i = 0; i < depth; i++)
        sprintf(program + strlen(program), "}'%s' ", name);
    strcat(program, TENSOR("1", "1", "1"));
    for (int i = 0; i < depth; i++)
        strcat(program, "s");
    strcat(program, ".");
}

static void expect_opened(const char *program, const char *folder, const char *order, haul_status status,
                          const char *words)
{
    haul_scope *scope = haul_scope_push();
    write_archive(folder, program, order);
    haul_safetensors *file = haul_open_safetensors("w.pt");
    if (status) {
        assert_null(file);
        expect(words, status, words);
    } else if (!file || haul_safetensors_count(file) != 1) {
        fail_msg("%s: %s", words, haul_error_message());
    }
    haul_scope_pop(scope);
}

static void test_torch_file__limits(void **state)
{
    static char program[ROOM], name[2048];
    (void)state;
    nest(16, "n", program);
    expect_opened(program, "archive/", NULL, HAUL_OK, "sixteen containers");
    nest(17, "n", program);
    expect_opened(program, "archive/", NULL, HAUL_FORMAT, "is nested too deeply");
    for (size_t size = 1023; size <= 1024; size++) { /* four of them, with three dots between them */
        memset(name, 'n', size);
        nest(4, name, program);
        expect_opened(program, "archive/", NULL, size == 1023 ? HAUL_OK : HAUL_FORMAT,
                      "has a longer name below it than 4,096 bytes");
    }
    strcpy(program, "]\x94(" TENSOR("1", "1", "1") "\x94"); /* a tensor that a list has again and again */
    for (int i = 0; i < 300; i++)
        strcat(program, "h\x01");
    strcat(program, "e.");
    expect_opened(program, "archive/", NULL, HAUL_FORMAT, "is one of more tensors than the file has room for");
}

static void test_torch_file__only_little_endian_archives_are_read(void **state)
{
    (void)state;
    expect_opened("}'a' " TENSOR("0", "1", "1") "s.", "x/", "little", HAUL_OK, "little-endian");
    expect_opened("}'a' " TENSOR("0", "1", "1") "s.", "x/", "big", HAUL_UNSUPPORTED,
                  "was written by a big-endian machine");
    expect_opened("}'a' " TENSOR("0", "1", "1") "s.", "x/", "middle", HAUL_UNSUPPORTED, "big-endian machine");
    for (size_t size = 63; size <= 65; size++) { /* a longer text is not the name of an order */
        char order[66] = "";
        memset(order, 'x', size);
        expect_opened("}'a' " TENSOR("0", "1", "1") "s.", "x/", order, size < 64 ? HAUL_UNSUPPORTED : HAUL_OK,
                      "big-endian machine");
    }
    expect_opened("", "x/", "little", HAUL_FORMAT, "is empty or has more than 256 MiB");
    expect_opened("}.", "x/y/", NULL, HAUL_FORMAT, "is a zip archive without arrays or weights");
}

static void test_torch_file__folders_have_long_names(void **state)
{
    char folder[1100];
    (void)state;
    for (int length = 1023; length <= 1024; length++) {
        memset(folder, 'f', sizeof folder);
        folder[length - 1] = '/';
        folder[length] = '\0';
        expect_opened("}'a' " TENSOR("3", "1", "1") "s.", folder, NULL, length < 1024 ? HAUL_OK : HAUL_FORMAT,
                      "has a folder with a long name");
    }
}

/* What depends on the number of bytes of the pickle: how many tensors it has, how long their names are, and how many
 * values it leads to. Each bound is met exactly. */
static void test_torch_file__limits_follow_the_size(void **state)
{
    static char    program[ROOM], name[2048];
    static uint8_t pickle[ROOM];
    (void)state;
    for (int k = 10; k < 60; k++) { /* a tensor that a list has again and again */
        haul_scope *scope = haul_scope_push();
        strcpy(program, "]\x94(" TENSOR("1", "1", "1") "\x94");
        for (int i = 0; i < k; i++)
            strcat(program, "h\x01");
        strcat(program, "e.");
        write_archive("", program, NULL);
        assert_int_equal(haul_open_safetensors("w.pt") != NULL, (size_t)k + 1 <= assemble(program, pickle) / 16 + 16);
        haul_error_clear();
        haul_scope_pop(scope);
    }
    bool met[2] = {false};
    for (size_t letters = 500; letters < 1100; letters++) { /* five tensors with a long name */
        memset(name, 'n', letters);
        name[letters] = '\0';
        sprintf(program, "}\x94'%s' ](" TENSOR("1", "1", "1") "\x94h\x01h\x01h\x01h\x01", name);
        strcat(program, "es.");
        const size_t room = 4 * assemble(program, pickle) + 64, names = 5 * (letters + 2);
        if (names + 3 < room || names > room + 3)
            continue;
        haul_scope *scope = haul_scope_push();
        write_archive("", program, NULL);
        assert_int_equal(haul_open_safetensors("w.pt") != NULL, names <= room);
        met[names > room] = true;
        haul_error_clear();
        haul_scope_pop(scope);
    }
    assert_true(met[0] && met[1]);
    for (int k = 1; k < 60; k++) { /* a list of twenty values that is in another one again and again */
        haul_scope *scope = haul_scope_push();
        strcpy(program, "]\x94(](NNNNNNNNNNNNNNNNNNNNe\x94");
        for (int i = 1; i < k; i++)
            strcat(program, "h\x01");
        strcat(program, "e.");
        write_archive("", program, NULL);
        assert_int_equal(haul_open_safetensors("w.pt") != NULL, 21 * (size_t)k <= 4 * assemble(program, pickle) + 64);
        haul_error_clear();
        haul_scope_pop(scope);
    }
}

/* The part before the names of weights: a known key, if it has a dictionary. */
static void test_torch_file__roots_of_weights(void **state)
{
    static const row rows[] = {{"}'state_dict' }s.", "state_dict."},
                               {"}'model' }s.", "model."},
                               {"}('x' 1 'net' }u.", "net."},
                               {"}('model' } 'state_dict' }u.", "state_dict."},
                               {"}'state_dict' 5 s.", ""},
                               {"}'other' }s.", ""},
                               {"].", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        haul_scope *scope = haul_scope_push();
        write_archive("archive/", rows[i].program, "little");
        haul_safetensors *file = haul_open_safetensors("w.pt");
        assert_non_null(file);
        const haul__safetensors_header *h = haul__safetensors_header_of(file);
        assert_string_equal(h->format, "PyTorch file");
        assert_string_equal(h->root ? h->root : "", rows[i].result);
        haul_scope_pop(scope);
    }
}

/* Tensors without gaps are used in place. Checksums are not compared, as a storage may have many tensors. */
static void test_torch_file__storages_are_used_as_they_are(void **state)
{
    static const struct {
        const char *program;
        bool        in_place;
    } rows[] = {{"}'a' " TENSOR("0", "3 4", "4 1") "s.", true},
                {"}'a' " TENSOR("4", "1 4", "99 1") "s.", true},
                {"}'a' " TENSOR("0", "2 2", "6 1") "s.", false}};
    uint8_t bytes[4096];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        haul_scope *scope = haul_scope_push();
        write_archive("archive/", rows[i].program, "little");
        haul_safetensors *file = haul_open_safetensors("w.pt", .map = true);
        assert_non_null(file);
        assert_int_equal(haul__safetensors_in_place(file, haul_safetensors_load(file, "a")), rows[i].in_place);
        haul_scope_pop(scope);
    }
    haul_scope *scope = haul_scope_push();
    write_archive("archive/", TENSOR("0", "1", "1") ".", "little");
    FILE *whole = fopen("w.pt", "rb");
    assert_non_null(whole);
    const size_t size = fread(bytes, 1, sizeof bytes, whole);
    fclose(whole);
    uint8_t *number = memmem(bytes, size, "\0\0\0\0\1\0\0\0\2\0\0\0", 12);
    assert_non_null(number);
    *number = 77;
    write_bytes("w.pt", bytes, size);
    assert_true(haul_item(haul_safetensors_load(haul_open_safetensors("w.pt"), "tensor")) == 77);
    haul_scope_pop(scope);
}

static void test_torch_file__every_failing_allocation_is_an_error(void **state)
{
    (void)state;
    write_archive("archive/", "}('a' " TENSOR("0", "4 3", "1 4") "'b' " TENSOR("0", "2 3", "0 1") "u.", "little");
    const int64_t blocks = haul__counted_blocks();
    for (int64_t nth = 1;; nth++) {
        haul_scope *scope = haul_scope_push();
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_FILE, nth);
        haul_safetensors *file = haul_open_safetensors("w.pt");
        const bool        reached = haul__fault_count() >= nth;
        haul__fault_plan(0, 0);
        if (!reached) {
            assert_int_equal(haul_safetensors_count(file), 2);
            haul_scope_pop(scope);
            break;
        }
        assert_null(file);
        assert_true(haul_error_status() == HAUL_OUT_OF_MEMORY || haul_error_status() == HAUL_IO);
        haul_error_clear();
        haul_scope_pop(scope);
    }
    assert_int_equal(haul__counted_blocks(), blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch_file__tensors_are_listed),
        cmocka_unit_test(test_torch_file__wrong_descriptions_are_refused),
        cmocka_unit_test(test_torch_file__limits),
        cmocka_unit_test(test_torch_file__only_little_endian_archives_are_read),
        cmocka_unit_test(test_torch_file__folders_have_long_names),
        cmocka_unit_test(test_torch_file__limits_follow_the_size),
        cmocka_unit_test(test_torch_file__roots_of_weights),
        cmocka_unit_test(test_torch_file__storages_are_used_as_they_are),
        cmocka_unit_test(test_torch_file__every_failing_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
