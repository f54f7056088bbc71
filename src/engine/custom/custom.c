/* Operations from outside the library: checks of descriptors, the list of registered operations, and calls. */
#include "engine/custom/custom.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/ascii.h"
#include "base/text/list.h"
#include "kernels/kernels.h"

static const char registering[] = "haul_custom_register";

/* ---- checks ---- */

static bool is_name(const char *name)
{
    if (!haul__is_letter(*name) && *name != '_')
        return false;
    for (; *name; name++)
        if (!haul__is_letter(*name) && !haul__is_digit(*name) && !strchr("_.:", *name))
            return false;
    return true;
}

/* All messages begin with the operation's name. */
#define REFUSE(d, argument, ...) haul__fail(HAUL_INVALID_ARGUMENT, (d)->name, argument, __VA_ARGS__)

static haul_status check_name(const haul_custom_operation *d)
{
    if (!d->name)
        return haul__fail(HAUL_INVALID_ARGUMENT, registering, "name", "the descriptor has no name");
    if (!is_name(d->name) || strlen(d->name) > 40)
        return haul__fail(HAUL_INVALID_ARGUMENT, registering, "name",
                          "\"%.60s\" is not a valid name for an operation; use at most 40 letters, digits, _ . and :, "
                          "beginning with a letter or _",
                          d->name);
    if (strncmp(d->name, "haul_", 5) == 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, registering, "name",
                          "the name %s begins with haul_, which is reserved for the library", d->name);
    return HAUL_OK;
}

static haul_status check_operands(const haul_custom_operation *d, int *count)
{
    int needed = 0, n = 0;
    for (; n < HAUL_CUSTOM_OPERANDS && d->operands[n].name; n++) {
        const haul_custom_operand *o = &d->operands[n];
        if (!is_name(o->name))
            return REFUSE(d, "operands", "\"%.40s\" is not a name for operand %d", o->name, n);
        if (o->dtypes & ~(HAUL__ALL))
            return REFUSE(d, "operands", "%s has .dtypes with bits that stand for no dtype", o->name);
        needed += !o->optional;
    }
    *count = n;
    for (int i = n; i < HAUL_CUSTOM_OPERANDS; i++)
        if (d->operands[i].name)
            return REFUSE(d, "operands", "operand %d has no name, and operand %d has one", n, i);
    if (!needed)
        return REFUSE(d, "operands", "the descriptor has no operand that must be given; one at least is needed");
    return HAUL_OK;
}

static haul_status check_results(const haul_custom_operation *d, int *count)
{
    int n = 0;
    while (n < HAUL_CUSTOM_RESULTS && d->results[n].name)
        n++;
    *count = n;
    for (int i = 0; i < HAUL_CUSTOM_RESULTS; i++)
        if (d->results[i].name && (i > n || !is_name(d->results[i].name)))
            return REFUSE(d, "results",
                          i > n ? "result \"%.40s\" comes behind one without a name"
                                : "\"%.40s\" is not a name for a result",
                          d->results[i].name);
    return n ? HAUL_OK : REFUSE(d, "results", "the descriptor has no result; .results = {{\"y\"}} names one");
}

static haul_status check_kernel(const haul_custom_operation *d, int operands, int results)
{
    enum { LONGEST_NAME = 56 }; /* with a dtype it fits into haul__kernel.name */
    const haul_kernel *k = d->kernel;
    if (!k)
        return d->launch ? REFUSE(d, "launch", "the descriptor has a function launch and no kernel") : HAUL_OK;
    if (!k->name || !k->text || !k->file || !k->f16 || !k->bf16 || !k->f32 || !k->f64)
        return REFUSE(d, "kernel", "the kernel is not whole; one of the macros HAUL_KERNEL2 to 6 makes it");
    if (strlen(k->name) > LONGEST_NAME)
        return REFUSE(d, "kernel", "the name of kernel %.20s... has %zu letters; it has at most %d", k->name,
                      strlen(k->name), LONGEST_NAME);
    if (k->buffer_count != operands + results)
        return REFUSE(d, "kernel", "kernel %s has %d buffers, but the operation has %d results and %d operands",
                      k->name, k->buffer_count, results, operands);
    if (k->buffer_count > HAUL_KERNEL_BUFFERS)
        return REFUSE(d, "kernel", "kernel %s has %d buffers; a kernel has at most %d", k->name, k->buffer_count,
                      HAUL_KERNEL_BUFFERS);
    for (int i = 0; i < k->buffer_count; i++) {
        const char *type = k->buffers[i].type;
        if (!type || !k->buffers[i].name)
            return REFUSE(d, "kernel",
                          "buffer %d of kernel %s has no %s; one of the macros HAUL_KERNEL2 to 6 sets both", i, k->name,
                          type ? "name" : "type");
        if (!haul__custom_buffer_dtype(type, HAUL_F32))
            return REFUSE(d, "kernel",
                          "buffer %s of kernel %s has the type %s; T, A, ACC, U8, I8 to I64, F32 and F64 are "
                          "known, and const before them",
                          k->buffers[i].name, k->name, type);
        if (i < results && strncmp(type, "const ", 6) == 0)
            return REFUSE(d, "kernel",
                          "buffer %s of kernel %s is the result %s and cannot be const; results come first",
                          k->buffers[i].name, k->name, d->results[i].name);
    }
    return HAUL_OK;
}

