/* Loads an array from a .npy file onto a device, and saves a result to another file.
 *
 *     from_npy [FILE.npy [DEVICE]]      without FILE.npy, the program writes one first */
#include <haul/haul.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    haul_scope *scope = haul_scope_push();
    const char *path = argc > 1 ? argv[1] : "example.npy";
    if (argc < 2)
        haul_save_npy(path, haul_reshape(haul_arange(HAUL_F32, 0, 6, 1), HAUL_SHAPE(2, 3)));

    haul_set_device(haul_device_get(argc > 2 ? argv[2] : "auto"));
    haul_tensor *x = haul_load_npy(path); /* on the current device */
    /* From here on, x and twice the means, which are not larger, come back. haul_print reads large tensors by their
     * corners. */
    haul_budget(.d2h_bytes = 3 * (int64_t)haul_tensor_bytes(x), .waits = 2 << HAUL_MAX_DIMS);
    haul_tensor *means = haul_mean(x, HAUL_AXES(0));
    haul_print(x);
    haul_print(means);
    haul_save_npy("means.npy", means);

    haul_scope_pop(scope);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
