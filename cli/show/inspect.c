/* haul inspect: the contents of a safetensors, npy, npz, GGUF, PyTorch, ONNX or checkpoint file. */
#include <string.h>

#include "base/text/utf8.h"
#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "cli/shared/cli.h"
#include "cli/shared/file_type.h"
#include "cli/shared/json.h"
#include "cli/shared/terminal.h"
#include "cli/show/inspect_onnx.h"
#include "formats/safetensors.h"

static int print_npy(const char *path, bool json)
{
    haul_tensor *t = haul_load_npy(path);
    char         text[4096];
    if (!haul_tensor_is_valid(t))
        return complain_error();
    haul_shape shape = haul_tensor_shape(t);
    if (json) {
        cJSON *object = cJSON_CreateObject();
        json_text(object, "format", "npy");
        json_text(object, "type", "npy");
        json_text(object, "dtype", haul_dtype_name(haul_tensor_dtype(t)));
        json_shape(object, "shape", &shape);
        json_number(object, "bytes", (double)haul_tensor_bytes(t));
        return json_print(object) ? EXIT_OK : EXIT_FAILED;
    }
    print_visible(path, 0);
    printf(": npy, %s%s, %s\n", haul_dtype_name(haul_tensor_dtype(t)), text_shape(&shape),
           text_bytes((int64_t)haul_tensor_bytes(t)));
    if (haul_tensor_format(t, text, sizeof text) < 0)
        return complain_error();
    printf("%s%s\n", text, strlen(text) + 1 == sizeof text ? " ..." : "");
    return EXIT_OK;
}

/* "f32"; of a dtype that Haul does not have the name in the file. */
static const char *dtype_text(const haul_file_tensor *t)
{
    return t->dtype == HAUL_DTYPE_NONE ? t->dtype_name : haul_dtype_name(t->dtype);
}

typedef enum column { NAME, DTYPE, SHAPE, BYTES, COLUMNS } column;
enum { TEXT = 1024, INDENT = 2, GAP = 2 };

static bool read_row(haul_safetensors *file, int index, char texts[COLUMNS][TEXT])
{
    haul_file_tensor t;
    if (haul_safetensors_entry(file, index, &t)) {
        complain_error();
        return false;
    }
    snprintf(texts[NAME], TEXT, "%s", t.name);
    snprintf(texts[DTYPE], TEXT, "%s", dtype_text(&t));
    snprintf(texts[SHAPE], TEXT, "%s", text_shape(&t.shape));
    snprintf(texts[BYTES], TEXT, "%s", text_bytes((int64_t)t.bytes));
    return true;
}

/* A terminal that is narrower than the table has no bytes, then no dtypes, then shorter names. */
static void make_fit(int widths[COLUMNS])
{
    enum { LEAST_NAME = 8 };
    int excess = INDENT - GAP - output_room();
    for (int c = 0; c < COLUMNS; c++)
        excess += GAP + widths[c];
    for (column c = BYTES; excess > 0 && c != NAME; c = c == BYTES ? DTYPE : NAME) {
        excess -= GAP + widths[c];
        widths[c] = 0;
    }
    widths[NAME] -= excess > 0 ? excess : 0;
    widths[NAME] = widths[NAME] < LEAST_NAME ? LEAST_NAME : widths[NAME];
}

/* As wide as the widest text. */
static bool measure(haul_safetensors *file, int widths[COLUMNS])
{
    char texts[COLUMNS][TEXT];
    for (int i = 0; i < haul_safetensors_count(file); i++) {
        if (!read_row(file, i, texts))
            return false;
        for (int c = 0; c < COLUMNS; c++)
            widths[c] = text_columns(texts[c]) > widths[c] ? text_columns(texts[c]) : widths[c];
    }
    make_fit(widths);
    return true;
}

/* A second line for a tensor that cannot be loaded. */
static void print_fault(haul_safetensors *file, int index)
{
    haul_file_tensor t;
    if (haul_safetensors_entry(file, index, &t) || !t.fault)
        return;
    printf("%*scannot be loaded: ", 2 * INDENT, "");
    print_visible(t.fault, 0);
    printf("\n");
}

/* A name without room has a line of its own. */
static void print_name(const char *name, int width)
{
    printf("%*s", INDENT, "");
    print_visible(name, width);
    if (text_columns(name) > width)
        printf("\n%*s", INDENT + width, "");
}

static bool print_tensors(haul_safetensors *file)
{
    int  widths[COLUMNS] = {0};
    char texts[COLUMNS][TEXT];
    if (!measure(file, widths))
        return false;
    for (int i = 0; i < haul_safetensors_count(file); i++) {
        if (!read_row(file, i, texts))
            return false;
        print_name(texts[NAME], widths[NAME]);
        if (widths[DTYPE]) {
            printf("%*s", GAP, "");
            print_visible(texts[DTYPE], widths[DTYPE]);
        }
        if (widths[BYTES])
            printf("%*s%-*s%*s%*s\n", GAP, "", widths[SHAPE], texts[SHAPE], GAP, "", widths[BYTES], texts[BYTES]);
        else
            printf("%*s%s\n", GAP, "", texts[SHAPE]);
        print_fault(file, i);
    }
    return true;
}

