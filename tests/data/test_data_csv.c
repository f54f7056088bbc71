/* CSV files as datasets: cells, numbers, the types of columns, labels; and refused files, with the line. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/csv/csv.h"
#include "support/datasets.h"

static haul_dataset *csv(const char *text)
{
    write_text("some.csv", text);
    return haul_csv_dataset("some.csv");
}

static void test_csv__numbers_and_labels(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    haul_dataset *data = csv("\xef\xbb\xbfsize,\"we\"\"ight\",kind\r\n"
                             "1,2.5,cat\r\n"
                             "\r\n"
                             " -3 ,\"1e2\",\"do,\"\"g\"\r\n"
                             "4,.5,cat");
    haul_field    field;
    float         x[3][2];
    int64_t       y[3];
    if (!data)
        fail_msg("%s", haul_error_message());
    assert_int_equal(haul_dataset_count(data), 3);
    assert_string_equal(haul_dataset_name(data), "some.csv");
    assert_int_equal(haul_dataset_field(data, 1, &field), HAUL_OK);
    assert_int_equal(field.classes, 2);
    assert_string_equal(field.class_names[0], "cat");
    assert_string_equal(field.class_names[1], "do,\"g");
    const haul_batch *b = whole(data);
    assert_int_equal(haul_read(b->x, x, sizeof x), HAUL_OK);
    assert_int_equal(haul_read(b->y, y, sizeof y), HAUL_OK);
    assert_true(x[0][0] == 1 && x[0][1] == 2.5f && x[1][0] == -3 && x[1][1] == 100 && x[2][1] == 0.5f);
    assert_true(y[0] == 0 && y[1] == 1 && y[2] == 0);
    haul_scope_pop(scope);
}

static void test_csv__fields_name_their_columns(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    write_text("wide.csv", "id;a b;c;d;colour\n7;1;2;;red\n8;4;5;6;blue\n");
    const char *const colours[] = {"red", "green", "blue"};
    haul_dataset     *data = haul_csv_dataset(
            "wide.csv", .separator = ';', .missing = true,
            .fields = {{.name = "points", .columns = "a b..d"},
                       {.name = "id", .columns = "id"},
                       {.name = "one", .columns = "c..c", .dtype = HAUL_F64},
                       {.name = "colour", .columns = "colour", .dtype = HAUL_U8, .classes = 3, .class_names = colours}});
    assert_null(data);
    expect(__func__, HAUL_INVALID_ARGUMENT, "column \"c\" is in the fields points and one");
    data = haul_csv_dataset(
        "wide.csv", .separator = ';', .missing = true,
        .fields = {{.name = "points", .columns = "d, a b"},
                   {.name = "id", .columns = "id"},
                   {.name = "one", .columns = "c..c", .dtype = HAUL_F64},
                   {.name = "colour", .columns = "colour", .dtype = HAUL_U8, .classes = 3, .class_names = colours}});
    if (!data)
        fail_msg("%s", haul_error_message());
    float             points[2][2];
    double            one[2];
    int64_t           id[2];
    uint8_t           colour[2];
    const haul_batch *b = whole(data);
    assert_int_equal(haul_read(haul_batch_tensor(b, "points"), points, sizeof points), HAUL_OK);
    assert_int_equal(haul_read(haul_batch_tensor(b, "id"), id, sizeof id), HAUL_OK);
    assert_int_equal(haul_read(haul_batch_tensor(b, "one"), one, sizeof one), HAUL_OK);
    assert_int_equal(haul_read(haul_batch_tensor(b, "colour"), colour, sizeof colour), HAUL_OK);
    assert_int_equal(haul_tensor_ndim(haul_batch_tensor(b, "one")), 2);
    /* columns keep the order of the text */
    assert_true(isnan(points[0][0]) && points[0][1] == 1 && points[1][0] == 6 && points[1][1] == 4);
    assert_true(id[0] == 7 && id[1] == 8 && one[0] == 2 && one[1] == 5 && colour[0] == 0 && colour[1] == 2);
    write_text("bare.csv", "1,2\n3,4\n");
    assert_int_equal(haul_dataset_count(haul_csv_dataset("bare.csv", .no_header = true)), 2);
    assert_non_null(haul_csv_dataset("bare.csv", .no_header = true, .fields = {{.name = "a", .columns = "1"}}));
    haul_scope_pop(scope);
}

