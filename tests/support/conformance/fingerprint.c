#include "support/conformance/fingerprint.h"

#include <stdlib.h>
#include <string.h>

#include "support/conformance/conformance.h"
#include "support/devices/machine.h"

/* ---- hashes ---- */

uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* How a NaN looks: all bits of the exponent, and at least one below them. */
static const struct {
    haul_dtype dtype;
    uint64_t   exponent, magnitude;
} nans[] = {{HAUL_F16, 0x7c00, 0x7fff},
            {HAUL_BF16, 0x7f80, 0x7fff},
            {HAUL_F32, 0x7f800000, 0x7fffffff},
            {HAUL_F64, 0x7ff0000000000000, 0x7fffffffffffffff}};

static void canonicalise(haul_dtype dtype, unsigned char *data, size_t bytes, size_t width)
{
    for (size_t k = 0; k < sizeof nans / sizeof nans[0]; k++) {
        if (nans[k].dtype != dtype)
            continue;
        for (size_t i = 0; i < bytes; i += width) {
            uint64_t bits = 0; /* the machine is little-endian, as the library demands */
            memcpy(&bits, data + i, width);
            if ((bits & nans[k].magnitude) > nans[k].exponent)
                memcpy(data + i, &nans[k].magnitude, width);
        }
    }
}

uint64_t hash_tensor(uint64_t hash, haul_tensor *t)
{
    if (t == HAUL_NONE)
        return hash_bytes(hash, "none", 4);
    haul_shape  shape = haul_tensor_shape(t);
    const char *dtype = haul_dtype_name(haul_tensor_dtype(t));
    size_t      bytes = haul_tensor_bytes(t), count = (size_t)haul_tensor_count(t);
    void       *data = malloc(bytes + 1);
    if (!haul_tensor_is_valid(t) || !data || haul_read(t, data, bytes)) {
        fail_case("a result cannot be read: %s", haul_error_message());
        free(data);
        return 0;
    }
    if (count)
        canonicalise(haul_tensor_dtype(t), data, bytes, bytes / count);
    hash = hash_bytes(hash, dtype, strlen(dtype));
    hash = hash_bytes(hash, shape.dims, (size_t)shape.ndim * sizeof shape.dims[0]);
    hash = hash_bytes(hash, data, bytes);
    free(data);
    return hash;
}

/* ---- lists ---- */

void fingerprint_add(fingerprint_list *list, const char *name, const char *device, const char *dtype, const char *kind,
                     uint64_t hash)
{
    if (list->count == list->capacity) {
        int          capacity = list->capacity ? list->capacity * 2 : 1024;
        fingerprint *lines = realloc(list->lines, (size_t)capacity * sizeof *lines);
        if (!lines) {
            fail_case("memory is exhausted");
            return;
        }
        list->lines = lines;
        list->capacity = capacity;
    }
    list->lines[list->count++] = (fingerprint){name, device, dtype, kind, hash};
}

void fingerprint_free(fingerprint_list *list)
{
    free(list->lines);
    *list = (fingerprint_list){0};
}

void fingerprint_print(const fingerprint_list *list, FILE *to)
{
    for (int i = 0; i < list->count; i++) {
        const fingerprint *f = &list->lines[i];
        fprintf(to, "%s %s %s %s %016llx\n", f->name, f->device, f->dtype, f->kind, (unsigned long long)f->hash);
    }
}

static bool same_group(const fingerprint *a, const fingerprint *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->device, b->device) == 0 && strcmp(a->dtype, b->dtype) == 0;
}

static bool begin_group(const fingerprint *f)
{
    return begin_case("%s/%s/%s", f->name, f->dtype, f->device);
}

void fingerprint_compare_runs(const fingerprint_list *first, const fingerprint_list *second)
{
    if (first->count != second->count && begin_case("fingerprints/both runs"))
        fail_case("one has %d lines, the other %d", first->count, second->count);
    for (int i = 0; i < first->count && i < second->count; i++) {
        const fingerprint *a = &first->lines[i], *b = &second->lines[i];
        if ((!same_group(a, b) || a->hash != b->hash) && begin_group(a))
            fail_case("%s differs between two runs: %016llx and %016llx", a->kind, (unsigned long long)a->hash,
                      (unsigned long long)b->hash);
    }
}

/* ---- groups: all kinds of one name, device and dtype, which follow each other in a list ---- */

/* Of the group that begins at line i; *end becomes the line after it. */
static uint64_t group_hash(const fingerprint_list *list, int i, int *end)
{
    const fingerprint *first = &list->lines[i];
    uint64_t           hash = HASH_START;
    for (; i < list->count && same_group(&list->lines[i], first); i++) {
        hash = hash_bytes(hash, list->lines[i].kind, strlen(list->lines[i].kind));
        hash = hash_bytes(hash, &list->lines[i].hash, sizeof list->lines[i].hash);
    }
    *end = i;
    return hash;
}