/* The beginning of a long text, and how much of it is left out. */
static void print_value(const char *value, int first, int indent)
{
    enum { SHOWN = 1000 };
    char         text[SHOWN + 100];
    const size_t size = strlen(value);
    if (size <= SHOWN) {
        print_wrapped(value, first, indent);
        return;
    }
    haul__utf8_copy(text, SHOWN, value);
    const size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, " ... and %s bytes more, which --json prints",
             text_count((int64_t)(size - used)));
    print_wrapped(text, first, indent);
}

static bool print_metadata(haul_safetensors *file)
{
    int pairs = haul_safetensors_metadata_count(file);
    if (pairs)
        printf("metadata:\n");
    for (int i = 0; i < pairs; i++) {
        haul_text_pair pair;
        if (haul_safetensors_metadata_entry(file, i, &pair)) {
            complain_error();
            return false;
        }
        printf("%*s", INDENT, "");
        print_visible(pair.key, 0);
        printf(": ");
        print_value(pair.value, INDENT + text_columns(pair.key) + 2, 2 * INDENT);
    }
    return true;
}

static const char *type_text(const haul_safetensors *file)
{
    const char *format = haul__safetensors_header_of(file)->format;
    return *haul_safetensors_metadata(file, "haul.format") ? "Haul checkpoint" : format;
}

static int print_table(haul_safetensors *file, const char *path)
{
    int      count = haul_safetensors_count(file);
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        haul_file_tensor t;
        if (haul_safetensors_entry(file, i, &t))
            return complain_error();
        bytes += t.bytes;
    }
    char text[TEXT];
    snprintf(text, sizeof text, ": %s, %d tensor%s, %s", type_text(file), count, count == 1 ? "" : "s",
             text_bytes((int64_t)bytes));
    print_visible(path, 0);
    print_wrapped(text, text_columns(path), INDENT);
    return print_tensors(file) && print_metadata(file) ? EXIT_OK : EXIT_FAILED;
}

static int print_table_json(haul_safetensors *file)
{
    cJSON *object = cJSON_CreateObject();
    json_text(object, "format", haul__safetensors_header_of(file)->format);
    json_text(object, "type", type_text(file));
    cJSON *tensors = json_array(object, "tensors");

    for (int i = 0; i < haul_safetensors_count(file); i++) {
        haul_file_tensor t;
        cJSON           *entry = cJSON_CreateObject();
        if (haul_safetensors_entry(file, i, &t)) {
            cJSON_Delete(entry);
            cJSON_Delete(object);
            return complain_error();
        }
        json_text(entry, "name", t.name);
        json_text(entry, "dtype", dtype_text(&t));
        json_shape(entry, "shape", &t.shape);
        json_number(entry, "bytes", (double)t.bytes);
        if (t.fault)
            json_text(entry, "fault", t.fault);
        json_push(tensors, entry);
    }
    cJSON *metadata = json_object(object, "metadata");
    for (int i = 0; i < haul_safetensors_metadata_count(file); i++) {
        haul_text_pair pair;
        if (!haul_safetensors_metadata_entry(file, i, &pair))
            json_text(metadata, pair.key, pair.value);
    }
    return json_print(object) ? EXIT_OK : EXIT_FAILED;
}

static int inspect(const char *path, bool json)
{
    file_type type;
    if (!file_type_find(path, &type))
        return EXIT_FAILED;
    if (type == FILE_NPY)
        return print_npy(path, json);
    if (type == FILE_ONNX)
        return inspect_onnx(path, json);
    haul_safetensors *opened = haul_open_safetensors(path);
    if (!opened)
        return complain_error();
    return json ? print_table_json(opened) : print_table(opened, path);
}

typedef struct inspect_options {
    const char *path;
    bool        json;
} inspect_options;

static const option inspect_rows[] = {{.group = "Options",
                                       .name = "json",
                                       OPTION_FLAG_AT(inspect_options, json),
                                       .help = "Print one JSON object instead"}};

static int inspect_main(int argc, char **argv)
{
    inspect_options o = {0};
    option_values   values;
    int             code = options_parse(&values, &inspect_command, &o, argc, argv);
    if (code >= 0)
        return code;
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return complain_error();
    code = inspect(o.path, o.json);
    haul_scope_pop(scope);
    return code;
}

static const help_example inspect_lines[] = {{"haul inspect runs/first/weights.safetensors", NULL},
                                             {"haul inspect values.npy", NULL},
                                             {"haul inspect model.onnx", NULL},
                                             {NULL, NULL}};

const command inspect_command = {
    .name = "inspect",
    .summary = "Show what is in a file of tensors, a checkpoint or an ONNX model",
    .usage = "[--json] FILE",
    .description =
        "Shows what is in a safetensors, npy, npz, GGUF, PyTorch or checkpoint file: names, dtypes, shapes and "
        "metadata, and the values of an npy file. Of an ONNX model it shows inputs, results and operators, "
        "and which of them Haul does not have. For any other file, guesses its type.",
    .options = inspect_rows,
    .option_count = sizeof inspect_rows / sizeof *inspect_rows,
    .operand = {.name = "FILE",
                .help = "The file to show",
                .offset = offsetof(inspect_options, path),
                .required = true,
                .complete = COMPLETE_FILE},
    .examples = inspect_lines,
    .run = inspect_main,
};
