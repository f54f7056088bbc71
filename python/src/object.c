/* Objects other than tensors: modules, optimizers, datasets and so on. */
#include "core.h"

PyTypeObject *object_types[KINDS];
PyObject     *object_classes[KINDS];

static const char *const kind_names[] = {
#define X(NAME, name, class) #name,
    OBJECT_KINDS(X)
#undef X
};

/* The end of an object may run deleters, which take the GIL, on a thread that the library waits for. */
void haulpy_let_go(void *object)
{
    PyObject *type, *value, *trace;
    if (!object)
        return;
    PyErr_Fetch(&type, &value, &trace);
    Py_BEGIN_ALLOW_THREADS haul_release(object);
    Py_END_ALLOW_THREADS   PyErr_Restore(type, value, trace);
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((haul_object *)self)->needed);
    return 0;
}

static int clear(PyObject *self)
{
    Py_CLEAR(((haul_object *)self)->needed);
    return 0;
}

static void end(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    haulpy_let_go(((haul_object *)self)->object);
    clear(self);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

PyObject *haulpy_object(object_kind kind, void *object, bool borrowed)
{
    if (!object)
        return haulpy_raise();
    void *held = borrowed ? NULL : haul_take(object);
    if (!held) { /* something else holds it */
        haul_error_clear();
        held = haul_keep(object);
    }
    if (!held)
        return haulpy_raise();
    haul_object *made = (haul_object *)PyType_GenericAlloc((PyTypeObject *)object_classes[kind], 0);
    if (!made) {
        haulpy_let_go(held);
        return NULL;
    }
    made->object = held;
    return (PyObject *)made;
}

void *haulpy_handle(PyObject *value, object_kind kind, const char *what)
{
    if (!PyObject_TypeCheck(value, object_types[kind])) {
        PyErr_Format(PyExc_TypeError, "%s: a haul %s is expected, not %R", what, kind_names[kind],
                     (PyObject *)Py_TYPE(value));
        return NULL;
    }
    void *object = ((haul_object *)value)->object;
    if (!object)
        PyErr_Format(PyExc_RuntimeError, "%s: the %s was not made; a class of your own calls super().__init__() first",
                     what, kind_names[kind]);
    return object;
}

/* A class of Python whose objects results of this kind are. */
static PyObject *set_class(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name;
    PyObject *class;
    if (!PyArg_ParseTuple(args, "sO", &name, &class))
        return NULL;
    for (int kind = 0; kind < KINDS; kind++)
        if (!strcmp(name, kind_names[kind]) && PyType_Check(class) &&
            PyType_IsSubtype((PyTypeObject *)class, object_types[kind])) {
            Py_INCREF(class);
            Py_XDECREF(object_classes[kind]);
            object_classes[kind] = class;
            Py_RETURN_NONE;
        }
    PyErr_Format(PyExc_ValueError, "%s is not a kind of object, or the class does not derive from its type", name);
    return NULL;
}

static PyMethodDef object_functions[] = {{"_set_class", set_class, METH_VARARGS, NULL},
                                         {"_set_exceptions", haulpy_set_exceptions, METH_O, NULL},
                                         {"_set_dtypes", haulpy_set_dtypes, METH_O, NULL},
                                         {NULL, NULL, 0, NULL}};

extern PyMethodDef *haulpy_methods_of(object_kind kind);

bool haulpy_add_object_types(PyObject *module)
{
    static const char *const names[] = {
#define X(NAME, name, class) "haul._haul." class,
        OBJECT_KINDS(X)
#undef X
    };
    for (int kind = 0; kind < KINDS; kind++) {
        PyType_Slot slots[] = {{Py_tp_dealloc, (void *)end},
                               {Py_tp_traverse, (void *)traverse},
                               {Py_tp_clear, (void *)clear},
                               {Py_tp_methods, haulpy_methods_of((object_kind)kind)},
                               {0, NULL}};
        PyType_Spec spec = {names[kind], sizeof(haul_object), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
        PyObject   *type = PyType_FromSpec(&spec);
        if (!type || PyModule_AddObjectRef(module, names[kind] + sizeof "haul._haul." - 1, type))
            return false;
        object_types[kind] = (PyTypeObject *)type;
        object_classes[kind] = Py_NewRef(type);
    }
    return !PyModule_AddFunctions(module, object_functions);
}
