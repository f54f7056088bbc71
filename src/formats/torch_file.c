/* PyTorch's files (torch.save): zip archives with a pickle, data.pkl, that describes tensors, and a member for each
 * storage. The pickle may be any nesting of dictionaries and lists: a tensor's name is made of the keys to it, with
 * dots between them. Nothing is executed; calls have a meaning here only if they make tensors. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "base/text/quoted.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "formats/pickle.h"
#include "formats/tensor_file.h"
#include "formats/zip.h"

#define OPEN HAUL__OPEN_TENSORS

/* Containers within containers, and the bytes of a name. */
enum { MAX_DEPTH = 16, MAX_NAME = 4096, MAX_FOLDER = 1024 };

/* ---- known globals ---- */

static const struct {
    const char *name; /* of a global: its class, or a dtype */
    haul_dtype  dtype;
    const char *file_dtype;
    int         bits;
} dtypes[] = {
    {"torch\nBoolStorage", HAUL_BOOL, "bool", 8},
    {"torch\nByteStorage", HAUL_U8, "uint8", 8},
    {"torch\nCharStorage", HAUL_I8, "int8", 8},
    {"torch\nShortStorage", HAUL_I16, "int16", 16},
    {"torch\nIntStorage", HAUL_I32, "int32", 32},
    {"torch\nLongStorage", HAUL_I64, "int64", 64},
    {"torch\nHalfStorage", HAUL_F16, "float16", 16},
    {"torch\nBFloat16Storage", HAUL_BF16, "bfloat16", 16},
    {"torch\nFloatStorage", HAUL_F32, "float32", 32},
    {"torch\nDoubleStorage", HAUL_F64, "float64", 64},
    {"torch\nComplexFloatStorage", HAUL_DTYPE_NONE, "complex64", 64},
    {"torch\nComplexDoubleStorage", HAUL_DTYPE_NONE, "complex128", 128},
    {"torch.storage\nUntypedStorage", HAUL_U8, "uint8", 8},
    {"torch\nUntypedStorage", HAUL_U8, "uint8", 8},
    {"torch\nbool", HAUL_BOOL, "bool", 8},
    {"torch\nuint8", HAUL_U8, "uint8", 8},
    {"torch\nint8", HAUL_I8, "int8", 8},
    {"torch\nint16", HAUL_I16, "int16", 16},
    {"torch\nint32", HAUL_I32, "int32", 32},
    {"torch\nint64", HAUL_I64, "int64", 64},
    {"torch\nfloat16", HAUL_F16, "float16", 16},
    {"torch\nbfloat16", HAUL_BF16, "bfloat16", 16},
    {"torch\nfloat32", HAUL_F32, "float32", 32},
    {"torch\nfloat64", HAUL_F64, "float64", 64},
    {"torch\nuint16", HAUL_U16, "uint16", 16},
    {"torch\nuint32", HAUL_U32, "uint32", 32},
    {"torch\nuint64", HAUL_U64, "uint64", 64},
    {"torch\nfloat8_e4m3fn", HAUL_DTYPE_NONE, "float8_e4m3fn", 8},
    {"torch\nfloat8_e5m2", HAUL_DTYPE_NONE, "float8_e5m2", 8},
    {"torch\nfloat8_e4m3fnuz", HAUL_DTYPE_NONE, "float8_e4m3fnuz", 8},
    {"torch\nfloat8_e5m2fnuz", HAUL_DTYPE_NONE, "float8_e5m2fnuz", 8},
    {"torch\nfloat8_e8m0fnu", HAUL_DTYPE_NONE, "float8_e8m0fnu", 8},
    {"torch\ncomplex64", HAUL_DTYPE_NONE, "complex64", 64},
    {"torch\ncomplex128", HAUL_DTYPE_NONE, "complex128", 128},
};
#define DTYPES (sizeof dtypes / sizeof *dtypes)

/* Functions whose calls have a meaning. */
#define REBUILD      "torch._utils\n_rebuild_tensor"
#define REBUILD_2    "torch._utils\n_rebuild_tensor_v2"
#define REBUILD_3    "torch._utils\n_rebuild_tensor_v3"
#define PARAMETER    "torch._utils\n_rebuild_parameter"
#define STATEFUL     "torch._utils\n_rebuild_parameter_with_state"
#define SIZE         "torch\nSize"
#define ORDERED_DICT "collections\nOrderedDict"
static const char *const functions[] = {REBUILD, REBUILD_2, REBUILD_3, PARAMETER, STATEFUL, SIZE, ORDERED_DICT};

