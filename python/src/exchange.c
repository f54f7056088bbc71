/* Memory that is shared with other libraries: DLPack's capsules, and buffers. */
#include <stdlib.h>

#include "core.h"

/* The structs of DLPack 1.0 (https://dmlc.github.io/dlpack/latest/c_api.html). */
typedef struct dl_tensor {
    void    *data;
    int32_t  device_type, device_id;
    int32_t  ndim;
    uint8_t  code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;
struct DLManagedTensor {
    dl_tensor tensor;
    void     *context;
    void (*deleter)(struct DLManagedTensor *self);
};
struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void    *context;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t  flags;
    dl_tensor tensor;
};
enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_OPENCL = 4 }; /* devices */
enum { DL_READ_ONLY = 1, DL_IS_COPIED = 2 };

#define NEW_NAME "dltensor_versioned"
#define OLD_NAME "dltensor"

static haul_tensor *of(PyObject *self)
{
    return ((array_object *)self)->tensor;
}

/* What cannot be exported is a BufferError, as the array API standard wants it. */
static PyObject *refuse(void)
{
    PyObject *text = haulpy_text(haul_error_message());
    if (text)
        PyErr_SetObject(PyExc_BufferError, text);
    Py_XDECREF(text);
    return NULL;
}

/* A capsule that nobody took over ends the export. */
static void end_new(PyObject *capsule)
{
    struct DLManagedTensorVersioned *t =
        PyCapsule_IsValid(capsule, NEW_NAME) ? PyCapsule_GetPointer(capsule, NEW_NAME) : NULL;
    if (t && t->deleter)
        t->deleter(t);
}

static void end_old(PyObject *capsule)
{
    struct DLManagedTensor *t = PyCapsule_IsValid(capsule, OLD_NAME) ? PyCapsule_GetPointer(capsule, OLD_NAME) : NULL;
    if (t && t->deleter)
        t->deleter(t);
}

static bool pair_of(PyObject *value, const char *what, long *first, long *second)
{
    if (PyTuple_Check(value))
        return PyArg_ParseTuple(value, "ll", first, second) != 0;
    PyErr_Format(PyExc_TypeError, "%s: a tuple of two whole numbers is expected, not %R", what,
                 (PyObject *)Py_TYPE(value));
    return false;
}

/* A device by DLPack's numbers, which has them for CUDA and OpenCL, but not for devices that are simulated or have no
 * memory: 0. */
static int kind_of(const haul_device *device, int *id)
{
    const char *name = haul_device_name(device), *colon = strchr(name, ':');
    *id = colon ? atoi(colon + 1) : 0;
    return !strcmp(name, "cpu")           ? DL_CPU
           : !strncmp(name, "cuda:", 5)   ? DL_CUDA
           : !strncmp(name, "opencl:", 7) ? DL_OPENCL
                                          : 0;
}

