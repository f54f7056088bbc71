/* haul.Array: properties, operators and text. */
#include "call.h"

PyTypeObject *array_type;

extern PyMethodDef         *haulpy_array_methods(void);
extern const call_function *haulpy_operator(int index);

/* The operators, in the order of haulpy_operator. */
enum {
    ADD,
    SUB,
    MUL,
    DIV,
    FLOOR_DIV,
    REMAINDER,
    POW,
    MATMUL,
    AND,
    OR,
    XOR,
    LEFT_SHIFT,
    RIGHT_SHIFT,
    NEG,
    ABS,
    NOT,
    RSUB,
    RDIV,
    RFLOOR_DIV,
    RREMAINDER,
    RPOW,
    LT,
    LE,
    EQ,
    NE,
    GT,
    GE,
    NONE
};

bool haulpy_is_array(PyObject *value)
{
    return PyObject_TypeCheck(value, array_type);
}

haul_tensor *haulpy_tensor(PyObject *value, const char *what)
{
    if (haulpy_is_array(value))
        return ((array_object *)value)->tensor;
    PyErr_Format(PyExc_TypeError, "%s: a haul.Array is expected, not %R; haul.array(...) makes one", what,
                 (PyObject *)Py_TYPE(value));
    return NULL;
}

PyObject *haulpy_array(haul_tensor *tensor, bool borrowed)
{
    if (!haul_tensor_is_valid(tensor)) {
        if (tensor == HAUL_NONE && !haul_error_status())
            Py_RETURN_NONE;
        haulpy_raise();
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        if (tensor && tensor != HAUL_NONE)
            haul_drop(tensor); /* a failed tensor belongs to the scope, too */
        haul_error_clear();
        PyErr_Restore(type, value, trace);
        return NULL;
    }
    void *held = borrowed ? NULL : haul_take(tensor);
    if (!held) { /* something else holds it */
        haul_error_clear();
        held = haul_keep(tensor);
    }
    if (!held)
        return haulpy_raise();
    array_object *made = (array_object *)PyType_GenericAlloc(array_type, 0);
    if (!made) {
        haulpy_let_go(held);
        return NULL;
    }
    made->tensor = held;
    return (PyObject *)made;
}

