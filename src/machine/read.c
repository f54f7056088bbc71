/* Machines from JSON: tables of fields, and what must hold between them. Every error names the field. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/quoted.h"
#include "base/text/utf8.h"
#include "core/error.h"
#include "files/json.h"
#include "machine/machine.h"

enum { DEPTH = 8, VERSION = 1, PATH_SIZE = 96, MOST_SECOND_NS = 1000000000 };

#define MOST_RATE INT64_C(1000000000000000000)

typedef struct reader {
    const char *operation, *source;
} reader;

/* "machine 'h200.json': devices[1].launch_ns: is missing; add it"; path and name may be empty. */
static haul_status fail(const reader *r, const char *path, const char *name, const char *message)
{
    char quoted[HAUL__QUOTED_SIZE];
    return haul__fail(HAUL_FORMAT, r->operation, "machine", "machine %s: %s%s%s%s%s", haul__quoted(r->source, quoted),
                      path, *path && *name ? "." : "", name, *path || *name ? ": " : "", message);
}

/* ---- fields ---- */

typedef enum field_kind { TEXT, COUNT, FLAG, PART } field_kind;

/* A field of an object and its place in the struct. A part is read by a function of its own. */
typedef struct field {
    const char *name;
    field_kind  kind;
    bool        optional;
    size_t      at, size; /* of a text */
    int64_t     least, most;
    const char *unit;
} field;

enum { MOST_FIELDS = 8 };

typedef struct fields {
    const char *what; /* "a device" */
    field       list[MOST_FIELDS];
} fields;

#define IN(type, member)      .at = offsetof(type, member)
#define TEXT_IN(type, member) IN(type, member), .size = sizeof(((type *)0)->member)

static const fields machine_fields = {
    "a machine",
    {{.name = "haul_machine", .kind = PART},
     {.name = "name", .kind = TEXT, TEXT_IN(haul__machine, name)},
     {.name = "described", .kind = FLAG, .optional = true, IN(haul__machine, described)},
     {.name = "source", .kind = TEXT, .optional = true, TEXT_IN(haul__machine, source)},
     {.name = "devices", .kind = PART},
     {.name = "links", .kind = PART, .optional = true}}};

static const fields device_fields = {
    "a device",
    {{.name = "name", .kind = TEXT, TEXT_IN(haul__machine_device, name)},
     {.name = "model", .kind = TEXT, .optional = true, TEXT_IN(haul__machine_device, model)},
     {.name = "memory_bytes",
      .kind = COUNT,
      IN(haul__machine_device, memory_bytes),
      .least = 1,
      .most = INT64_C(1) << 60,
      .unit = "bytes"},
     {.name = "shares_host_memory", .kind = FLAG, .optional = true, IN(haul__machine_device, shares_host_memory)},
     {.name = "launch_ns",
      .kind = COUNT,
      IN(haul__machine_device, launch_ns),
      .most = MOST_SECOND_NS,
      .unit = "nanoseconds"},
     {.name = "bytes_per_second",
      .kind = COUNT,
      IN(haul__machine_device, bytes_per_second),
      .least = 1,
      .most = MOST_RATE,
      .unit = "bytes a second"},
     {.name = "rates", .kind = PART, .optional = true},
     {.name = "learnt", .kind = PART, .optional = true}}};

static const fields link_fields = {
    "a link",
    {{.name = "from", .kind = PART},
     {.name = "to", .kind = PART},
     {.name = "name", .kind = TEXT, .optional = true, TEXT_IN(haul__machine_link, name)},
     {.name = "latency_ns",
      .kind = COUNT,
      .optional = true,
      IN(haul__machine_link, latency_ns),
      .most = MOST_SECOND_NS,
      .unit = "nanoseconds"},
     {.name = "pinned_bytes_per_second",
      .kind = COUNT,
      .optional = true,
      IN(haul__machine_link, pinned),
      .least = 1,
      .most = MOST_RATE,
      .unit = "bytes a second"},
     {.name = "pageable_bytes_per_second",
      .kind = COUNT,
      .optional = true,
      IN(haul__machine_link, pageable),
      .least = 1,
      .most = MOST_RATE,
      .unit = "bytes a second"},
     {.name = "overlap", .kind = FLAG, .optional = true, IN(haul__machine_link, overlap)}}};

