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
    haul_tensor *means = haul_mean(x, HAUL_AXES(0));
    /* Both are printed, and the means saved, too. haul_print reads a large tensor by its corners, up to 2^8 of them. */
    haul_budget(.d2h_bytes = (int64_t)(haul_tensor_bytes(x) + 2 * haul_tensor_bytes(means)),
                .waits = 2 << HAUL_MAX_DIMS);
    haul_print(x);
    haul_print(means);
    haul_save_npy("means.npy", means);

    haul_scope_pop(scope);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