PyObject *haulpy_tuple(haul_tensor *first, haul_tensor **more, int count)
{
    int       begin = first != NULL;
    PyObject *tuple = PyTuple_New(count + begin);
    for (int i = 0; tuple && i < count + begin; i++) {
        PyObject *item = haulpy_array(i < begin ? first : more[i - begin], false);
        if (!item || PyTuple_SetItem(tuple, i, item)) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

static void end(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    haulpy_let_go(((array_object *)self)->tensor);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *names)
{
    (void)type;
    return haulpy_new_array(NULL, args, names);
}

static haul_tensor *of(PyObject *self)
{
    return ((array_object *)self)->tensor;
}

/* ---- operators ---- */

static PyObject *unary(PyObject *x, int operator)
{
    return haulpy_call(haulpy_operator(operator), NULL, &x, 1, NULL);
}

/* A whole number that a double may not hold becomes an Array like the other operand, if that holds integers. So does a
 * bool of Python next to an Array of bools, for & | and ^. NULL: the number is passed as it is, or an exception was
 * raised. */
static PyObject *widened(PyObject *number, PyObject *array, bool logical)
{
    int       overflow;
    long long value;
    if (logical && PyBool_Check(number) && haulpy_is_array(array) && haul_tensor_dtype(of(array)) == HAUL_BOOL)
        return haulpy_build(number, HAUL_BOOL, haul_tensor_device(of(array)));
    if (!PyLong_Check(number) || !haulpy_is_array(array) || !haul_dtype_is_integer(haul_tensor_dtype(of(array))))
        return NULL;
    value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (!overflow && value <= INT64_C(1) << 53 && value >= -(INT64_C(1) << 53))
        return NULL;
    return haulpy_build(number, haul_tensor_dtype(of(array)), haul_tensor_device(of(array)));
}

/* What is neither an Array nor a number is left to the other operand, which may know Arrays. */
static PyObject *binary(PyObject *a, PyObject *b, int operator, int reversed)
{
    PyObject *operands[] = {a, b};
    bool      left = haulpy_is_array(a), right = haulpy_is_array(b);
    bool logical = operator>= AND && operator<= XOR;
    PyObject                        *wide = left ? widened(b, a, logical) : right ? widened(a, b, logical) : NULL;
    if (wide) {
        operands[left ? 1 : 0] = wide;
        PyObject *result = haulpy_call(haulpy_operator(operator), NULL, operands, 2, NULL);
        Py_DECREF(wide);
        return result;
    }
    if (PyErr_Occurred())
        return NULL;
    if (!left && right && haulpy_is_number(a)) {
        operands[0] = b;
        operands[1] = a;
        if (reversed != NONE)
            operator= reversed;
        return haulpy_call(haulpy_operator(operator), NULL, operands, 2, NULL);
    }
    if (!left || (!right && !haulpy_is_number(b)))
        Py_RETURN_NOTIMPLEMENTED;
    return haulpy_call(haulpy_operator(operator), NULL, operands, 2, NULL);
}

#define BINARY(name, operator, reversed)                                                                               \
    static PyObject *name(PyObject *a, PyObject *b)                                                                    \
    {                                                                                                                  \
        return binary(a, b, operator, reversed);                                                                       \
    }
#define UNARY(name, operator)                                                                                          \
    static PyObject *name(PyObject *x)                                                                                 \
    {                                                                                                                  \
        return unary(x, operator);                                                                                     \
    }
BINARY(add, ADD, NONE)
BINARY(subtract, SUB, RSUB)
BINARY(multiply, MUL, NONE)
BINARY(divide, DIV, RDIV)
BINARY(floor_divide, FLOOR_DIV, RFLOOR_DIV)
BINARY(remainder_of, REMAINDER, RREMAINDER)
BINARY(and_of, AND, NONE)
BINARY(or_of, OR, NONE)
BINARY(xor_of, XOR, NONE)
UNARY(negative, NEG)
UNARY(absolute, ABS)
UNARY(not_of, NOT)

/* Of these the form with a number takes it on the right only, so a number becomes an Array like the other operand. */
static PyObject *only_right(PyObject *a, PyObject *b, int operator)
{
    if (haulpy_is_array(a) || !haulpy_is_array(b) || !haulpy_is_number(a))
        return binary(a, b, operator, NONE);
    PyObject *like = haulpy_build(a, haul_tensor_dtype(of(b)), haul_tensor_device(of(b)));
    PyObject *result = like ? binary(like, b, operator, NONE) : NULL;
    Py_XDECREF(like);
    return result;
}

static PyObject *shift_left(PyObject *a, PyObject *b)
{
    return only_right(a, b, LEFT_SHIFT);
}

static PyObject *shift_right(PyObject *a, PyObject *b)
{
    return only_right(a, b, RIGHT_SHIFT);
}

static PyObject *matrix_product(PyObject *a, PyObject *b)
{
    if (!haulpy_is_array(a) || !haulpy_is_array(b))
        Py_RETURN_NOTIMPLEMENTED;
    return binary(a, b, MATMUL, NONE);
}

static PyObject *power(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return binary(a, b, POW, RPOW);
}

static PyObject *positive(PyObject *x)
{
    return Py_NewRef(x);
}

static PyObject *compare(PyObject *a, PyObject *b, int how)
{
    static const int operators[] = {[Py_LT] = LT, [Py_LE] = LE, [Py_EQ] = EQ, [Py_NE] = NE, [Py_GT] = GT, [Py_GE] = GE};
    return binary(a, b, operators[how], NONE);
}

static bool one_element(PyObject *self, const char *what)
{
    if (haul_tensor_count(of(self)) == 1)
        return true;
    PyErr_Format(PyExc_ValueError,
                 "%s of an Array with %lld elements: one element is expected. Use any(), all(), sum() or tolist()",
                 what, (long long)haul_tensor_count(of(self)));
    return false;
}

static int truth(PyObject *self)
{
    PyObject *value = one_element(self, "the truth") ? haulpy_item(self, NULL) : NULL;
    int       result = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return result;
}

static PyObject *as_float(PyObject *self)
{
    PyObject *value = one_element(self, "the number") ? haulpy_item(self, NULL) : NULL;
    PyObject *result = value ? PyNumber_Float(value) : NULL;
    Py_XDECREF(value);
    return result;
}

static PyObject *as_int(PyObject *self)
{
    PyObject *value = one_element(self, "the number") ? haulpy_item(self, NULL) : NULL;
    PyObject *result = value ? PyNumber_Long(value) : NULL;
    Py_XDECREF(value);
    return result;
}

static PyObject *as_index(PyObject *self)
{
    haul_dtype dtype = haul_tensor_dtype(of(self));
    if (!haul_dtype_is_integer(dtype)) {
        PyErr_Format(PyExc_TypeError, "an Array of %s is no index; an integer dtype is expected",
                     haul_dtype_name(dtype));
        return NULL;
    }
    return as_int(self);
}

static Py_hash_t hash(PyObject *self)
{
    return (Py_hash_t)((uintptr_t)self >> 4);
}

/* ---- text ---- */

/* The elements may change between two calls, so a text that is too long for the room is made again. */
static PyObject *represent(PyObject *self)
{
    char   small[1024], *text = small;
    size_t room = sizeof small;
    haulpy_begin();
    for (;;) {
        int                            length;
        Py_BEGIN_ALLOW_THREADS         length = haul_tensor_format(of(self), text, room);
        Py_END_ALLOW_THREADS PyObject *made = NULL;
        bool                           fits = length < 0 || (size_t)length < room;
        while (fits && length > 0 && text[length - 1] == '\n')
            length--;
        if (fits)
            made = length < 0 ? haulpy_raise() : PyUnicode_DecodeUTF8(text, length, "replace");
        if (text != small)
            PyMem_Free(text);
        if (fits)
            return made;
        room = (size_t)length + 257;
        if (!(text = PyMem_Malloc(room)))
            return PyErr_NoMemory();
    }
}

/* ---- properties ---- */

static PyObject *get_shape(PyObject *self, void *unused)
{
    (void)unused;
    return haulpy_shape(haul_tensor_shape(of(self)));
}

static PyObject *get_strides(PyObject *self, void *unused)
{
    (void)unused;
    haul_shape strides = {.ndim = haul_tensor_ndim(of(self))};
    for (int i = 0; i < strides.ndim; i++)
        strides.dims[i] = haul_tensor_stride(of(self), i);
    return haulpy_shape(strides);
}

static PyObject *get_ndim(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(haul_tensor_ndim(of(self)));
}

static PyObject *get_size(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(haul_tensor_count(of(self)));
}

static PyObject *get_bytes(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(haul_tensor_bytes(of(self)));
}

static PyObject *get_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return haulpy_dtype(haul_tensor_dtype(of(self)));
}

static PyObject *get_device(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(haul_device_name(haul_tensor_device(of(self))));
}

static PyObject *get_version(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(haul_tensor_version(of(self)));
}

static PyObject *get_transposed(PyObject *self, void *unused)
{
    (void)unused;
    if (haul_tensor_ndim(of(self)) != 2) {
        PyErr_Format(PyExc_ValueError,
                     "T: a matrix is expected, not %d dimensions; transpose(a, b) or permute(...) name axes",
                     haul_tensor_ndim(of(self)));
        return NULL;
    }
    haulpy_begin();
    return haulpy_array(haul_transpose(of(self), 0, 1), false);
}

static PyObject *get_matrix_transposed(PyObject *self, void *unused)
{
    (void)unused;
    if (haul_tensor_ndim(of(self)) < 2) {
        PyErr_Format(PyExc_ValueError, "mT: at least two dimensions are expected, not %d", haul_tensor_ndim(of(self)));
        return NULL;
    }
    haulpy_begin();
    return haulpy_array(haul_transpose(of(self), -2, -1), false);
}

/* ---- the array API standard ---- */

PyObject *haulpy_complex(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *number = as_float(self);
    double    real = number ? PyFloat_AsDouble(number) : 0;
    Py_XDECREF(number);
    return number ? PyComplex_FromDoubles(real, 0) : NULL;
}

PyObject *haulpy_array_namespace(PyObject *self, PyObject *args, PyObject *names)
{
    (void)self;
    static char *keys[] = {"api_version", NULL};
    const char  *version = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|z:__array_namespace__", keys, &version))
        return NULL;
    if (version && strcmp(version, "2022.12") && strcmp(version, "2023.12") && strcmp(version, "2024.12")) {
        PyErr_Format(PyExc_ValueError, "api_version: \"2024.12\" or one of the two before it is expected, not \"%s\"",
                     version);
        return NULL;
    }
    return PyImport_ImportModule("haul.array_api");
}

PyObject *haulpy_to_device(PyObject *self, PyObject *args, PyObject *names)
{
    static char *keys[] = {"", "stream", NULL};
    PyObject    *device, *stream = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, names, "O|$O:to_device", keys, &device, &stream))
        return NULL;
    if (stream != Py_None) {
        PyErr_SetString(PyExc_ValueError, "stream: None is expected; the library orders its own work");
        return NULL;
    }
    return PyObject_CallMethod(self, "to", "(O)", device);
}