static size_t attributes_of(const haul_custom_operation *d)
{
    return d->attributes_size ? d->attributes_size : (size_t)d->numbers * sizeof(double);
}

static haul_status check_ways(const haul_custom_operation *d)
{
    if (!d->compose && !d->host && !d->kernel)
        return REFUSE(d, "compose", "the descriptor does not say how to compute it; give it compose, host or kernel");
    if (d->compose && (d->host || d->kernel))
        return REFUSE(d, "compose", "the descriptor has compose and %s; one of them is to compute it",
                      d->host ? "host" : "kernel");
    if (d->attributes_size > HAUL_CUSTOM_ATTRIBUTES)
        return REFUSE(d, "attributes_size", "the attributes take %zu bytes; there is room for %d", d->attributes_size,
                      HAUL_CUSTOM_ATTRIBUTES);
    if (d->numbers < 0 || d->numbers > HAUL_KERNEL_NUMBERS || (d->numbers && !d->kernel) ||
        (size_t)d->numbers * sizeof(double) > attributes_of(d))
        return REFUSE(d, "numbers", "the attributes, of %zu bytes, cannot begin with %d numbers for a kernel",
                      d->attributes_size, d->numbers);
    if (d->dtypes & ~(HAUL__ALL))
        return REFUSE(d, "dtypes", ".dtypes has bits that stand for no dtype; HAUL_DTYPE_BIT makes one");
    if (d->kernel && d->dtypes & ~(HAUL__FLOATS))
        return REFUSE(d, "dtypes", "a kernel computes in floating dtypes, and .dtypes has others");
    if ((unsigned)d->rule > HAUL_CUSTOM_AS_GIVEN)
        return REFUSE(d, "rule", "%d is not a rule for dtypes", (int)d->rule);
    if ((unsigned)d->autocast > HAUL_CUSTOM_WIDE)
        return REFUSE(d, "autocast", "%d is not a rule for autocast", (int)d->autocast);
    return HAUL_OK;
}

/* ---- the library's descriptors, made from the program's ---- */

static const haul__dtype_rule    rules[] = {HAUL__FLOATED, HAUL__PROMOTED, HAUL__AS_GIVEN};
static const haul__autocast_rule autocasts[] = {HAUL__KEEP, HAUL__LOWER, HAUL__WIDE};

static void discard(haul__custom *custom)
{
    if (!custom)
        return;
    HAUL__ASSERT(!atomic_load(&custom->next)); /* it is not in the list, whose operations stay */
    haul__free((char *)(uintptr_t)custom->operation.name);
    for (int i = 0; i < HAUL__MAX_OPERANDS; i++)
        haul__free((char *)(uintptr_t)custom->operation.operands[i].name);
    for (int i = 0; i < HAUL__MAX_RESULTS; i++)
        haul__free((char *)(uintptr_t)custom->operation.results[i].name);
    for (int i = 0; i < HAUL_KERNEL_BUFFERS; i++)
        haul__free((char *)(uintptr_t)custom->kernel.buffers[i].type);
    haul__free((char *)(uintptr_t)custom->kernel.name);
    haul__free(custom);
}

