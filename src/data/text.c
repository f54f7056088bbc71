/* A text file as examples for networks that predict the next character: characters as numbers, and the next character
 * for each of them. Characters are code points. */
#include <haul/dataset.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fnv.h"
#include "base/text/utf8.h"
#include "core/error.h"
#include "data/dataset.h"
#include "files/file.h"

#define OPEN          "haul_text_file"
#define FILE_LIMIT    ((uint64_t)1 << 30)
#define CODE_POINTS   0x110000
#define MOST_NUMBERS  65536 /* of different characters */
#define USUAL_CONTEXT 64
#define TEST_SHARE    10 /* the last tenth is the test split */

typedef struct text {
    char     *path;
    uint16_t *tokens; /* all characters, as numbers */
    int64_t   count;
    int64_t   first, last; /* those of the split, last excluded */
    int64_t   context, stride;
    uint64_t  content; /* a hash of the file */
    char     *names;   /* the characters in the order of their numbers, each a text */
    int       classes;
} text;

static void close_text(void *context)
{
    text *t = context;
    haul__free(t->path);
    haul__free(t->tokens);
    haul__free(t->names);
    haul__free(t);
}

static haul__data_file file_of(const void *context, int64_t index)
{
    const text *t = context;
    const char *slash = strrchr(t->path, '/');
    if (index)
        return (haul__data_file){.path = NULL};
    return (haul__data_file){.path = t->path, .name = slash ? slash + 1 : t->path, .content = t->content};
}

static haul_status read_stretch(void *context, haul_example *e)
{
    const text     *t = context;
    const uint16_t *from = t->tokens + t->first + e->index * t->stride;
    int64_t        *x = e->fields[0].data, *y = e->fields[1].data;
    HAUL__ASSERT(t->first + e->index * t->stride + t->context < t->last);
    for (int64_t i = 0; i < t->context; i++) {
        x[i] = from[i];
        y[i] = from[i + 1];
    }
    return HAUL_OK;
}

/* ---- characters ---- */

/* The length of the character at `at`; 0, with an error, if it cannot be one of a text. */
static size_t character(const text *t, const uint8_t *data, size_t size, size_t at)
{
    HAUL__ASSERT(at < size);
    const size_t length = haul__utf8_length(data + at, size - at);
    long long    line = 1;
    if (length && data[at])
        return length;
    for (size_t i = 0; i < at; i++)
        line += data[i] == '\n';
    haul__fail(HAUL_FORMAT, OPEN, "path",
               length ? "%s has the byte 0x%02x in line %lld (byte %zu), so it is not a text; name a text file"
                      : "%s is not UTF-8: it has the byte 0x%02x in line %lld (byte %zu); convert it, for example with "
                        "iconv -f latin1 -t utf-8",
               t->path, data[at], line, at);
    return 0;
}

/* Numbers of the characters that occur, in the order of their code points, from 1 on. */
static haul_status number(text *t, uint32_t *numbers)
{
    for (uint32_t code = 0; code < CODE_POINTS; code++)
        if (numbers[code])
            numbers[code] = (uint32_t)++t->classes;
    if (t->classes <= MOST_NUMBERS)
        return HAUL_OK;
    return haul__fail(HAUL_UNSUPPORTED, OPEN, "path", "%s has %d different characters; at most %d are possible",
                      t->path, t->classes, MOST_NUMBERS);
}

/* `numbers` gets the number of each character, from 1 on. */
static haul_status find_characters(text *t, const uint8_t *data, size_t size, uint32_t *numbers)
{
    for (size_t at = 0, length; at < size; at += length, t->count++) {
        if (!(length = character(t, data, size, at)))
            return haul_error_status();
        numbers[haul__utf8_code(data + at, length)] = 1;
    }
    return number(t, numbers);
}

enum { NAME = 5 }; /* bytes of a character and its end */

static haul_status take_tokens(text *t, const uint8_t *data, size_t size, const uint32_t *numbers)
{
    t->tokens = haul__calloc((size_t)t->count + 1, sizeof *t->tokens);
    t->names = haul__calloc((size_t)t->classes + 1, NAME);
    if (!t->tokens || !t->names)
        return haul__fail_memory(OPEN, (size_t)t->count * sizeof *t->tokens);
    int64_t i = 0;
    for (size_t at = 0, length; at < size; at += length) {
        length = haul__utf8_length(data + at, size - at);
        const uint32_t token = numbers[haul__utf8_code(data + at, length)] - 1;
        HAUL__ASSERT(token < (uint32_t)t->classes && length < NAME && i < t->count);
        memcpy(t->names + (size_t)token * NAME, data + at, length);
        t->tokens[i++] = (uint16_t)token;
    }
    HAUL__ASSERT(i == t->count);
    return HAUL_OK;
}