static PyObject *get_requires_grad(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(haul_requires_grad(of(self)));
}

static int set_requires_grad(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    int on = value ? PyObject_IsTrue(value) : -1;
    if (on < 0) {
        if (!value)
            PyErr_SetString(PyExc_AttributeError, "requires_grad cannot be deleted");
        return -1;
    }
    haulpy_begin();
    haul_tensor *same = haul_set_requires_grad(of(self), on > 0);
    if (haul_tensor_is_valid(same))
        return 0;
    haulpy_array(same, true);
    return -1;
}

static PyObject *get_grad(PyObject *self, void *unused)
{
    (void)unused;
    haulpy_begin();
    haul_tensor *grad = haul_tensor_grad(of(self));
    if (grad == HAUL_NONE || (!haul_tensor_is_valid(grad) && !haul_error_status()))
        Py_RETURN_NONE;
    return haulpy_array(grad, true);
}

static int set_grad(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    haul_tensor *grad = !value || value == Py_None ? HAUL_NONE : haulpy_tensor(value, "grad");
    if (!grad)
        return -1;
    haulpy_begin();
    if (!haul_set_grad(of(self), grad))
        return 0;
    haulpy_raise();
    return -1;
}

/* For loops: the elements along the first dimension. */
static PyObject *element(PyObject *self, Py_ssize_t i)
{
    if (haul_tensor_ndim(of(self)) < 1) {
        PyErr_SetString(PyExc_TypeError, "an Array without dimensions has no elements to walk over");
        return NULL;
    }
    if (i < 0 || i >= (Py_ssize_t)haul_tensor_dim(of(self), 0)) {
        PyErr_SetString(PyExc_IndexError, "the index is out of range");
        return NULL;
    }
    haulpy_begin();
    return haulpy_array(haul_select(of(self), 0, i), false);
}