static bool equals(const char *name, const char *text, size_t size)
{
    return strlen(name) == size && memcmp(name, text, size) == 0;
}

static bool is_known(const char *name, size_t size)
{
    bool known = false;
    for (size_t i = 0; i < DTYPES && !known; i++)
        known = equals(dtypes[i].name, name, size);
    for (size_t i = 0; i < sizeof functions / sizeof *functions && !known; i++)
        known = equals(functions[i], name, size);
    return known;
}

/* ---- tensors ---- */

typedef struct reader {
    haul_safetensors *file;
    const char       *path;
    haul__pickle      pickle;
    size_t            size;               /* of the pickle */
    char              folder[MAX_FOLDER]; /* before the names of all members: "archive/" */
    char              name[MAX_NAME];     /* of the value that is looked at */
    size_t            length;
    size_t            capacity;  /* of the entries */
    size_t            left;      /* how many links may still be followed */
    size_t            name_room; /* bytes that names may still take */
} reader;

static haul_status malformed(const reader *r, const char *what)
{
    char quoted[HAUL__QUOTED_SIZE];
    return haul__fail(HAUL_FORMAT, OPEN, "path", "%s is not a valid file of PyTorch: %s %s", r->path,
                      haul__quoted(r->length ? r->name : "its value", quoted), what);
}

static const haul__pickle_value *value_of(const reader *r, uint32_t value)
{
    return &r->pickle.values[value];
}

static bool has_items(const reader *r, uint32_t value, haul__pickle_kind kind, uint32_t least)
{
    return value_of(r, value)->kind == (uint32_t)kind && value_of(r, value)->count >= least;
}

static size_t find_dtype(const reader *r, uint32_t value)
{
    size_t row = 0;
    while (row < DTYPES && !haul__pickle_is(&r->pickle, value, dtypes[row].name))
        row++;
    return row;
}

/* The id of a storage: ("storage", its class, its name, a device, its number of elements). */
static haul_status read_storage(const reader *r, uint32_t value, size_t *dtype, const haul__zip_member **member)
{
    const haul__pickle *p = &r->pickle;
    char                name[MAX_FOLDER + 128], number[96];
    if (value_of(r, value)->kind != HAUL__PICKLE_STORAGE)
        return malformed(r, "has no storage");
    const uint32_t id = haul__pickle_item(p, value, 0);
    if (!has_items(r, id, HAUL__PICKLE_TUPLE, 5) || !haul__pickle_is(p, haul__pickle_item(p, id, 0), "storage"))
        return malformed(r, "has a storage without a name");
    *dtype = find_dtype(r, haul__pickle_item(p, id, 1));
    const haul__pickle_value *key = value_of(r, haul__pickle_item(p, id, 2));
    if (*dtype == DTYPES || key->kind != HAUL__PICKLE_TEXT || key->size >= sizeof number)
        return malformed(r, "has a storage without a name");
    HAUL__ASSERT((size_t)key->at + key->size <= r->size);
    memcpy(number, p->bytes + key->at, key->size);
    number[key->size] = 0;
    haul__snprintf(name, sizeof name, "%sdata/%s", r->folder, number);
    *member = haul__zip_find(&r->file->zip, name);
    const int64_t count = haul__pickle_number(p, haul__pickle_item(p, id, 4));
    if (!*member)
        return malformed(r, "has a storage that the file lacks");
    if (count < 0 || (uint64_t)count > (*member)->size / ((uint64_t)dtypes[*dtype].bits / 8))
        return malformed(r, "has a storage that is shorter than it claims");
    return HAUL_OK;
}

static haul_status set_fault(haul__safetensors_entry *e, const char *fault)
{
    e->fault = haul__strdup(fault);
    e->shape.ndim = 0;
    e->begin = 0;
    e->end = e->member->size;
    return e->fault ? HAUL_OK : haul__fail_memory(OPEN, strlen(fault));
}

