/* The functions of the library, as python/generate found them in the public headers. */
#include "call.h"

#define HAND_WRITTEN_METHODS                                                                                           \
    {"item", haulpy_item, METH_NOARGS, "item($self)\n--\n\nThe value of the only element. Waits for the device."},     \
        {"tolist", haulpy_to_list, METH_NOARGS,                                                                        \
         "tolist($self)\n--\n\nThe elements as nested lists of numbers. Waits for the device."},                       \
        {"numpy", (PyCFunction)(void (*)(void))haulpy_numpy, METH_VARARGS | METH_KEYWORDS,                             \
         "numpy($self)\n--\n\nAn array of NumPy over the same memory."},                                               \
        {"__array__", (PyCFunction)(void (*)(void))haulpy_numpy, METH_VARARGS | METH_KEYWORDS,                         \
         "Why NumPy cannot have the memory; else an array over it."},                                                  \
        {"__dlpack__", (PyCFunction)(void (*)(void))haulpy_dlpack, METH_VARARGS | METH_KEYWORDS,                       \
         "A capsule of DLPack that shares the memory."},                                                               \
        {"__dlpack_device__", haulpy_dlpack_device, METH_NOARGS, "The device by DLPack's numbers."},                   \
        {"add_hook", (PyCFunction)(void (*)(void))haulpy_add_hook, METH_VARARGS | METH_KEYWORDS,                       \
         "add_hook($self, gradient=None, accumulated=None)\n--\n\nCall gradient(g) with the gradient of the Array in " \
         "a backward pass, which goes on with what it\nreturns (None: as it is), and accumulated(x) when a leaf has "  \
         "its .grad. Returns a number for remove_hook."},                                                              \
        {"__complex__", haulpy_complex, METH_NOARGS, "The only element as a complex number."},                         \
        {"to_device", (PyCFunction)(void (*)(void))haulpy_to_device, METH_VARARGS | METH_KEYWORDS,                     \
         "to_device($self, device, /, *, stream=None)\n--\n\nThe Array on this device, as the array API standard "     \
         "names it."},                                                                                                 \
        {"__array_namespace__", (PyCFunction)(void (*)(void))haulpy_array_namespace, METH_VARARGS | METH_KEYWORDS,     \
         "__array_namespace__($self, /, *, api_version=None)\n--\n\nhaul.array_api, the names of the array API "       \
         "standard."},

#include "functions.inc"

PyMethodDef *haulpy_methods_of(object_kind kind);
PyMethodDef *haulpy_methods_of(object_kind kind)
{
    switch (kind) {
#define X(NAME, name, class)                                                                                           \
    case KIND_##NAME: return methods_of_##name;
        OBJECT_KINDS(X)
#undef X
    default: return methods_of_module;
    }
}

PyMethodDef *haulpy_array_methods(void);
PyMethodDef *haulpy_array_methods(void)
{
    return methods_of_array;
}

PyMethodDef *haulpy_functions(void);
PyMethodDef *haulpy_functions(void)
{
    return generated_functions;
}

const call_function *haulpy_operator(int index);
const call_function *haulpy_operator(int index)
{
    static const call_function *const operators[] = {
        &function_add,         &function_sub,        &function_mul,         &function_div,         &function_floor_div,
        &function_remainder,   &function_pow,        &function_matmul,      &function_bitwise_and, &function_bitwise_or,
        &function_bitwise_xor, &function_left_shift, &function_right_shift, &function_neg,         &function_abs,
        &function_bitwise_not, &function_rsub,       &function_rdiv,        &function_rfloor_div,  &function_rremainder,
        &function_rpow,        &function_lt,         &function_le,          &function_eq,          &function_ne,
        &function_gt,          &function_ge};
    return operators[index];
}