static void test_csv__malformed_lines_are_refused_with_their_number(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        haul_status status;
        const char *words;
    } cases[] = {
        {"", HAUL_FORMAT, "some.csv has no lines"},
        {"\n\n", HAUL_FORMAT, "some.csv has no lines"},
        {"a,b\n1,2\n3\n", HAUL_FORMAT, "some.csv:3: there are 1 cells, but 2 columns"},
        {"a,b\n1,2,3\n", HAUL_FORMAT, "some.csv:2: there are 3 cells, but 2 columns"},
        {"a,b\n1,\"2\n3,4\n", HAUL_FORMAT, "some.csv:2: a quoted cell does not end"},
        {"a,b\n1,\"2\"x\n", HAUL_FORMAT, "some.csv:2: something follows the quote"},
        {"a\"b,c\n1,2\n", HAUL_FORMAT, "some.csv:1: a quote is within a cell"},
        {"a,b\n\n1,2\"\n", HAUL_FORMAT, "some.csv:3: a quote is within a cell"},
        {"a,b\n\"1\n\",2\nx,3\n", HAUL_FORMAT, "some.csv:2: \"1 \" in column \"a\" is not a number that f32"},
        {"a,b\n1,2\n,3\n", HAUL_FORMAT, "some.csv:3: column \"a\" has no value; .missing = true reads NaN"},
        {"a,b\n0x10,3\n", HAUL_FORMAT, "\"0x10\" in column \"a\" is not a number"},
        {"a,b\n1,2\n1,\n", HAUL_FORMAT, "some.csv:3: column \"b\" has no value"},
        {"a\n1\n", HAUL_INVALID_ARGUMENT, "at least two are needed"},
    };
    haul_scope *scope = haul_scope_push();
    int64_t     blocks = haul__host_blocks();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(csv(cases[i].text));
        expect(__func__, cases[i].status, cases[i].words);
    }
    assert_int_equal(haul__host_blocks(), blocks);
    assert_null(haul_csv_dataset("nowhere.csv"));
    expect(__func__, HAUL_IO, "nowhere.csv");
    assert_null(haul_csv_dataset(NULL));
    expect(__func__, HAUL_INVALID_ARGUMENT, "path");
    write_text("some.csv", "a,b,c\n1,300,u\n2,4,v\n");
    assert_null(haul_csv_dataset("some.csv", .separator = '"'));
    expect(__func__, HAUL_INVALID_ARGUMENT, "cannot separate");
    assert_null(haul_csv_dataset("some.csv", .fields = {{.name = "x", .columns = "a, z"}}));
    expect(__func__, HAUL_INVALID_ARGUMENT, "no column \"z\", which field x names; it has \"a\", \"b\", \"c\"");
    write_text("twice.csv", "a,b,a\n1,2,3\n");
    assert_null(haul_csv_dataset("twice.csv", .fields = {{.name = "x", .columns = "b, a"}}));
    expect(__func__, HAUL_INVALID_ARGUMENT, "twice.csv has two columns \"a\"; give them different names");
    assert_non_null(haul_csv_dataset("twice.csv", .fields = {{.name = "x", .columns = "b"}}));
    assert_null(haul_csv_dataset("some.csv", .fields = {{.name = "x", .columns = "a"}, {.columns = "b"}}));
    expect(__func__, HAUL_INVALID_ARGUMENT, "the field with the columns \"b\" has no name");
    assert_null(haul_csv_dataset("some.csv", .fields = {{.name = "x", .columns = "b..a"}}));
    expect(__func__, HAUL_INVALID_ARGUMENT, "column \"b\" comes after \"a\"");
    assert_null(haul_csv_dataset("some.csv", .fields = {{.name = "x", .columns = "b", .dtype = HAUL_U8}}));
    expect(__func__, HAUL_FORMAT, "some.csv:2: \"300\" in column \"b\" is not a number that u8 represents");
    assert_null(haul_csv_dataset("some.csv", .fields = {{.name = "x", .columns = "b,c"}}));
    expect(__func__, HAUL_INVALID_ARGUMENT, "give it one column and an integer dtype");
    const char *const names[] = {"u"};
    assert_null(
        haul_csv_dataset("some.csv", .fields = {{.name = "x", .columns = "c", .classes = 1, .class_names = names}}));
    expect(__func__, HAUL_FORMAT, "some.csv:3: \"v\" is none of the 1 classes of field x");
    assert_null(haul_csv_dataset("some.csv", .fields = {{.name = "x", .columns = ""}}));
    expect(__func__, HAUL_INVALID_ARGUMENT, "names no columns");
    haul_scope_pop(scope);
}

