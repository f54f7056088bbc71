/* The module haul._haul. */
#include "core.h"

extern PyMethodDef *haulpy_functions(void);

static PyMethodDef functions[] = {{"array", (PyCFunction)(void (*)(void))haulpy_new_array, METH_VARARGS | METH_KEYWORDS,
                                   "array(data, dtype=None, device=None)\n--\n\nAn Array with a copy of data: a "
                                   "number, nested lists, a buffer, or an array "
                                   "of another library.\nThe dtype of Python's numbers is bool, i64 or f32."},
                                  {"from_dlpack", (PyCFunction)(void (*)(void))haulpy_from_dlpack,
                                   METH_VARARGS | METH_KEYWORDS,
                                   "from_dlpack(x, device=None, copy=None)\n--\n\nAn Array over the memory of another "
                                   "library's array, without a copy."},
                                  {NULL, NULL, 0, NULL}};

PyMODINIT_FUNC PyInit__haul(void);
PyMODINIT_FUNC PyInit__haul(void)
{
    static PyModuleDef definition = {
        PyModuleDef_HEAD_INIT, "haul._haul", "Haul's functions and types.", -1, functions, NULL, NULL, NULL, NULL};
    PyObject *module = !haulpy_is_main_interpreter() ? NULL : PyModule_Create(&definition);
    if (!module || PyModule_AddFunctions(module, haulpy_functions()) ||
        PyModule_AddFunctions(module, haulpy_program_functions) ||
        PyModule_AddFunctions(module, haulpy_step_functions) || PyModule_AddFunctions(module, haulpy_hook_functions) ||
        PyModule_AddFunctions(module, haulpy_source_functions) ||
        PyModule_AddFunctions(module, haulpy_kernel_functions) ||
        PyModule_AddFunctions(module, haulpy_watch_functions) || !haulpy_add_array_type(module) ||
        !haulpy_add_object_types(module)) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
