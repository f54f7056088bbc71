/* Custom operations whose kernels are texts. Python compiles the CPU's form with the machine's C compiler
 * (python/haul/_kernel.py); other devices compile the text themselves. */
#include <dlfcn.h>

#include "core.h"

/* What an operation needs as long as the process lives. */
typedef struct own_kernel {
    haul_custom_operation operation;
    haul_kernel           kernel;
} own_kernel;

/* ---- functions of the program ---- */

static PyObject *shapes_of(const haul_custom_array *arrays, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *shape = haulpy_shape(arrays[i].shape);
        if (!shape || PyTuple_SetItem(tuple, i, shape)) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

static const own_kernel *kernel_of(const char *name)
{
    PyObject         *capsule = haulpy_custom_part(name, CUSTOM_OPERATION);
    const own_kernel *own = capsule ? PyCapsule_GetPointer(capsule, "haul.custom") : NULL;
    Py_XDECREF(capsule);
    return own;
}

static bool is_element(const char *type)
{
    return strcmp(type + (strncmp(type, "const ", 6) ? 0 : 6), "T") == 0;
}

/* A buffer of T has the dtype of the first operand of T; others have their own. */
static haul_dtype dtype_of(const haul_custom_call *call, const own_kernel *own, int buffer)
{
    static const struct {
        const char *word;
        haul_dtype  dtype;
    } words[] = {{"U8", HAUL_U8},   {"I8", HAUL_I8},   {"I16", HAUL_I16}, {"I32", HAUL_I32},
                 {"I64", HAUL_I64}, {"F32", HAUL_F32}, {"F64", HAUL_F64}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(own->kernel.buffers[buffer].type, words[i].word) == 0)
            return words[i].dtype;
    for (int i = 0; i < call->operand_count; i++)
        if (is_element(own->kernel.buffers[call->result_count + i].type))
            return call->operands[i].dtype;
    return HAUL_F32;
}

/* The results' shapes from what `shapes` returned: one shape, or a tuple of several. False: raised. */
static bool take_shapes(haul_custom_call *call, PyObject *value)
{
    if (call->result_count == 1)
        return haulpy_as_shape(value, "the shape of a result", &call->results[0].shape);
    if (!PyTuple_Check(value) || PyTuple_Size(value) != call->result_count) {
        PyErr_Format(PyExc_TypeError, "the shapes of the results: a tuple of %d is expected, not %R",
                     call->result_count, (PyObject *)Py_TYPE(value));
        return false;
    }
    for (int i = 0; i < call->result_count; i++)
        if (!haulpy_as_shape(PyTuple_GetItem(value, i), "the shape of a result", &call->results[i].shape))
            return false;
    return true;
}

static haul_status infer(haul_custom_call *call)
{
    PyGILState_STATE  gil = PyGILState_Ensure();
    const own_kernel *own = kernel_of(call->name);
    PyObject         *function = own ? haulpy_custom_part(call->name, CUSTOM_SHAPES) : NULL;
    PyObject         *given = NULL, *value = NULL;
    bool              fine = function != NULL;
    for (int i = 0; fine && i < call->result_count; i++) {
        call->results[i].dtype = dtype_of(call, own, i);
        call->results[i].shape = call->operands[0].shape;
    }
    if (fine && function != Py_None) {
        given = shapes_of(call->operands, call->operand_count);
        value = given ? PyObject_CallObject(function, given) : NULL;
        fine = value && take_shapes(call, value);
    }
    haul_status status = haulpy_ended(fine, call->name);
    haulpy_leave_python(gil, 3, value, given, function);
    return status;
}

/* The number of work items, or a sequence of it and of the sizes. False: raised. */
static bool take_launch(PyObject *value, haul_kernel_launch *out)
{
    PyObject  *all = PyLong_Check(value) ? PyTuple_Pack(1, value) : PySequence_Tuple(value);
    Py_ssize_t count = all ? PyTuple_Size(all) : 0;
    bool       fine = all && count >= 1 && count <= 1 + HAUL_KERNEL_SIZES;
    if (all && !fine)
        PyErr_Format(PyExc_ValueError, "launch: a number of items and up to %d sizes are expected", HAUL_KERNEL_SIZES);
    for (Py_ssize_t i = 0; fine && i < count; i++)
        fine = haulpy_as_i64(PyTuple_GetItem(all, i), "launch", i ? &out->sizes[i - 1] : &out->items);
    Py_XDECREF(all);
    return fine;
}

/* launch(shapes of operands, shapes of results) */
static haul_status launch(const haul_custom_call *call, haul_kernel_launch *out)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject        *function = haulpy_custom_part(call->name, CUSTOM_LAUNCH);
    PyObject        *operands = function ? shapes_of(call->operands, call->operand_count) : NULL;
    PyObject        *results = operands ? shapes_of(call->results, call->result_count) : NULL;
    PyObject        *value = results ? PyObject_CallFunctionObjArgs(function, operands, results, NULL) : NULL;
    haul_status      status = haulpy_ended(value && take_launch(value, out), call->name);
    haulpy_leave_python(gil, 4, value, results, operands, function);
    return status;
}

/* ---- the CPU's form ---- */