static void test_csv__cells_as_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        haul_dtype  dtype;
        double      value; /* NaN: it is none */
    } cases[] = {
        {"1.5", HAUL_F64, 1.5},
        {"-1e-3", HAUL_F64, -1e-3},
        {"1,5", HAUL_F64, (double)NAN},
        {"1.5", HAUL_I64, (double)NAN},
        {"127", HAUL_I8, 127},
        {"128", HAUL_I8, (double)NAN},
        {"-128", HAUL_I8, -128},
        {"-1", HAUL_U8, (double)NAN},
        {"1", HAUL_BOOL, 1},
        {"2", HAUL_BOOL, (double)NAN},
        {"inf", HAUL_F64, (double)INFINITY},
        {"0x1p3", HAUL_F64, (double)NAN},
        {"", HAUL_F64, (double)NAN},
        {"9223372036854775808", HAUL_I64, (double)NAN},
        {"1 2", HAUL_I32, (double)NAN},
        {"+7", HAUL_I32, 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        haul__csv_cell cell = {.text = cases[i].text, .length = strlen(cases[i].text)};
        int64_t        integer = 0;
        double         value = 0;
        bool read = haul__csv_number(&cell, cases[i].dtype, cases[i].dtype == HAUL_F64 ? (void *)&value : &integer);
        if (cases[i].dtype != HAUL_F64 && read)
            value = cases[i].dtype == HAUL_I8 ? (double)*(int8_t *)&integer : (double)integer;
        if (read != !isnan(cases[i].value) || (read && value != cases[i].value))
            fail_msg("\"%s\" as %s is %g", cases[i].text, haul_dtype_name(cases[i].dtype), value);
    }
}

static void test_csv__every_failing_call_is_an_error(void **state)
{
    (void)state;
    bool whole_run = false;
    write_text("some.csv", "a,b\n1,x\n2,y\n3,x\n");
    haul_scope *outer = haul_scope_push();
    for (int64_t nth = 1; !whole_run; nth++) {
        int64_t     blocks = haul__host_blocks();
        haul_scope *scope = haul_scope_push();
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_FILE, nth);
        whole_run = haul_csv_dataset("some.csv") != NULL;
        haul__fault_plan(0, 0);
        assert_int_equal(whole_run, haul_error_status() == HAUL_OK);
        haul_error_clear();
        haul_scope_pop(scope);
        assert_int_equal(haul__host_blocks(), blocks);
    }
    haul_scope_pop(outer);
}

/* ---- numbers ---- */