static PyGetSetDef properties[] = {
    {"shape", get_shape, NULL, "The sizes of all dimensions, a tuple.", NULL},
    {"strides", get_strides, NULL, "The stride of each dimension, in elements.", NULL},
    {"ndim", get_ndim, NULL, "The number of dimensions.", NULL},
    {"size", get_size, NULL, "The number of elements.", NULL},
    {"nbytes", get_bytes, NULL, "The number of elements times the size of one.", NULL},
    {"dtype", get_dtype, NULL, "The dtype, for example haul.f32, which is equal to \"f32\".", NULL},
    {"device", get_device, NULL, "The name of the device, for example \"cpu\".", NULL},
    {"version", get_version, NULL, "A counter of changes in place of the memory.", NULL},
    {"T", get_transposed, NULL, "A matrix with its two dimensions exchanged, a view.", NULL},
    {"mT", get_matrix_transposed, NULL, "Matrices with their last two dimensions exchanged, a view.", NULL},
    {"requires_grad", get_requires_grad, set_requires_grad, "Do gradients flow to this Array?", NULL},
    {"grad", get_grad, set_grad, "The gradient that backward() added up, or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

bool haulpy_add_array_type(PyObject *module)
{
    PyType_Slot slots[] = {{Py_tp_dealloc, (void *)end},
                           {Py_tp_new, (void *)make},
                           {Py_tp_repr, (void *)represent},
                           {Py_tp_hash, (void *)hash},
                           {Py_tp_richcompare, (void *)compare},
                           {Py_tp_methods, haulpy_array_methods()},
                           {Py_tp_getset, properties},
                           {Py_tp_doc,
                            "Array(data, dtype=None, device=None)\n--\n\nA tensor of Haul: a copy of data, which "
                            "is a number, nested lists, a buffer or an array of another library."},
                           {Py_nb_add, (void *)add},
                           {Py_nb_subtract, (void *)subtract},
                           {Py_nb_multiply, (void *)multiply},
                           {Py_nb_true_divide, (void *)divide},
                           {Py_nb_floor_divide, (void *)floor_divide},
                           {Py_nb_remainder, (void *)remainder_of},
                           {Py_nb_power, (void *)power},
                           {Py_nb_matrix_multiply, (void *)matrix_product},
                           {Py_nb_and, (void *)and_of},
                           {Py_nb_or, (void *)or_of},
                           {Py_nb_xor, (void *)xor_of},
                           {Py_nb_lshift, (void *)shift_left},
                           {Py_nb_rshift, (void *)shift_right},
                           {Py_nb_negative, (void *)negative},
                           {Py_nb_positive, (void *)positive},
                           {Py_nb_absolute, (void *)absolute},
                           {Py_nb_invert, (void *)not_of},
                           {Py_nb_bool, (void *)truth},
                           {Py_nb_float, (void *)as_float},
                           {Py_nb_int, (void *)as_int},
                           {Py_nb_index, (void *)as_index},
                           {Py_mp_length, (void *)haulpy_length},
                           {Py_mp_subscript, (void *)haulpy_get_item},
                           {Py_mp_ass_subscript, (void *)haulpy_set_item},
                           {Py_sq_item, (void *)element},
                           {Py_bf_getbuffer, (void *)haulpy_get_buffer},
                           {Py_bf_releasebuffer, (void *)haulpy_release_buffer},
                           {0, NULL}};
    PyType_Spec spec = {"haul._haul.Array", sizeof(array_object), 0, Py_TPFLAGS_DEFAULT, slots};
    array_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!array_type)
        return false;
    /* NumPy leaves operators with an Array to it. */
    PyObject *priority = PyFloat_FromDouble(1000);
    bool      fine = priority && !PyObject_SetAttrString((PyObject *)array_type, "__array_priority__", priority) &&
                !PyObject_SetAttrString((PyObject *)array_type, "__array_ufunc__", Py_None);
    Py_XDECREF(priority);
    return fine && !PyModule_AddObjectRef(module, "Array", (PyObject *)array_type);
}