/* The tensor to export: x, a copy of it, or a copy on the CPU. NULL: raised. */
static haul_tensor *exported(PyObject *self, PyObject *device, PyObject *copy, bool *copied)
{
    haul_tensor *x = of(self), *t = x;
    int          own_id, own = kind_of(haul_tensor_device(x), &own_id);
    long         type = own, id = own_id;
    if (device != Py_None && !pair_of(device, "dl_device", &type, &id))
        return NULL;
    const bool stays = type == own && id == own_id, is_shared = own == DL_CPU || own == DL_CUDA;
    int        wanted = copy == Py_None ? 0 : PyObject_IsTrue(copy);
    if (wanted < 0)
        return NULL;
    if (!stays && (type != DL_CPU || id != 0)) {
        PyErr_Format(PyExc_BufferError,
                     "dl_device: the Array is exported on %s, or as a copy on the CPU, (1, 0), not on (%ld, %ld)",
                     haul_device_name(haul_tensor_device(x)), type, id);
        return NULL;
    }
    haulpy_begin();
    *copied = wanted || !stays;
    if (stays ? !is_shared : copy != Py_None && !wanted) {
        PyErr_Format(PyExc_BufferError,
                     "the Array is on %s, and Haul shares memory of the CPU and of CUDA: x.to(\"cpu\") copies it",
                     haul_device_name(haul_tensor_device(x)));
        return NULL;
    }
    if (haul_requires_grad(x)) {
        PyErr_SetString(PyExc_BufferError,
                        "the Array requires a gradient, which other libraries would not see: x.detach() "
                        "shares its elements without it");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS if (!stays) t = haul_to_with(x, &(haul_to_options){.device = haul_cpu()});
    else if (*copied) t = haul_clone(x);
    Py_END_ALLOW_THREADS if (haul_tensor_is_valid(t)) return t;
    haulpy_array(t, false);
    return NULL;
}

/* Haul waits for the elements, so each stream that there can be finds them. */
static bool check_stream(haul_tensor *x, PyObject *stream)
{
    int id;
    if (stream == Py_None)
        return true;
    if (kind_of(haul_tensor_device(x), &id) != DL_CUDA) { /* a copy from another device is waited for */
        if (haul_tensor_device(x) == haul_cpu())
            PyErr_SetString(PyExc_BufferError, "stream: memory of the CPU has no streams; None is expected");
        return haul_tensor_device(x) != haul_cpu();
    }
    const long long number = PyLong_AsLongLong(stream);
    if (number == -1 && PyErr_Occurred())
        return false;
    if (number >= -1 && number != 0)
        return true;
    PyErr_SetString(PyExc_BufferError, "stream: -1, 1, 2 or a stream's address is expected; 0 could be two streams");
    return false;
}

PyObject *haulpy_dlpack(PyObject *self, PyObject *args, PyObject *names)
{
    static char *keys[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject    *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|O$OOO:__dlpack__", keys, &stream, &version, &device, &copy))
        return NULL;
    if (!check_stream(of(self), stream))
        return NULL;
    long major = 0, minor = 0;
    if (version != Py_None && !pair_of(version, "max_version", &major, &minor))
        return NULL;
    bool         copied = false;
    haul_tensor *t = exported(self, device, copy, &copied);
    if (!t)
        return NULL;
    struct DLManagedTensorVersioned *new = NULL;
    struct DLManagedTensor *old = NULL;
    Py_BEGIN_ALLOW_THREADS /* waits for the elements */
        if (major >= 1) new = haul_to_dlpack(t);
    else old = haul_to_dlpack_legacy(t);
    if (t != of(self))
        haul_drop(t);
    Py_END_ALLOW_THREADS if (!new && !old) return refuse();
    if (new &&copied)
        new->flags |= DL_IS_COPIED;
    PyObject *capsule = new ? PyCapsule_New(new, NEW_NAME, end_new) : PyCapsule_New(old, OLD_NAME, end_old);
    if (!capsule && new)
        new->deleter(new);
    else if (!capsule)
        old->deleter(old);
    return capsule;
}

PyObject *haulpy_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)unused;
    int       id;
    const int type = kind_of(haul_tensor_device(of(self)), &id);
    if (type)
        return Py_BuildValue("(ii)", type, id);
    PyErr_Format(PyExc_BufferError, "the Array is on %s, which DLPack does not know: x.to(\"cpu\") copies it",
                 haul_device_name(haul_tensor_device(of(self))));
    return NULL;
}

/* ---- the memory of others ---- */

/* DLPack's number for the kind of the array's device; pinned memory is the CPU's. -1: raised. */
static long kind_of_foreign(PyObject *x)
{
    long type = DL_CPU, id = 0;
    if (!PyObject_HasAttrString(x, "__dlpack_device__"))
        return DL_CPU;
    PyObject *device = PyObject_CallMethod(x, "__dlpack_device__", NULL);
    if (!device)
        return -1;
    const bool known = pair_of(device, "__dlpack_device__", &type, &id);
    Py_DECREF(device);
    return !known ? -1 : type == DL_CUDA_HOST ? DL_CPU : type;
}