/* Its texts live as long as the process, because the program's may be in a library that is unloaded. */
static bool copy_names(haul__custom *custom, const haul_custom_operation *d)
{
    haul__operation *o = &custom->operation;
    bool             fine = (o->name = haul__strdup(d->name)) != NULL;
    HAUL__ASSERT(custom->operand_count <= HAUL__MAX_OPERANDS && custom->result_count <= HAUL__MAX_RESULTS);
    for (int i = 0; i < custom->operand_count; i++)
        fine = fine && (o->operands[i].name = haul__strdup(d->operands[i].name));
    for (int i = 0; i < custom->result_count; i++)
        fine = fine && (o->results[i].name = haul__strdup(d->results[i].name));
    if (!d->kernel)
        return fine;
    fine = fine && (custom->kernel.name = haul__strdup(d->kernel->name));
    custom->kernel.buffer_count = d->kernel->buffer_count;
    for (int i = 0; i < d->kernel->buffer_count; i++)
        fine = fine && (custom->kernel.buffers[i].type = haul__strdup(d->kernel->buffers[i].type));
    return fine;
}

static haul__custom *make(haul_custom_operation *d, int operands, int results)
{
    haul__custom *custom = haul__calloc(1, sizeof *custom);
    if (!custom)
        return NULL;
    haul__operation *o = &custom->operation;
    custom->own = *d;
    custom->owner = d;
    custom->operand_count = operands;
    custom->result_count = results;
    if (!copy_names(custom, d)) {
        discard(custom);
        return NULL;
    }
    for (int i = 0; i < operands; i++) {
        o->operands[i].optional = d->operands[i].optional;
        o->operands[i].accepts = d->operands[i].dtypes;
        o->operands[i].saved_for = d->operands[i].saved ? HAUL__FOR_ALL : 0;
        custom->required = d->operands[i].optional ? custom->required : i + 1;
    }
    HAUL__ASSERT(0 < custom->required && custom->required <= operands);
    for (int i = 0; i < results; i++)
        o->results[i].saved_for = d->results[i].saved ? HAUL__FOR_ALL : 0;
    o->dtypes = d->dtypes ? d->dtypes : d->kernel ? HAUL__FLOATS : 0;
    o->rule = rules[d->rule];
    o->autocast = autocasts[d->autocast];
    o->attributes_size = attributes_of(d);
    o->is_custom = true;
    haul__custom_complete(custom);
    return custom;
}

/* ---- the list ---- */

static _Atomic(haul__custom *) first;

haul__custom *haul__custom_first(void)
{
    return atomic_load_explicit(&first, memory_order_acquire);
}

static haul__custom *find(const char *name)
{
    haul__custom *custom = haul__custom_first();
    while (custom && strcmp(custom->operation.name, name) != 0)
        custom = haul__custom_next(custom);
    return custom;
}

/* Append it; or return the operation of the same name that was registered first. */
static haul__custom *append(haul__custom *custom)
{
    HAUL__ASSERT(!atomic_load(&custom->next) && custom->operation.extra == custom);
    _Atomic(haul__custom *) *link = &first;
    for (;;) {
        haul__custom *there = NULL;
        if (atomic_compare_exchange_strong(link, &there, custom))
            return custom;
        if (strcmp(there->operation.name, custom->operation.name) == 0)
            return there;
        link = &there->next;
    }
}

static haul_status refuse_name(const haul_custom_operation *d)
{
    return REFUSE(d, "name", "another operation of this name is registered; names are for one descriptor each");
}

static haul_status check(const haul_custom_operation *d, int *operands, int *results)
{
    haul_status status = check_name(d);
    status = status ? status : check_operands(d, operands);
    status = status ? status : check_results(d, results);
    status = status ? status : check_ways(d);
    return status ? status : check_kernel(d, *operands, *results);
}

/* The operation made from this descriptor; NULL on failure. */
static haul__custom *enrol(haul_custom_operation *d)
{
    int           operands = 0, results = 0, id = 0;
    haul__custom *custom = NULL, *there = NULL;
    if (check(d, &operands, &results))
        return NULL;
    there = find(d->name);
    if (!there) {
        custom = make(d, operands, results);
        if (!custom) {
            haul__fail_memory(d->name, sizeof *custom);
            return NULL;
        }
        if (d->kernel && haul__kernel_add(d->kernel, d->name, &id)) {
            discard(custom);
            return NULL;
        }
        custom->operation.kernel = id;
        there = append(custom);
    }
    if (there != custom)
        discard(custom);
    HAUL__ASSERT(strcmp(there->operation.name, d->name) == 0);
    if (there->owner != d) {
        refuse_name(d);
        return NULL;
    }
    __atomic_store_n(&d->haul__registered, there, __ATOMIC_RELEASE);
    return there;
}