static const fields rate_fields = {
    "a rate", {{.name = "class", .kind = PART}, {.name = "dtype", .kind = PART}, {.name = "points", .kind = PART}}};

static const fields learnt_fields = {
    "a learnt time",
    {{.name = "operation", .kind = TEXT, TEXT_IN(haul__machine_learnt, operation)},
     {.name = "dtype", .kind = PART},
     {.name = "flops", .kind = COUNT, IN(haul__machine_learnt, flops), .most = MOST_RATE, .unit = "operations"},
     {.name = "bytes", .kind = COUNT, IN(haul__machine_learnt, bytes), .most = MOST_RATE, .unit = "bytes"},
     {.name = "ps",
      .kind = COUNT,
      IN(haul__machine_learnt, ps),
      .most = HAUL__MACHINE_MOST_PS,
      .unit = "picoseconds"}}};

/* The text of a value, for messages. */
static const char *text_of(const haul__json *value, char buffer[HAUL__QUOTED_SIZE])
{
    static const char *const words[] = {[HAUL__JSON_ARRAY] = "a list", [HAUL__JSON_OBJECT] = "an object"};
    if (value->kind == HAUL__JSON_STRING)
        return haul__quoted(value->string, buffer);
    if (value->string)
        snprintf(buffer, HAUL__QUOTED_SIZE, "%.40s", value->string);
    else if (value->kind == HAUL__JSON_NUMBER)
        snprintf(buffer, HAUL__QUOTED_SIZE, "%llu", (unsigned long long)value->number);
    else
        snprintf(buffer, HAUL__QUOTED_SIZE, "%s", words[value->kind]);
    return buffer;
}

static haul_status fail_value(const reader *r, const char *path, const char *name, const haul__json *value,
                              const char *expected)
{
    char text[HAUL__QUOTED_SIZE], message[440];
    snprintf(message, sizeof message, "%s, but it is %s; correct the file", expected, text_of(value, text));
    return fail(r, path, name, message);
}

static bool is_count(const haul__json *value, int64_t least, int64_t most)
{
    return value->kind == HAUL__JSON_NUMBER && value->number <= (uint64_t)most && (int64_t)value->number >= least;
}

static haul_status read_count(const reader *r, const char *path, const field *f, const haul__json *value, int64_t *out)
{
    char expected[128];
    HAUL__ASSERT(f->unit && 0 <= f->least && f->least <= f->most);
    if (is_count(value, f->least, f->most)) {
        *out = (int64_t)value->number;
        return HAUL_OK;
    }
    snprintf(expected, sizeof expected, "must be a whole number of %s from %lld to %lld, of digits only", f->unit,
             (long long)f->least, (long long)f->most);
    return fail_value(r, path, f->name, value, expected);
}