/* The capsule of an array, by the newest form that it has. `to`: a device for which a copy may be made, or NULL. Haul
 * shares memory of CUDA; of an array on another device its library makes a copy on the CPU. haul_from_dlpack waits for
 * the whole device, so the stream only has to be one that the other library knows: the legacy default stream. */
static PyObject *capsule_of(PyObject *x, const haul_device *to)
{
    int        id;
    const long kind = kind_of_foreign(x);
    if (kind < 0)
        return NULL;
    const bool is_brought = to && kind != DL_CPU && (kind != DL_CUDA || kind_of(to, &id) != DL_CUDA);
    PyObject  *method = PyObject_GetAttrString(x, "__dlpack__");
    PyObject  *none = method ? PyTuple_New(0) : NULL, *older = NULL;
    PyObject  *names = !none             ? NULL
                       : is_brought      ? Py_BuildValue("{s(ii)s(ii)}", "max_version", 1, 0, "dl_device", DL_CPU, 0)
                       : kind == DL_CUDA ? Py_BuildValue("{s(ii)si}", "max_version", 1, 0, "stream", 1)
                                         : Py_BuildValue("{s(ii)}", "max_version", 1, 0);
    PyObject  *capsule = names ? PyObject_Call(method, none, names) : NULL;
    if (!capsule && names && PyErr_ExceptionMatches(PyExc_TypeError)) { /* of an older library */
        PyErr_Clear();
        older = kind == DL_CUDA ? Py_BuildValue("{si}", "stream", 1) : NULL;
        capsule = older || !PyErr_Occurred() ? PyObject_Call(method, none, older) : NULL;
    }
    Py_XDECREF(older);
    Py_XDECREF(method);
    Py_XDECREF(none);
    Py_XDECREF(names);
    return capsule;
}

PyObject *haulpy_from_dlpack(PyObject *module, PyObject *args, PyObject *names)
{
    (void)module;
    static char *keys[] = {"x", "device", "copy", NULL};
    PyObject    *x, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, names, "O|$OO:from_dlpack", keys, &x, &device, &copy))
        return NULL;
    int wanted = copy == Py_None ? 0 : PyObject_IsTrue(copy);
    if (wanted < 0)
        return NULL;
    haul_device *to = device == Py_None ? NULL : haulpy_as_device(device);
    if (device != Py_None && !to)
        return NULL;
    PyObject *capsule = PyCapsule_CheckExact(x) ? Py_NewRef(x) : capsule_of(x, wanted || copy == Py_None ? to : NULL);
    if (!capsule)
        return NULL;
    bool        is_new = PyCapsule_IsValid(capsule, NEW_NAME);
    const char *name = is_new ? NEW_NAME : OLD_NAME;
    void       *tensor = PyCapsule_IsValid(capsule, name) ? PyCapsule_GetPointer(capsule, name) : NULL;
    if (!tensor || PyCapsule_SetName(capsule, is_new ? "used_dltensor_versioned" : "used_dltensor")) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a capsule of DLPack that was not used before is expected");
        Py_DECREF(capsule);
        return NULL;
    }
    haulpy_begin();
    haul_tensor *t;
    Py_BEGIN_ALLOW_THREADS /* a deleter of Python takes the GIL */
                         t = is_new ? haul_from_dlpack(tensor) : haul_from_dlpack_legacy(tensor);
    Py_END_ALLOW_THREADS Py_DECREF(capsule);
    PyObject            *made = haulpy_array(t, false);
    if (!made)
        return NULL;
    const bool moves = to && to != haul_tensor_device(of(made));
    if (!wanted && !moves)
        return made;
    PyObject *copied = NULL;
    if (wanted || copy == Py_None)
        copied = haulpy_build(made, HAUL_DTYPE_NONE, to);
    else
        PyErr_Format(PyExc_BufferError, "copy=False: the array is on %s, so an Array on %s is a copy",
                     haul_device_name(haul_tensor_device(of(made))), haul_device_name(to));
    Py_DECREF(made);
    return copied;
}

/* ---- buffers ---- */