/* Sizes and strides, and the part of the storage from the first element to the last. */
static haul_status read_layout(const reader *r, haul__safetensors_entry *e, int64_t offset, uint32_t sizes,
                               uint32_t strides, size_t width)
{
    const haul__pickle *p = &r->pickle;
    const uint32_t      ndim = value_of(r, sizes)->count;
    int64_t             stride[HAUL_MAX_DIMS] = {0}, count = 1, last = offset, step, end;
    if (ndim > HAUL_MAX_DIMS)
        return set_fault(e, "it has more than 8 dimensions");
    e->shape.ndim = (int)ndim;
    for (uint32_t d = 0; d < ndim; d++) {
        e->shape.dims[d] = haul__pickle_number(p, haul__pickle_item(p, sizes, d));
        stride[d] = haul__pickle_number(p, haul__pickle_item(p, strides, d));
        if (e->shape.dims[d] < 0 || stride[d] < 0 || !haul__mul_size(count, e->shape.dims[d], &count))
            return malformed(r, "has a wrong size or stride");
    }
    if (!count)
        return HAUL_OK;
    bool    plain = true;
    int64_t expected = 1;
    for (uint32_t d = ndim; d-- > 0; expected *= e->shape.dims[d])
        plain = plain && (e->shape.dims[d] == 1 || stride[d] == expected);
    for (uint32_t d = 0; d < ndim; d++)
        if (!haul__mul_size(e->shape.dims[d] - 1, stride[d], &step) || !haul__add_size(last, step, &last))
            return malformed(r, "goes past the end of its storage");
    if (!haul__add_size(last, 1, &end) || !haul__mul_size(end, (int64_t)width, &end) || (uint64_t)end > e->member->size)
        return malformed(r, "goes past the end of its storage");
    e->begin = (uint64_t)offset * width;
    e->end = (uint64_t)end;
    HAUL__ASSERT(e->begin < e->end && e->end <= e->member->size);
    if ((uint64_t)count > (e->end - e->begin) / width)
        return set_fault(e, "it has more elements than are stored, as expanded tensors have; save a clone() of it");
    if (plain)
        return HAUL_OK;
    if (!(e->strides = haul__malloc(sizeof stride)))
        return haul__fail_memory(OPEN, sizeof stride);
    memcpy(e->strides, stride, sizeof stride);
    return HAUL_OK;
}

static haul_status add_entry(reader *r, haul__safetensors_entry **out)
{
    haul__safetensors_header *h = &r->file->header;
    size_t                    wanted = (size_t)h->count + 1;
    if (wanted > r->size / 16 + 16 || r->length > r->name_room)
        return malformed(r, "is one of more tensors than the file has room for");
    if (!haul__grow(&h->entries, &r->capacity, wanted, sizeof *h->entries))
        return haul__fail_memory(OPEN, wanted * sizeof *h->entries);
    HAUL__ASSERT(r->length <= r->name_room && wanted <= r->capacity);
    r->name_room -= r->length;
    *out = &h->entries[h->count];
    **out = (haul__safetensors_entry){.name = haul__strdup(r->length ? r->name : "tensor")};
    if (!(*out)->name)
        return haul__fail_memory(OPEN, r->length);
    h->count++;
    return HAUL_OK;
}

/* The arguments of a function that rebuilds a tensor: a storage, an offset, sizes, strides, and others. */
static haul_status read_tensor(reader *r, uint32_t arguments, uint32_t dtype_at)
{
    const haul__pickle     *p = &r->pickle;
    const haul__zip_member *member = NULL;
    size_t                  dtype = 0, named = 0;
    uint32_t                a[4];
    if (!has_items(r, arguments, HAUL__PICKLE_TUPLE, dtype_at ? dtype_at + 1 : 4))
        return malformed(r, "lacks a part of its description");
    for (uint32_t i = 0; i < 4; i++)
        a[i] = haul__pickle_item(p, arguments, i);
    const int64_t offset = haul__pickle_number(p, a[1]);
    if (offset < 0 || !has_items(r, a[2], HAUL__PICKLE_TUPLE, 0) || !has_items(r, a[3], HAUL__PICKLE_TUPLE, 0) ||
        value_of(r, a[2])->count != value_of(r, a[3])->count)
        return malformed(r, "has a description that is wrong");
    if (read_storage(r, a[0], &dtype, &member))
        return haul_error_status();
    named = dtype_at ? find_dtype(r, haul__pickle_item(p, arguments, dtype_at)) : dtype;
    if (named == DTYPES)
        return malformed(r, "has no dtype");
    haul__safetensors_entry *e = NULL;
    if (add_entry(r, &e))
        return haul_error_status();
    e->member = member;
    e->dtype = dtypes[named].dtype;
    e->bits = dtypes[named].bits;
    if (!(e->dtype_name = haul__strdup(dtypes[named].file_dtype)))
        return haul__fail_memory(OPEN, strlen(dtypes[named].file_dtype));
    return read_layout(r, e, offset, a[2], a[3], (size_t)e->bits / 8);
}