/* Never 0. */
static uint64_t hash_of(const uint8_t *data, size_t size)
{
    const uint64_t hash = haul__fnv(HAUL__FNV, data, size);
    return hash ? hash : 1;
}

static haul_status read_all(text *t)
{
    uint8_t    *data = NULL;
    size_t      size = 0;
    uint32_t   *numbers = haul__calloc(CODE_POINTS, sizeof *numbers);
    haul_status status = numbers ? haul__file_read_all(t->path, OPEN, FILE_LIMIT, 0, &data, &size)
                                 : haul__fail_memory(OPEN, CODE_POINTS * sizeof *numbers);
    if (status == HAUL_OK) {
        const size_t mark = size >= 3 && !memcmp(data, "\xef\xbb\xbf", 3) ? 3 : 0; /* some programs write it */
        t->content = hash_of(data, size);
        status = find_characters(t, data + mark, size - mark, numbers);
        if (status == HAUL_OK)
            status = take_tokens(t, data + mark, size - mark, numbers);
    }
    haul__free(numbers);
    haul__free(data);
    return status;
}

/* ---- the split ---- */

/* An example has one character more than its context: the last one that it predicts. */
static haul_status choose_split(text *t, bool test)
{
    const int64_t border = t->count - t->count / TEST_SHARE;
    t->first = test ? border : 0;
    t->last = test ? t->count : border;
    HAUL__ASSERT(0 <= t->first && t->first <= t->last && t->last <= t->count);
    const int64_t count = t->last - t->first;
    if (count > t->context)
        return HAUL_OK;
    if (count < 2)
        return haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "path",
                          "%s has %lld characters, %lld of them in the %s split; give a longer text", t->path,
                          (long long)t->count, (long long)count, test ? "test" : "training");
    return haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "context",
                      "%s has %lld characters, %lld of them in the %s split, and an example needs %lld and the one "
                      "that follows; give a longer text, or a context of at most %lld",
                      t->path, (long long)t->count, (long long)count, test ? "test" : "training", (long long)t->context,
                      (long long)count - 1);
}

static haul_status check_characters(const char *option, int64_t count)
{
    if (count >= 0)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, OPEN, option, "%s is %lld; at least 1 character is expected", option,
                      (long long)count);
}

static haul_status take_options(text *t, const haul_text_file_options *o)
{
    if (check_characters("context", o->context) || check_characters("stride", o->stride))
        return haul_error_status();
    t->context = o->context ? o->context : USUAL_CONTEXT;
    t->stride = o->stride ? o->stride : t->context;
    t->path = haul__strdup(o->path);
    return t->path ? HAUL_OK : haul__fail_memory(OPEN, strlen(o->path));
}

/* ---- the dataset ---- */

/* Takes over the text. */
static haul_dataset *make(text *t, bool test)
{
    const char **names = haul__calloc((size_t)t->classes + 1, sizeof *names);
    if (!names) {
        haul__fail_memory(OPEN, (size_t)t->classes * sizeof *names);
        close_text(t);
        return NULL;
    }
    for (int i = 0; i < t->classes; i++)
        names[i] = t->names + (size_t)i * NAME;
    const haul_field field = {
        .dtype = HAUL_I64, .shape = HAUL_SHAPE(t->context), .classes = t->classes, .class_names = names};
    haul_dataset_source source = {
        .fields = {field, field},
        .count = (t->last - t->first - t->context - 1) / t->stride + 1,
        .name = test ? "text (test)" : "text (train)",
        .read = read_stretch,
        .close = close_text,
        .context = t,
    };
    HAUL__ASSERT(source.count > 0 && (source.count - 1) * t->stride + t->context < t->last - t->first);
    source.fields[0].name = "x";
    source.fields[1].name = "y";
    haul_dataset *d = haul__dataset_make(&source, HAUL__READ_EACH, OPEN);
    if (d)
        d->file = file_of;
    haul__free(names);
    return d;
}

haul_dataset *haul_text_file_with(const haul_text_file_options *options)
{
    if (!options || !options->path) {
        haul__fail_null(OPEN, "path");
        return NULL;
    }
    text *t = haul__calloc(1, sizeof *t);
    if (!t) {
        haul__fail_memory(OPEN, sizeof *t);
        return NULL;
    }
    if (take_options(t, options) || read_all(t) || choose_split(t, options->test)) {
        close_text(t);
        return NULL;
    }
    return make(t, options->test);
}