static const char *format_of(haul_dtype dtype)
{
    switch (dtype) {
    case HAUL_BOOL: return "?";
    case HAUL_U8: return "B";
    case HAUL_I8: return "b";
    case HAUL_I16: return "h";
    case HAUL_I32: return "i";
    case HAUL_I64: return "q";
    case HAUL_U16: return "H";
    case HAUL_U32: return "I";
    case HAUL_U64: return "Q";
    case HAUL_F16: return "e";
    case HAUL_F32: return "f";
    case HAUL_F64: return "d";
    default: return NULL;
    }
}

/* What a view needs for as long as it lives. */
typedef struct buffer_export {
    struct DLManagedTensorVersioned *tensor;
    Py_ssize_t                       shape[HAUL_MAX_DIMS], strides[HAUL_MAX_DIMS];
} buffer_export;

int haulpy_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    view->obj = NULL;
    bool         copied;
    const char  *format = format_of(haul_tensor_dtype(of(self)));
    haul_tensor *x = exported(self, Py_None, Py_None, &copied);
    if (!x)
        return -1;
    if (haul_tensor_device(x) != haul_cpu()) {
        PyErr_Format(PyExc_BufferError,
                     "the Array is on %s, and buffers are memory of the CPU: x.to(\"cpu\") copies it",
                     haul_device_name(haul_tensor_device(x)));
        return -1;
    }
    if (!format) {
        PyErr_SetString(PyExc_BufferError, "bf16 has no format as a buffer: x.cast(\"f32\") has one");
        return -1;
    }
    buffer_export *e = PyMem_Calloc(1, sizeof *e);
    if (!e) {
        PyErr_NoMemory();
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS e->tensor = haul_to_dlpack(x);
    Py_END_ALLOW_THREADS if (!e->tensor)
    {
        PyMem_Free(e);
        refuse();
        return -1;
    }
    const dl_tensor *t = &e->tensor->tensor;
    Py_ssize_t       size = t->bits / 8, row = size;
    bool             plain = true, writable = !(e->tensor->flags & DL_READ_ONLY);
    for (int i = t->ndim - 1; i >= 0; i--) {
        e->shape[i] = (Py_ssize_t)t->shape[i];
        e->strides[i] = t->strides ? (Py_ssize_t)t->strides[i] * size : row;
        plain = plain && (e->shape[i] == 1 || e->strides[i] == row);
        row *= e->shape[i];
    }
    plain = plain || row == 0;
    const char *wrong = !plain && (flags & PyBUF_STRIDES) != PyBUF_STRIDES
                            ? "the Array is not row-major, and no strides were asked for"
                        : !writable && (flags & PyBUF_WRITABLE) ? "the elements share memory, so they are read-only"
                                                                : NULL;
    static char nothing[16];
    if (wrong) {
        e->tensor->deleter(e->tensor);
        PyMem_Free(e);
        PyErr_SetString(PyExc_BufferError, wrong);
        return -1;
    }
    view->buf = t->data ? (char *)t->data + t->byte_offset : nothing;
    view->len = row;
    view->itemsize = size;
    view->readonly = !writable;
    view->ndim = t->ndim;
    view->format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)format : NULL;
    view->shape = (flags & PyBUF_ND) == PyBUF_ND ? e->shape : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? e->strides : NULL;
    view->suboffsets = NULL;
    view->internal = e;
    view->obj = Py_NewRef(self);
    return 0;
}

void haulpy_release_buffer(PyObject *self, Py_buffer *view)
{
    (void)self;
    buffer_export *e = view->internal;
    e->tensor->deleter(e->tensor);
    PyMem_Free(e);
}

/* NumPy asks here where the buffer was refused, and would else make an array of Arrays: the refusal is repeated. */
PyObject *haulpy_numpy(PyObject *self, PyObject *args, PyObject *names)
{
    (void)args;
    (void)names;
    PyObject *view = PyMemoryView_FromObject(self);
    PyObject *numpy = view ? PyImport_ImportModule("numpy") : NULL;
    PyObject *array = numpy ? PyObject_CallMethod(numpy, "asarray", "(O)", view) : NULL;
    Py_XDECREF(numpy);
    Py_XDECREF(view);
    return array;
}