static void test_csv__numbers_too_large_are_refused(void **state)
{
    static const struct {
        const char *cell;
        haul_dtype  dtype;
        bool        fits;
    } cases[] = {
        {"1e39", HAUL_F32, false},
        {"-1e39", HAUL_F32, false},
        {"3.4e38", HAUL_F32, true},
        {"1e400", HAUL_F32, false},
        {"1e400", HAUL_F64, false},
        {"1e39", HAUL_F64, true},
        {"70000", HAUL_F16, false},
        {"65504", HAUL_F16, true},
        {"1e39", HAUL_BF16, false},
        {"inf", HAUL_F32, true},
        {"-Infinity", HAUL_F16, true},
        {"nan", HAUL_F32, true},
        {"1e-400", HAUL_F32, true},
        {"256", HAUL_U8, false},
        {"9223372036854775808", HAUL_I64, false},
        {"18014398509481985", HAUL_F64, true},
    };
    char text[80], wanted[120];
    (void)state;
    haul_scope *scope = haul_scope_push();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "a,b\n1,1\n%s,2\n", cases[i].cell);
        snprintf(wanted, sizeof wanted, "some.csv:3: \"%s\" in column \"a\" is not a number that %s represents",
                 cases[i].cell, haul_dtype_name(cases[i].dtype));
        write_text("some.csv", text);
        haul_dataset *d =
            haul_csv_dataset("some.csv", .fields = {{.name = "x", .columns = "a", .dtype = cases[i].dtype}});
        if (!d == cases[i].fits)
            fail_msg("%s as %s: %s", cases[i].cell, haul_dtype_name(cases[i].dtype), haul_error_message());
        if (!d)
            expect(__func__, HAUL_FORMAT, wanted);
    }
    assert_null(csv("a,b\n1e39,1\n"));
    expect(__func__, HAUL_FORMAT,
           "some.csv:2: \"1e39\" in column \"a\" is not a number that f32 represents; give the field");
    haul_scope_pop(scope);
}

static void test_csv__integers_are_not_rounded_in_silence(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_null(csv("x,id\n1,18446744073709551615\n2,18446744073709551614\n"));
    expect(__func__, HAUL_FORMAT,
           "some.csv:2: \"18446744073709551615\" in column \"id\" is a whole number beyond 2^53");
    assert_null(csv("x,id\n1,1.5\n2,-9007199254740993\n"));
    expect(__func__, HAUL_FORMAT, "some.csv:3: \"-9007199254740993\" in column \"id\" is a whole number beyond 2^53");
    assert_null(csv("id,y\n9007199254740993,1\n"));
    expect(__func__, HAUL_FORMAT, "some.csv:2: \"9007199254740993\" in column \"id\"");
    assert_non_null(csv("id,y\n9007199254740992,1.5\n"));
    int64_t       y = 0;
    haul_dataset *d = csv("x,y\n1,9223372036854775807\n"); /* exact */
    assert_non_null(d);
    assert_int_equal(haul_read(whole(d)->y, &y, sizeof y), HAUL_OK);
    assert_true(y == INT64_MAX);
    /* the request is followed */
    assert_non_null(haul_csv_dataset("some.csv", .fields = {{.name = "y", .columns = "y", .dtype = HAUL_F64}}));
    haul_scope_pop(scope);
}

/* ---- the type of a column ---- */

static void assert_y(const char *text, haul_dtype dtype, int classes)
{
    haul_field    y;
    haul_dataset *d = csv(text);
    if (!d || haul_dataset_field(d, 1, &y))
        fail_msg("%s", haul_error_message());
    assert_int_equal(y.dtype, dtype);
    assert_int_equal(y.classes, classes);
}

static void test_csv__all_cells_decide_the_type_of_a_column(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_y("x,y\n1,1\n2,-3\n", HAUL_I64, 0);
    assert_y("x,y\n1,1\n2,1.5\n3,nan\n", HAUL_F32, 0);
    assert_y("x,y\n1,no\n2,yes\n3,no\n", HAUL_I64, 2);
    assert_y("x,y\n1,\"1,5\"\n2,\"2,5\"\n", HAUL_I64, 2);
    static const struct {
        const char *text, *words;
    } mixed[] = {
        {"x,price\n1,100.5\n2,NA\n3,320.25\n4,99\n",
         "some.csv:3: \"NA\" in column \"price\" is not a number, but 3 of 4 cells are numbers; correct it, or set "
         ".missing_text if it stands for a missing value, or .labels"},
        {"x,price\n1,100\n2,\"1,200\"\n3,320\n", "some.csv:3: \"1,200\" in column \"price\" is not a number"},
        {"x,price\n1,a\n2,b\n3,1\n", "some.csv:4: \"1\" in column \"price\" is a number, but 2 of 3 cells are texts"},
        {"x,price\n1,1\n2,0x10\n", "some.csv:3: \"0x10\" in column \"price\" is not a number, but 1 of 2"},
        {"x,price\nNA,1\n2,1\n",
         "some.csv:2: \"NA\" in column \"x\" is not a number that f32 represents; set .missing_text"},
    };
    for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++) {
        assert_null(csv(mixed[i].text));
        expect(__func__, HAUL_FORMAT, mixed[i].words);
    }
    haul_scope_pop(scope);
}

