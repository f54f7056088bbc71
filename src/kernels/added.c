/* Kernels that the program adds at run time: ids from HAUL__KERNEL_COUNT on. Their text was a macro's argument
 * (haul/kernel.h) and is already compiled for the CPU. */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "kernels/kernels.h"

typedef struct added {
    haul__kernel_info     info;
    haul_kernel_function *functions[HAUL_DTYPE_END];
    char                 *text, *unit, *name;
} added;

static _Atomic(added *) kernels[HAUL__KERNELS_ADDED];
static atomic_int       count;

static const added *added_of(int id)
{
    HAUL__ASSERT(HAUL__KERNEL_COUNT <= id && id < HAUL__KERNEL_COUNT + HAUL__KERNELS_ADDED);
    return atomic_load_explicit(&kernels[id - HAUL__KERNEL_COUNT], memory_order_acquire);
}

const haul__kernel_info *haul__kernel_info_added(int id)
{
    return &added_of(id)->info;
}

haul_kernel_function *const *haul__kernel_functions(int id)
{
    return id < HAUL__KERNEL_COUNT ? NULL : added_of(id)->functions;
}

char *haul__kernel_text_added(int id)
{
    return haul__strdup(added_of(id)->text);
}

/* ---- the text ---- */

/* "KERNEL2(swish, haul_kernel_params, T, y, const T, x)": the form that the preludes turn into an entry point. */
static char *head_of(const haul_kernel *kernel)
{
    char *text = haul__format("KERNEL%d(%s, haul_kernel_params", kernel->buffer_count, kernel->name);
    for (int i = 0; i < kernel->buffer_count && text; i++) {
        char *longer = haul__format("%s, %s, %s", text, kernel->buffers[i].type, kernel->buffers[i].name);
        haul__free(text);
        text = longer;
    }
    return text;
}

/* Buffers begin where their tensors do. */
static char *begin_of(const haul_kernel *kernel)
{
    char *text = haul__strdup("");
    for (int i = 0; i < kernel->buffer_count && text; i++) {
        const char *name = kernel->buffers[i].name;
        char *longer = haul__format("%senum { haul_at_%s = %d };\n%s += p.at[%d] < 0 ? 0 : p.at[%d];\n", text, name, i,
                                    name, i, i);
        haul__free(text);
        text = longer;
    }
    return text;
}

/* A file name in the form of a #line directive. */
static char *quotable(const char *file)
{
    char *name = haul__strdup(file);
    for (char *c = name; c && *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ' || *c == 0x7f)
            *c = '_';
    return name;
}

/* Drivers define some built-in functions as macros, which would rename a kernel. */
static char *text_of(const haul_kernel *kernel)
{
    char *head = head_of(kernel), *begin = begin_of(kernel), *file = quotable(kernel->file), *text = NULL;
    if (head && begin && file)
        text = haul__format("%s\n#undef %s\n%s)\n{\n%s#line %d \"%s\"\n%s\n}\n", haul__kernel_header("custom"),
                            kernel->name, head, begin, kernel->line, file, kernel->text);
    haul__free(head);
    haul__free(begin);
    haul__free(file);
    return text;
}

/* ---- adding ---- */

static void forget(added *a)
{
    if (!a)
        return;
    haul__free(a->text);
    haul__free(a->unit);
    haul__free(a->name);
    haul__free(a);
}

/* The unit's name contains the id: names distinguish units, but several kernels of a program may have one name. */
static added *make(const haul_kernel *kernel, int id)
{
    added *a = haul__calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->text = text_of(kernel);
    a->name = haul__strdup(kernel->name);
    a->unit = haul__format("%s (%d)", kernel->name, id);
    if (!a->text || !a->name || !a->unit) {
        forget(a);
        return NULL;
    }
    HAUL__ASSERT(0 < kernel->buffer_count && kernel->buffer_count <= HAUL_KERNEL_BUFFERS);
    a->info = (haul__kernel_info){.unit = a->unit,
                                  .kernel = a->name,
                                  .dtypes = HAUL__KERNEL_FLOAT,
                                  .buffers = kernel->buffer_count,
                                  .lanes = strstr(kernel->text, "FOR_ROWS") != NULL,
                                  .columns = id,
                                  .few = id};
    a->functions[HAUL_F16] = kernel->f16;
    a->functions[HAUL_BF16] = kernel->bf16;
    a->functions[HAUL_F32] = kernel->f32;
    a->functions[HAUL_F64] = kernel->f64;
    return a;
}

haul_status haul__kernel_add(const haul_kernel *kernel, const char *operation, int *id)
{
    int at = atomic_load(&count);
    do {
        if (at == HAUL__KERNELS_ADDED)
            return haul__fail(HAUL_UNSUPPORTED, operation, "kernel",
                              "the program has added %d kernels, the most that fit", at);
    } while (!atomic_compare_exchange_weak(&count, &at, at + 1));
    added *a = make(kernel, HAUL__KERNEL_COUNT + at);
    if (!a) {
        int next = at + 1; /* the slot is free again, unless another thread has taken the next one */
        atomic_compare_exchange_strong(&count, &next, at);
        return haul__fail_memory(operation, sizeof *a);
    }
    HAUL__ASSERT(!atomic_load(&kernels[at])); /* the slot is this thread's */
    atomic_store_explicit(&kernels[at], a, memory_order_release);
    *id = HAUL__KERNEL_COUNT + at;
    return HAUL_OK;
}