/* ---- containers ---- */

static haul_status walk(reader *r, uint32_t value, int depth);

static haul_status append_key(reader *r, const haul__pickle_value *key, uint32_t index)
{
    char        number[24];
    const char *text = number;
    size_t      size;
    if (key && key->kind == HAUL__PICKLE_TEXT) {
        text = (const char *)r->pickle.bytes + key->at;
        HAUL__ASSERT((size_t)key->at + key->size <= r->size);
        size = key->size;
    } else {
        const int64_t n = key ? (int64_t)((uint64_t)key->high << 32 | key->low) : (int64_t)index;
        size = (size_t)haul__snprintf(number, sizeof number, "%lld", (long long)n);
    }
    if (size + r->length + 2 > MAX_NAME)
        return malformed(r, "has a longer name below it than 4,096 bytes");
    if (r->length)
        r->name[r->length++] = '.';
    memcpy(r->name + r->length, text, size);
    r->length += size;
    r->name[r->length] = 0;
    HAUL__ASSERT(r->length < MAX_NAME);
    return HAUL_OK;
}

static haul_status walk_item(reader *r, const haul__pickle_value *key, uint32_t index, uint32_t value, int depth)
{
    const size_t length = r->length;
    haul_status  status = append_key(r, key, index);
    if (status == HAUL_OK)
        status = walk(r, value, depth);
    r->length = length;
    r->name[length] = 0;
    HAUL__ASSERT(length < MAX_NAME);
    return status;
}

/* Values with other keys than texts and whole numbers cannot be weights. */
static haul_status walk_items(reader *r, uint32_t owner, int depth)
{
    const haul__pickle_value *v = value_of(r, owner);
    const haul__pickle_link  *links = r->pickle.links;
    const bool                keyed = v->kind == HAUL__PICKLE_DICT;
    HAUL__ASSERT(!keyed || v->count % 2 == 0); /* keys and values in turn */
    haul_status status = HAUL_OK;
    uint32_t    link = v->first;
    for (uint32_t i = 0; i < v->count && status == HAUL_OK; i += keyed ? 2 : 1) {
        if (!r->left)
            return malformed(r, "has containers that contain each other too often");
        r->left--;
        const haul__pickle_value *key = keyed ? value_of(r, links[link].value) : NULL;
        link = keyed ? links[link].next : link;
        if (!keyed || key->kind == HAUL__PICKLE_TEXT || key->kind == HAUL__PICKLE_NUMBER)
            status = walk_item(r, key, i, links[link].value, depth - 1);
        link = links[link].next;
    }
    return status;
}

static haul_status walk_call(reader *r, uint32_t value, int depth)
{
    const haul__pickle *p = &r->pickle;
    const uint32_t      function = haul__pickle_item(p, value, 0), arguments = haul__pickle_item(p, value, 1);
    if (haul__pickle_is(p, function, REBUILD) || haul__pickle_is(p, function, REBUILD_2))
        return read_tensor(r, arguments, 0);
    if (haul__pickle_is(p, function, REBUILD_3))
        return read_tensor(r, arguments, 6);
    if (haul__pickle_is(p, function, PARAMETER) || haul__pickle_is(p, function, STATEFUL))
        return has_items(r, arguments, HAUL__PICKLE_TUPLE, 1) ? walk(r, haul__pickle_item(p, arguments, 0), depth - 1)
                                                              : malformed(r, "lacks a part of its description");
    return HAUL_OK; /* a size */
}

static haul_status walk(reader *r, uint32_t value, int depth)
{
    if (depth < 0)
        return malformed(r, "is nested too deeply");
    switch (value_of(r, value)->kind) {
    case HAUL__PICKLE_DICT:
    case HAUL__PICKLE_LIST:
    case HAUL__PICKLE_TUPLE: return walk_items(r, value, depth);
    case HAUL__PICKLE_CALL: return walk_call(r, value, depth);
    default: return HAUL_OK;
    }
}

/* ---- the file ---- */