static void test_csv__missing_texts_are_nan(void **state)
{
    (void)state;
    float       y[4];
    char        mark[] = "NA";
    haul_scope *scope = haul_scope_push();
    write_text("some.csv", "x,y\n1,100.5\n2, NA\n3,\n4,\"NA\"\n");
    haul_dataset *d = haul_csv_dataset("some.csv", .missing_text = mark);
    if (!d)
        fail_msg("%s", haul_error_message());
    mark[0] = 'X'; /* the text is the caller's again */
    assert_int_equal(haul_read(whole(d)->y, y, sizeof y), HAUL_OK);
    assert_true(y[0] == 100.5f && isnan(y[1]) && isnan(y[2]) && isnan(y[3]));
    /* integers and labels have no NaN */
    assert_null(haul_csv_dataset("some.csv", .missing_text = "NA",
                                 .fields = {{.name = "y", .columns = "y", .dtype = HAUL_I32}}));
    expect(__func__, HAUL_FORMAT, "some.csv:2: \"100.5\" in column \"y\" is not a number that i32 represents; give");
    assert_null(haul_csv_dataset("some.csv", .missing_text = "NA", .fields = {{"y", "y", .labels = true}}));
    expect(__func__, HAUL_FORMAT, "some.csv:3: column \"y\" has no label");
    haul_scope_pop(scope);
}

static void test_csv__labels_on_demand(void **state)
{
    (void)state;
    haul_field  y;
    int64_t     index[4];
    haul_scope *scope = haul_scope_push();
    write_text("some.csv", "y\n10\n9\nten\n10\n");
    haul_dataset *d = haul_csv_dataset("some.csv", .fields = {{"y", "y", .labels = true}});
    if (!d || haul_dataset_field(d, 0, &y))
        fail_msg("%s", haul_error_message());
    assert_true(y.classes == 3 && strcmp(y.class_names[0], "10") == 0 && strcmp(y.class_names[2], "ten") == 0);
    assert_int_equal(haul_read(whole(d)->x, index, sizeof index), HAUL_OK);
    assert_true(index[0] == 0 && index[1] == 1 && index[2] == 2 && index[3] == 0);
    assert_null(haul_csv_dataset("some.csv", .fields = {{"y", "y", HAUL_F32, .labels = true}}));
    expect(__func__, HAUL_INVALID_ARGUMENT, "give it one column and an integer dtype");
    haul_scope_pop(scope);
}

/* ---- labels and names ---- */

static void test_csv__odd_labels_make_no_classes(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"x,y\n1,yes\n2, yes\n3,no\n",
         "some.csv:3: \" yes\" in column \"y\" has blanks around it; remove them, or quote"},
        {"x,y\n1,yes\n2,yes\t\n3,no\n", "some.csv:3: \"yes \" in column \"y\" has blanks around it"},
        {"x,y\n1,yes\n2,\n3,no\n", "some.csv:3: column \"y\" has no label; write \"\" if the empty text is one"},
        {"x,y\n1,yes\n2,  \n3,no\n", "some.csv:3: column \"y\" has no label"},
        {"x,y\n1,tea\n2,caf\xe9\n", "some.csv:3: a label in column \"y\" is not UTF-8; convert the file"},
        {"x,caf\xe9\n1,2\n", "some.csv:1: the name of column 1 is not UTF-8"},
    };
    (void)state;
    haul_scope *scope = haul_scope_push();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(csv(cases[i].text));
        expect(__func__, HAUL_FORMAT, cases[i].words);
    }
    assert_y("x,y\n1,\" yes\"\n2,yes\n3,\"\"\n4,caf\xc3\xa9\n", HAUL_I64, 4); /* quotes keep blanks and nothing */
    write_text("some.csv", "a, b ,\" c\"\n1, 2 ,\t3\n"); /* blanks around names and numbers are ignored */
    assert_non_null(haul_csv_dataset("some.csv", .fields = {{"x", "a,b"}}));
    haul_scope_pop(scope);
}