static bool is_plain_text(const char *text)
{
    size_t left = strlen(text), length;
    for (; left; text += length, left -= length) {
        length = haul__utf8_length((const uint8_t *)text, left);
        if (!length || (unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    }
    return true;
}

static haul_status read_text(const reader *r, const char *path, const field *f, const haul__json *value, char *out)
{
    char expected[128];
    HAUL__ASSERT(f->size > 0);
    if (value->kind == HAUL__JSON_STRING && strlen(value->string) < f->size && is_plain_text(value->string) &&
        (*value->string || f->optional)) {
        memcpy(out, value->string, strlen(value->string) + 1);
        return HAUL_OK;
    }
    snprintf(expected, sizeof expected, "must be a text in UTF-8 of %d to %zu bytes without control characters",
             f->optional ? 0 : 1, f->size - 1);
    return fail_value(r, path, f->name, value, expected);
}

static haul_status read_flag(const reader *r, const char *path, const field *f, const haul__json *value, bool *out)
{
    if (value->kind != HAUL__JSON_LITERAL || strcmp(value->string, "null") == 0)
        return fail_value(r, path, f->name, value, "must be true or false");
    *out = strcmp(value->string, "true") == 0;
    return HAUL_OK;
}

static const field *find_field(const fields *fs, const char *name)
{
    for (const field *f = fs->list; f < fs->list + MOST_FIELDS && f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

static haul_status fail_unknown(const reader *r, const char *path, const fields *fs, const haul__json *member)
{
    char   quoted[HAUL__QUOTED_SIZE], message[320];
    size_t used = (size_t)snprintf(message, sizeof message, "%s has no field %s; its fields are", fs->what,
                                   haul__quoted(member->name, quoted));
    for (const field *f = fs->list; f < fs->list + MOST_FIELDS && f->name && used < sizeof message; f++)
        used += (size_t)snprintf(message + used, sizeof message - used, "%s %s", f > fs->list ? "," : "", f->name);
    return fail(r, path, "", message);
}

/* Reads an object's plain fields into `out`. Fails for fields that are unknown, missing, or there twice. */
static haul_status read_fields(const reader *r, const char *path, const fields *fs, const haul__json *object, void *out)
{
    haul_status status = HAUL_OK;
    if (object->kind != HAUL__JSON_OBJECT)
        return fail_value(r, path, "", object, "must be an object");
    for (const haul__json *m = object->child; m && !status; m = m->next) {
        const field *f = find_field(fs, m->name);
        if (!f)
            return fail_unknown(r, path, fs, m);
        if (haul__json_member(object, m->name) != m)
            return fail(r, path, f->name, "is there twice; remove one");
        char *at = (char *)out + f->at;
        status = f->kind == COUNT  ? read_count(r, path, f, m, (int64_t *)(void *)at)
                 : f->kind == TEXT ? read_text(r, path, f, m, at)
                 : f->kind == FLAG ? read_flag(r, path, f, m, (bool *)at)
                                   : HAUL_OK;
    }
    for (const field *f = fs->list; !status && f < fs->list + MOST_FIELDS && f->name; f++)
        if (!f->optional && !haul__json_member(object, f->name))
            status = fail(r, path, f->name, "is missing; add it");
    return status;
}

/* Checks a list that has from `least` to `most` items. */
static haul_status check_list(const reader *r, const char *path, const char *name, const haul__json *list, size_t least,
                              size_t most)
{
    char expected[96];
    HAUL__ASSERT(least <= most);
    if (list->kind == HAUL__JSON_ARRAY && list->count >= least && list->count <= most)
        return HAUL_OK;
    snprintf(expected, sizeof expected, "must be a list of %zu to %zu items", least, most);
    if (list->kind != HAUL__JSON_ARRAY)
        return fail_value(r, path, name, list, expected);
    snprintf(expected, sizeof expected, "must be a list of %zu to %zu items, but it has %zu; correct the file", least,
             most, list->count);
    return fail(r, path, name, expected);
}

/* ---- rates ---- */

static haul_status read_point(const reader *r, const char *path, const haul__json *pair, haul__machine_point *out)
{
    static const field work = {.least = 1, .most = MOST_RATE, .name = "[0]", .unit = "FLOP or bytes of one operation"},
                       rate = {.least = 1, .most = MOST_RATE, .name = "[1]", .unit = "FLOP or bytes a second"};
    haul_status status = check_list(r, path, "", pair, 2, 2);
    if (!status)
        status = read_count(r, path, &work, pair->child, &out->work);
    return status ? status : read_count(r, path, &rate, pair->child->next, &out->rate);
}

static haul_status read_points(const reader *r, const char *path, const haul__json *list, haul__machine_rate *out)
{
    haul_status status = check_list(r, path, "points", list, 1, HAUL__MACHINE_POINTS);
    if (status)
        return status;
    HAUL__ASSERT(out->count == 0);
    for (const haul__json *pair = list->child; pair && !status; pair = pair->next) {
        char at[PATH_SIZE];
        HAUL__ASSERT(out->count < HAUL__MACHINE_POINTS);
        snprintf(at, sizeof at, "%.60s.points[%d]", path, out->count);
        status = read_point(r, at, pair, &out->points[out->count]);
        if (!status && out->count && out->points[out->count].work <= out->points[out->count - 1].work)
            status = fail_value(r, at, "[0]", pair->child, "must be larger than that of the point before");
        out->count++;
    }
    return status;
}

static haul_status read_class(const reader *r, const char *path, const haul__json *value, haul__work_class *out)
{
    char   expected[320];
    size_t used = (size_t)snprintf(expected, sizeof expected, "must be one of");
    for (haul__work_class c = 0; c < HAUL__WORK_OTHER; c++) {
        if (value->kind == HAUL__JSON_STRING && strcmp(value->string, haul__work_class_name(c)) == 0) {
            *out = c;
            return HAUL_OK;
        }
        used += (size_t)snprintf(expected + used, sizeof expected - used, " %s", haul__work_class_name(c));
        HAUL__ASSERT(used < sizeof expected);
    }
    return fail_value(r, path, "class", value, expected);
}

static haul_status read_dtype(const reader *r, const char *path, const haul__json *value, haul_dtype *out)
{
    const char *name = value->kind == HAUL__JSON_STRING ? value->string : "";
    *out = haul_dtype_parse(name);
    if (*out == HAUL_DTYPE_NONE && strcmp(name, "any") != 0)
        return fail_value(r, path, "dtype", value, "must be the name of a dtype, as f32, or any");
    return HAUL_OK;
}

static haul_status read_rate(const reader *r, const char *path, const haul__json *object, haul__machine_device *d)
{
    HAUL__ASSERT(d->rate_count < HAUL__MACHINE_RATES);
    haul__machine_rate *rate = &d->rates[d->rate_count];
    haul_status         status = read_fields(r, path, &rate_fields, object, rate);
    if (!status)
        status = read_class(r, path, haul__json_member(object, "class"), &rate->work_class);
    if (!status)
        status = read_dtype(r, path, haul__json_member(object, "dtype"), &rate->dtype);
    for (int i = 0; i < d->rate_count && !status; i++)
        if (d->rates[i].work_class == rate->work_class && d->rates[i].dtype == rate->dtype)
            status = fail(r, path, "dtype", "the device has a rate for this class and dtype already; remove one");
    if (!status)
        status = read_points(r, path, haul__json_member(object, "points"), rate);
    d->rate_count++;
    return status;
}

static haul_status read_rates(const reader *r, const char *path, const haul__json *list, haul__machine_device *d)
{
    haul_status status = check_list(r, path, "rates", list, 0, HAUL__MACHINE_RATES);
    for (const haul__json *rate = status ? NULL : list->child; rate && !status; rate = rate->next) {
        char at[PATH_SIZE];
        snprintf(at, sizeof at, "%.40s.rates[%d]", path, d->rate_count);
        status = read_rate(r, at, rate, d);
    }
    return status;
}

/* ---- learnt times ---- */

static haul_status read_learnt(const reader *r, const char *path, const haul__json *object, haul__machine_device *d)
{
    haul__machine_learnt learnt = {.dtype = HAUL_DTYPE_NONE};
    haul_status          status = read_fields(r, path, &learnt_fields, object, &learnt);
    if (!status)
        status = read_dtype(r, path, haul__json_member(object, "dtype"), &learnt.dtype);
    if (!status)
        haul__machine_learn(d, &learnt);
    return status;
}

static haul_status read_all_learnt(const reader *r, const char *path, const haul__json *list, haul__machine_device *d)
{
    haul_status status = check_list(r, path, "learnt", list, 0, HAUL__MACHINE_LEARNT);
    int         count = 0;
    for (const haul__json *item = status ? NULL : list->child; item && !status; item = item->next) {
        char at[PATH_SIZE];
        snprintf(at, sizeof at, "%.40s.learnt[%d]", path, count++);
        status = read_learnt(r, at, item, d);
    }
    return status;
}

/* ---- devices ---- */

static haul_status read_device(const reader *r, const char *path, const haul__json *object, haul__machine *m)
{
    HAUL__ASSERT(m->device_count < HAUL__MACHINE_DEVICES);
    haul__machine_device *d = &m->devices[m->device_count];
    haul_status           status = read_fields(r, path, &device_fields, object, d);
    const haul__json     *rates = status ? NULL : haul__json_member(object, "rates");
    const haul__json     *learnt = status ? NULL : haul__json_member(object, "learnt");
    if (!status && haul__machine_find(m, d->name) >= 0)
        status = fail(r, path, "name", "another device has this name; choose a different one");
    if (!status && m->device_count == 0 && strcmp(d->name, "cpu") != 0)
        status = fail(r, path, "name", "the first device is the host, and must be cpu");
    HAUL__ASSERT(d->rate_count == 0 && d->learnt_count == 0);
    if (!status && rates)
        status = read_rates(r, path, rates, d);
    if (!status && learnt)
        status = read_all_learnt(r, path, learnt, d);
    m->device_count++;
    return status;
}

/* ---- links ---- */

static haul_status read_end(const reader *r, const char *path, const char *name, const haul__json *object,
                            const haul__machine *m, int *out)
{
    const haul__json *value = haul__json_member(object, name);
    *out = value->kind == HAUL__JSON_STRING ? haul__machine_find(m, value->string) : -1;
    return *out >= 0 ? HAUL_OK : fail_value(r, path, name, value, "must be the name of a device of the machine");
}

/* A link without a known name needs all numbers. */
static haul_status check_complete(const reader *r, const char *path, const haul__json *object)
{
    for (const field *f = link_fields.list; f < link_fields.list + MOST_FIELDS && f->name; f++)
        if (f->kind == COUNT && !haul__json_member(object, f->name))
            return fail(r, path, f->name, "is missing; add it, or name a known link (pcie3, pcie4, pcie5, nvlink)");
    return HAUL_OK;
}

static haul_status check_ends(const reader *r, const char *path, const haul__machine *m, const haul__machine_link *link)
{
    HAUL__ASSERT(0 <= link->from && link->from < m->device_count);
    HAUL__ASSERT(0 <= link->to && link->to < m->device_count);
    if (link->from == link->to)
        return fail(r, path, "to", "the link must end at another device than it begins; correct the file");
    if (haul__machine_link_of(m, link->from, link->to) != link)
        return fail(r, path, "to", "the machine has a link between these devices already; remove one");
    return HAUL_OK;
}

static haul_status read_link(const reader *r, const char *path, const haul__json *object, haul__machine *m)
{
    HAUL__ASSERT(m->link_count < HAUL__MACHINE_LINKS);
    haul__machine_link *link = &m->links[m->link_count++];
    const haul__json   *name = haul__json_member(object, "name");
    const bool          known = name && name->string && haul__machine_named_link(name->string, link);
    haul_status         status = read_fields(r, path, &link_fields, object, link);
    if (!status)
        status = read_end(r, path, "from", object, m, &link->from);
    if (!status)
        status = read_end(r, path, "to", object, m, &link->to);
    if (!status && !known)
        status = check_complete(r, path, object);
    return status ? status : check_ends(r, path, m, link);
}

/* Every device is linked with the host in both directions. */
static haul_status check_links(const reader *r, const haul__machine *m)
{
    HAUL__ASSERT(0 < m->device_count && m->device_count <= HAUL__MACHINE_DEVICES);
    for (int i = 1; i < m->device_count; i++) {
        const char *device = m->devices[i].name, *host = m->devices[0].name;
        const bool  there = haul__machine_link_of(m, 0, i), back = haul__machine_link_of(m, i, 0);
        char        message[256];
        if (there && back)
            continue;
        snprintf(message, sizeof message,
                 "has no link from %s to %s; add {\"from\": \"%s\", \"to\": \"%s\", \"name\": \"pcie4\"}, or another",
                 there ? device : host, there ? host : device, there ? device : host, there ? host : device);
        return fail(r, "", "links", message);
    }
    return HAUL_OK;
}

/* ---- the machine ---- */

typedef haul_status read_item(const reader *r, const char *path, const haul__json *object, haul__machine *m);

static haul_status read_list(const reader *r, const char *name, const haul__json *list, size_t least, size_t most,
                             read_item *read, haul__machine *m)
{
    haul_status status = list ? check_list(r, "", name, list, least, most) : HAUL_OK;
    size_t      i = 0;
    for (const haul__json *item = list && !status ? list->child : NULL; item && !status; item = item->next) {
        char path[PATH_SIZE];
        snprintf(path, sizeof path, "%s[%zu]", name, i++);
        status = read(r, path, item, m);
    }
    return status;
}

static haul_status read_machine(const reader *r, const haul__json *object, haul__machine *m)
{
    haul_status status = read_fields(r, "", &machine_fields, object, m);
    if (status)
        return status;
    const haul__json *version = haul__json_member(object, "haul_machine");
    if (!is_count(version, VERSION, VERSION))
        return fail_value(r, "", "haul_machine", version, "the version must be 1");
    status = read_list(r, "devices", haul__json_member(object, "devices"), 1, HAUL__MACHINE_DEVICES, read_device, m);
    if (!status)
        status = read_list(r, "links", haul__json_member(object, "links"), 0, HAUL__MACHINE_LINKS, read_link, m);
    return status ? status : check_links(r, m);
}

/* The text from the last field name on shows where JSON ends. */
static haul_status fail_syntax(const reader *r, const char *text, size_t size, size_t at)
{
    char   quoted[HAUL__QUOTED_SIZE], near[64], message[256];
    size_t line = 1, first = at < size ? at : size;
    for (size_t i = 0; i < at && i < size; i++)
        line += text[i] == '\n';
    const size_t end = first;
    while (first > 0 && end - first < 40 && !strchr("\n{[,", text[first - 1]))
        first--;
    HAUL__ASSERT(first <= end && end <= size);
    size_t length = size - first < sizeof near - 1 ? size - first : sizeof near - 1;
    memcpy(near, text + first, length);
    near[length] = '\0';
    near[strcspn(near, "\n")] = '\0';
    snprintf(message, sizeof message,
             "line %zu is not JSON at %s; numbers are of digits only, neither NaN nor infinite; correct the file", line,
             haul__quoted(near, quoted));
    return fail(r, "", "", message);
}

haul_status haul__machine_read(const char *operation, const char *source, const char *text, size_t size,
                               haul__machine **out)
{
    const reader r = {operation, source};
    haul__json  *object = NULL;
    size_t       used = 0;
    *out = NULL;
    haul_status    status = haul__json_read_all(operation, (const uint8_t *)text, size, DEPTH, &object, &used);
    haul__machine *m = status ? NULL : haul__calloc(1, sizeof *m);
    if (!status && !m)
        status = haul__fail_memory(operation, sizeof *m);
    if (!status)
        status = object ? read_machine(&r, object, m) : fail_syntax(&r, text, size, used);
    haul__json_free(object);
    HAUL__ASSERT(status || m->device_count > 0);
    if (status)
        haul__free(m);
    else
        *out = m;
    return status;
}