/* A copy of a registered descriptor counts as a different descriptor. */
static haul__custom *registered(haul_custom_operation *d)
{
    haul__custom *custom = __atomic_load_n(&d->haul__registered, __ATOMIC_ACQUIRE);
    return custom && custom->owner == d ? custom : enrol(d);
}

haul_status haul_custom_register(haul_custom_operation *operation)
{
    if (!operation)
        return haul__fail_null(registering, "operation");
    return registered(operation) ? HAUL_OK : haul_error_status();
}

/* ---- calls ---- */

static haul_status refuse_count(const haul__custom *custom, int count)
{
    char names[160] = "";
    for (int i = 0; i < custom->operand_count; i++)
        haul__list_add(names, sizeof names, "%s", custom->operation.operands[i].name);
    return haul__fail(HAUL_INVALID_ARGUMENT, custom->operation.name, NULL, "%d operands are given; %s %s expected",
                      count, names, custom->operand_count == 1 ? "is" : "are");
}

/* Looks up the operation, and collects the operands in `all`. */
static const haul__operation *prepare(haul_custom_operation *d, const char *function, const void *attributes,
                                      haul_tensor *const *operands, int count, haul_tensor **all)
{
    if (!d) {
        haul__fail_null(function, "operation");
        return NULL;
    }
    const haul__custom *custom = registered(d);
    if (!custom)
        return NULL;
    if (custom->operation.attributes_size && !attributes) {
        haul__fail(HAUL_INVALID_ARGUMENT, custom->operation.name, "attributes",
                   "attributes are NULL; %zu bytes are expected", custom->operation.attributes_size);
        return NULL;
    }
    if (count < custom->required || count > custom->operand_count || !operands) {
        refuse_count(custom, operands ? count : 0);
        return NULL;
    }
    HAUL__ASSERT(custom->operation.extra == custom && custom->operand_count <= HAUL_CUSTOM_OPERANDS);
    for (int i = 0; i < custom->operand_count; i++)
        all[i] = i < count ? operands[i] : haul_none;
    return &custom->operation;
}

static int operands_of(const haul__operation *operation)
{
    return ((const haul__custom *)operation->extra)->operand_count;
}

haul_tensor *haul_apply_list(haul_custom_operation *operation, const void *attributes, haul_tensor *const *operands,
                             int count)
{
    haul_tensor           *all[HAUL_CUSTOM_OPERANDS];
    const haul__operation *o = prepare(operation, "haul_apply_list", attributes, operands, count, all);
    return o ? haul__apply1(o, attributes, all, operands_of(o)) : haul__failed_tensor();
}

haul_status haul_apply_list_into(haul_tensor *out, haul_custom_operation *operation, const void *attributes,
                                 haul_tensor *const *operands, int count)
{
    haul_tensor           *all[HAUL_CUSTOM_OPERANDS];
    const haul__operation *o = prepare(operation, "haul_apply_list_into", attributes, operands, count, all);
    if (!o)
        return haul_error_status();
    if (o->results[1].name)
        return haul__fail(HAUL_INVALID_ARGUMENT, o->name, "out",
                          "the operation has several results and cannot write into one; call haul_apply_all");
    return haul__apply_into(&out, o, attributes, all, operands_of(o));
}

haul_status haul_apply_all(haul_custom_operation *operation, const void *attributes, haul_tensor *const *operands,
                           int count, haul_tensor **results)
{
    haul_tensor           *all[HAUL_CUSTOM_OPERANDS];
    const haul__operation *o = prepare(operation, "haul_apply_all", attributes, operands, count, all);
    if (o && !results)
        return haul__fail_null(o->name, "results");
    haul_status status = o ? haul__apply(o, attributes, all, operands_of(o), results) : haul_error_status();
    for (int i = 0; status && operation && results && i < HAUL_CUSTOM_RESULTS && operation->results[i].name; i++)
        results[i] = haul__failed_tensor();
    return status;
}