/* The text before the names of weights: the first of these keys that the outermost dictionary has for a dictionary. */
static const char *find_root(const reader *r)
{
    static const char *const  roots[] = {"state_dict", "model_state_dict", "model", "net", "module"};
    static const char *const  prefixes[] = {"state_dict.", "model_state_dict.", "model.", "net.", "module."};
    const haul__pickle_value *v = value_of(r, r->pickle.root);
    const haul__pickle_link  *links = r->pickle.links;
    for (size_t k = 0; k < sizeof roots / sizeof *roots && v->kind == HAUL__PICKLE_DICT; k++)
        for (uint32_t i = 0, link = v->first; i < v->count; i += 2, link = links[links[link].next].next)
            if (haul__pickle_is(&r->pickle, links[link].value, roots[k]) &&
                value_of(r, links[links[link].next].value)->kind == HAUL__PICKLE_DICT)
                return prefixes[k];
    return NULL;
}

static haul_status read_member(const reader *r, const char *name, size_t limit, uint8_t **bytes, size_t *size)
{
    const haul__zip_member *m = haul__zip_find(&r->file->zip, name);
    *bytes = NULL;
    *size = m && m->size < limit ? (size_t)m->size : 0;
    if (!m || !*size)
        return HAUL_OK;
    if (!(*bytes = haul__malloc(*size)))
        return haul__fail_memory(OPEN, *size);
    const haul_status status = haul__zip_read(&r->file->parts->file, m, 0, *bytes, *size);
    if (status) {
        haul__free(*bytes);
        *bytes = NULL;
    }
    return status;
}

static haul_status check_byte_order(const reader *r)
{
    char     name[MAX_FOLDER + 16];
    uint8_t *text = NULL;
    size_t   size;
    haul__snprintf(name, sizeof name, "%sbyteorder", r->folder);
    haul_status status = read_member(r, name, 64, &text, &size);
    if (status == HAUL_OK && text && !(size == 6 && memcmp(text, "little", 6) == 0))
        status = haul__fail(HAUL_UNSUPPORTED, OPEN, "path",
                            "%s was written by a big-endian machine; load it there with torch.load, and save it as "
                            "safetensors",
                            r->path);
    haul__free(text);
    return status;
}

static haul_status read_pickle(reader *r, const haul__zip_member *member)
{
    uint8_t    *bytes = NULL;
    haul_status status = check_byte_order(r);
    if (status == HAUL_OK)
        status = read_member(r, member->name, HAUL__PICKLE_LIMIT, &bytes, &r->size);
    if (status == HAUL_OK && !bytes)
        return malformed(r, "is empty or has more than 256 MiB");
    if (status == HAUL_OK)
        status = haul__pickle_parse(&r->pickle, bytes, r->size, is_known, r->path, OPEN);
    if (status == HAUL_OK) {
        HAUL__ASSERT(r->size > 0 && r->size < HAUL__PICKLE_LIMIT && !r->length);
        r->left = 4 * r->size + 64;
        r->name_room = 4 * r->size + 64;
        r->file->header.root = find_root(r);
        status = walk(r, r->pickle.root, MAX_DEPTH);
        haul__pickle_free(&r->pickle);
    }
    haul__free(bytes);
    return status;
}

/* A member of any folder, but of one only. */
const haul__zip_member *haul__torch_pickle(const haul__zip *zip)
{
    static const char       name[] = "data.pkl";
    const haul__zip_member *found = NULL;
    for (size_t i = 0; i < zip->count && !found; i++) {
        const size_t length = strlen(zip->members[i].name);
        const char  *slash = strchr(zip->members[i].name, '/');
        if (length >= strlen(name) && strcmp(zip->members[i].name + length - strlen(name), name) == 0 &&
            (slash ? slash + 1 : zip->members[i].name) == zip->members[i].name + length - strlen(name))
            found = &zip->members[i];
    }
    return found;
}

haul_status haul__torch_open(haul_safetensors *f)
{
    const haul__zip_member *member = haul__torch_pickle(&f->zip);
    HAUL__ASSERT(strlen(member->name) >= strlen("data.pkl"));
    const size_t length = strlen(member->name) - strlen("data.pkl");
    reader      *r = haul__calloc(1, sizeof *r);
    if (!r)
        return haul__fail_memory(OPEN, sizeof *r);
    r->file = f;
    r->path = f->parts->path;
    f->header.format = "PyTorch file";
    haul_status status = length >= MAX_FOLDER ? malformed(r, "has a folder with a long name") : HAUL_OK;
    if (status == HAUL_OK) {
        memcpy(r->folder, member->name, length);
        status = read_pickle(r, member);
    }
    haul__free(r);
    return status == HAUL_OK ? haul__safetensors_sort(&f->header, f->parts->path) : status;
}