static void test_csv__a_first_line_of_data_is_no_header(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_null(csv("7,0.5,1\n3,1.5,0\n"));
    expect(__func__, HAUL_FORMAT,
           "the first line of some.csv has numbers instead of names of columns; set .no_header = true");
    assert_int_equal(haul_dataset_count(haul_csv_dataset("some.csv", .no_header = true)), 2);
    assert_int_equal(haul_dataset_count(haul_csv_dataset("some.csv", .fields = {{.name = "x", .columns = "7"}})), 1);
    assert_y("0,1,2\n3,1.5,0\n", HAUL_I64, 0); /* as pandas names columns */
    assert_y("1,y\n3,1\n", HAUL_I64, 0);
    haul_scope_pop(scope);
}

/* ---- other files ---- */

static void test_csv__line_ends_and_encodings(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_y("x,y\r\n1,2\n3,4\r\n", HAUL_I64, 0);
    assert_y("x,y\n1,2\r", HAUL_I64, 0);
    assert_y("x,y\n1,\"a\rb\"\n2,c\n", HAUL_I64, 2);
    assert_null(csv("a,b\r1,2\r3,4\r"));
    expect(__func__, HAUL_FORMAT,
           "some.csv:1: a carriage return is not followed by a line feed, as in files of old Macs");
    assert_null(csv("a,b\n1,2\r3,4\n"));
    expect(__func__, HAUL_FORMAT, "some.csv:2: a carriage return is not followed by a line feed");
    assert_null(csv("a,b\n\r1,2\n"));
    expect(__func__, HAUL_FORMAT, "some.csv:2: a carriage return");
    static const char marks[][2] = {{'\xff', '\xfe'}, {'\xfe', '\xff'}};
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen("some.csv", "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(marks[i], 1, 2, file) + fwrite("a\0,\0b\0\n\0", 1, 8, file), 10);
        fclose(file);
        assert_null(haul_csv_dataset("some.csv"));
        expect(__func__, HAUL_FORMAT,
               "some.csv is not a CSV file, but text in UTF-16; save it as UTF-8, for example with: iconv");
    }
    FILE *file = fopen("some.csv", "wb");
    assert_non_null(file);
    assert_int_equal(fwrite("a\0,\0b\0\n\0", 1, 8, file), 8);
    fclose(file);
    assert_null(haul_csv_dataset("some.csv"));
    expect(__func__, HAUL_FORMAT, "some.csv:1: a cell has a 0 byte; if the file is UTF-16");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv__numbers_and_labels),
        cmocka_unit_test(test_csv__fields_name_their_columns),
        cmocka_unit_test(test_csv__malformed_lines_are_refused_with_their_number),
        cmocka_unit_test(test_csv__cells_as_numbers),
        cmocka_unit_test(test_csv__every_failing_call_is_an_error),
        cmocka_unit_test(test_csv__numbers_too_large_are_refused),
        cmocka_unit_test(test_csv__integers_are_not_rounded_in_silence),
        cmocka_unit_test(test_csv__all_cells_decide_the_type_of_a_column),
        cmocka_unit_test(test_csv__missing_texts_are_nan),
        cmocka_unit_test(test_csv__labels_on_demand),
        cmocka_unit_test(test_csv__odd_labels_make_no_classes),
        cmocka_unit_test(test_csv__a_first_line_of_data_is_no_header),
        cmocka_unit_test(test_csv__line_ends_and_encodings),
    };
    return cmocka_run_group_tests_name("data_csv", tests, NULL, NULL);
}