bool golden_write(const char *path, const fingerprint_list *list)
{
    char  origin[512];
    FILE *file = fopen(path, "w");
    if (!file) {
        printf("%s cannot be written\n", path);
        return false;
    }
    machine_origin(origin, sizeof origin);
    fprintf(file, "# made by tests/conformance/test_fingerprint.c with HAUL_FINGERPRINT_UPDATE=1 on\n# %s\n", origin);
    for (int i = 0, end; i < list->count; i = end) {
        const fingerprint *f = &list->lines[i], *before = i ? f - 1 : NULL;
        uint64_t           hash = group_hash(list, i, &end);
        if (!before || strcmp(f->name, before->name) != 0 || strcmp(f->device, before->device) != 0)
            fprintf(file, "%s%s %s", i ? "\n" : "", f->name, f->device);
        fprintf(file, " %s=%016llx", f->dtype, (unsigned long long)hash);
    }
    fprintf(file, "\n");
    bool written = !ferror(file);
    if (fclose(file) || !written) {
        printf("%s cannot be written\n", path);
        return false;
    }
    printf("written: %s\n", path);
    return true;
}

/* ---- the golden file ---- */

/* Its text, cut into words in place; `list` has a line for each group, with the kind "". */
typedef struct golden {
    char            *text;
    const char      *origin;
    fingerprint_list list;
} golden;

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long  size;
    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0 &&
        (text = malloc((size_t)size + 1)))
        text[fread(text, 1, (size_t)size, file)] = '\0';
    fclose(file);
    return text;
}

static void parse_line(golden *g, char *line)
{
    char       *rest, *name = strtok_r(line, " ", &rest), *device = strtok_r(NULL, " ", &rest), *word;
    const char *last = NULL;
    while ((word = strtok_r(NULL, " ", &rest))) {
        char *hash = strchr(word, '=');
        if (!name || !device || !hash) {
            last = word;
            break;
        }
        *hash++ = '\0';
        fingerprint_add(&g->list, name, device, word, "", strtoull(hash, NULL, 16));
    }
    if (last && begin_case("fingerprints/golden"))
        fail_case("the word \"%s\" is not DTYPE=HASH", last);
}

static bool read_golden(const char *path, golden *g)
{
    char *rest, *line;
    *g = (golden){.text = read_text(path), .origin = ""};
    if (!g->text)
        return false;
    for (line = strtok_r(g->text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] == '#')
            g->origin = line + (line[1] == ' ' ? 2 : 1); /* the last comment */
        else
            parse_line(g, line);
    }
    return true;
}

/* The golden group of f, marked as seen by its kind; NULL if there is none. */
static const fingerprint *find_group(golden *g, const fingerprint *f)
{
    for (int i = 0; i < g->list.count; i++)
        if (same_group(&g->list.lines[i], f)) {
            g->list.lines[i].kind = "seen";
            return &g->list.lines[i];
        }
    return NULL;
}

/* Groups that differ from the golden ones; a case fails for each if `fail` is set. */
static int compare_groups(golden *g, const fingerprint_list *list, bool fail)
{
    int differ = 0, fresh = 0;
    for (int i = 0, end; i < list->count; i = end) {
        const fingerprint *f = &list->lines[i], *want = find_group(g, f);
        uint64_t           hash = group_hash(list, i, &end);
        fresh += !want;
        if (!want || want->hash == hash)
            continue;
        differ++;
        if (fail && begin_group(f))
            fail_case("other bits than in the golden file: %016llx, not %016llx", (unsigned long long)hash,
                      (unsigned long long)want->hash);
    }
    if (fresh)
        printf("%d fingerprints are not in the golden file yet\n", fresh);
    return differ;
}

/* Names that the golden file has for a device that was run, but that were not run. */
static void find_lost(const golden *g, const fingerprint_list *list)
{
    for (int i = 0; i < g->list.count; i++) {
        const fingerprint *f = &g->list.lines[i];
        bool               device_was_run = false;
        for (int k = 0; k < list->count && !device_was_run; k++)
            device_was_run = strcmp(list->lines[k].device, f->device) == 0;
        if (device_was_run && strcmp(f->kind, "seen") != 0 && begin_group(f))
            fail_case("is in the golden file, but was not run");
    }
}

golden_outcome golden_compare(const char *path, const fingerprint_list *list)
{
    golden         g;
    golden_outcome outcome = GOLDEN_COMPARED;
    char           origin[512];
    if (!read_golden(path, &g))
        return GOLDEN_ABSENT;
    machine_origin(origin, sizeof origin);
    bool own = strcmp(origin, g.origin) == 0;
    int  differ = compare_groups(&g, list, own);
    if (own && !getenv("HAUL_CASE"))
        find_lost(&g, list);
    if (differ)
        printf("%d fingerprints differ from %s;\n%s/fingerprints.txt has a line for each kind, to be compared with "
               "another commit's\n",
               differ, path, HAUL_BUILD);
    if (!own && differ) {
        printf("nothing fails, because the golden file was made on\n    %s\nand this is\n    %s\n", g.origin, origin);
        outcome = GOLDEN_FOREIGN;
    }
    fingerprint_free(&g.list);
    free(g.text);
    return outcome;
}

void golden_path(char *out, size_t size)
{
    char key[200];
    machine_key(key, sizeof key);
    snprintf(out, size, "%s/tests/golden/fingerprints/%s.txt", HAUL_SOURCE, key);
}