/* Without a C compiler only other devices can compute it. */
static haul_status refuse_host(const haul_custom_call *call)
{
    haul_error_set(HAUL_UNSUPPORTED, call->name, NULL,
                   "the CPU needs a C compiler for this kernel, and none was found when it was made; install one, name "
                   "it by the environment variable CC, or bring the operands to another device");
    return HAUL_UNSUPPORTED;
}

static void do_nothing(void *const *buffers, const void *params, int64_t first, int64_t last)
{
    (void)buffers, (void)params, (void)first, (void)last;
}

/* Takes the CPU's functions from a shared object, which stays loaded. False: raised. */
static bool take_functions(own_kernel *own, const char *path)
{
    own->kernel.f16 = own->kernel.bf16 = own->kernel.f32 = own->kernel.f64 = do_nothing;
    own->operation.host = path ? NULL : refuse_host;
    if (!path)
        return true;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL),
         *symbol = library ? dlsym(library, "haul_python_kernel") : NULL;
    if (!symbol) {
        PyErr_Format(PyExc_OSError, "the compiled kernel cannot be loaded: %s", dlerror());
        return false;
    }
    const haul_kernel *made = symbol;
    own->kernel.f16 = made->f16;
    own->kernel.bf16 = made->bf16;
    own->kernel.f32 = made->f32;
    own->kernel.f64 = made->f64;
    return true;
}

/* ---- descriptors ---- */

/* Adds operands or results, ((name, type), ...), and their buffers; the texts stay with the tuple. False: raised. */
static bool add_buffers(own_kernel *own, PyObject *pairs, bool is_result, bool saved)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(pairs); i++) {
        haul_kernel_buffer *buffer = &own->kernel.buffers[own->kernel.buffer_count++];
        if (!PyArg_ParseTuple(PyTuple_GetItem(pairs, i), "ss", &buffer->name, &buffer->type))
            return false;
        if (is_result)
            own->operation.results[i] = (haul_custom_result){.name = buffer->name, .saved = saved};
        else
            own->operation.operands[i] = (haul_custom_operand){.name = buffer->name, .saved = saved};
        if (!is_result && !is_element(buffer->type)) {
            const haul_dtype dtype = dtype_of(&(haul_custom_call){.operand_count = 0},
                                              &(own_kernel){.kernel.buffers[0].type = buffer->type + 6}, 0);
            own->operation.operands[i].dtypes =
                HAUL_DTYPE_BIT(dtype) | (dtype == HAUL_U8 ? HAUL_DTYPE_BIT(HAUL_BOOL) : 0);
        }
    }
    return true;
}

/* _kernel_new(name, name of the kernel, text, path or None, ((result, type), ...), ((operand, "const type"), ...),
 * gradient, shapes, launch, count of numbers, flops): a capsule for _custom_apply. Python has checked types and names.
 */
static PyObject *kernel_new(PyObject *unused, PyObject *args)
{
    (void)unused;
    const char *name, *symbol, *text, *path;
    PyObject   *results, *operands, *gradient, *shapes, *launched, *capsule, *parts = NULL, *made = NULL;
    int         numbers;
    double      flops;
    if (!PyArg_ParseTuple(args, "ssszO!O!OOOid", &name, &symbol, &text, &path, &PyTuple_Type, &results, &PyTuple_Type,
                          &operands, &gradient, &shapes, &launched, &numbers, &flops))
        return NULL;
    if (PyTuple_Size(results) > HAUL_CUSTOM_RESULTS || PyTuple_Size(operands) > HAUL_CUSTOM_OPERANDS ||
        PyTuple_Size(results) + PyTuple_Size(operands) > HAUL_KERNEL_BUFFERS) {
        PyErr_Format(PyExc_ValueError, "%s: up to %d results, and %d operands and results in all, are possible", name,
                     HAUL_CUSTOM_RESULTS, HAUL_KERNEL_BUFFERS);
        return NULL;
    }
    own_kernel *own = PyMem_Calloc(1, sizeof *own);
    if (!own)
        return PyErr_NoMemory();
    haul_custom_operation *o = &own->operation;
    own->kernel = (haul_kernel){.name = symbol, .file = name, .line = 1, .text = text};
    *o = (haul_custom_operation){
        .name = name, .kernel = &own->kernel, .infer = infer, .numbers = numbers, .flops = flops};
    o->launch = launched == Py_None ? NULL : launch;
    o->gradient = gradient == Py_None ? NULL : haulpy_custom_gradient;
    const bool saved = gradient != Py_None;
    if (add_buffers(own, results, true, saved) && add_buffers(own, operands, false, saved) &&
        take_functions(own, path) && (capsule = PyCapsule_New(o, "haul.custom", NULL))) {
        parts = Py_BuildValue("(OOOOiOO)", Py_None, gradient, shapes, launched, numbers, capsule, args);
        made = parts ? haulpy_custom_add(o, parts) : NULL;
        Py_DECREF(capsule);
    }
    Py_XDECREF(parts);
    if (!made)
        PyMem_Free(own);
    return made;
}

PyMethodDef haulpy_kernel_functions[] = {{"_kernel_new", kernel_new, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
