/* Loads weights into a network that they fit only in part: a trained encoder under a new head.
 *
 *     load_weights      writes the file first */
#include <haul/haul.h>
#include <stdio.h>

int main(void)
{
    haul_scope *scope = haul_scope_push();
    haul_budget(.waits = 0); /* all is on the CPU, so nothing crosses a link */
    haul_module *encoder = HAUL_SEQUENTIAL(haul_nn_linear(8, 4), haul_nn_relu());
    haul_module *old = HAUL_SEQUENTIAL(encoder, haul_nn_linear(4, 10)); /* 0.0.weight, 0.0.bias, 1.weight, 1.bias */
    haul_save_weights("old.safetensors", old);

    /* The selected part of the file has no head, so the head keeps its initial values. */
    haul_module        *fresh = HAUL_SEQUENTIAL(haul_nn_linear(8, 4), haul_nn_relu(), haul_nn_linear(4, 2));
    haul_weights_report report;
    haul_load_weights("old.safetensors", fresh, .prefix = "0.", .partial = true, .report = &report);
    for (int i = 0; i < report.missing_count; i++)
        printf("not in the file: %s\n", report.missing[i]);

    /* The whole network, mapped: the weights are used in the file, without a copy. */
    haul_load_weights("old.safetensors", old, .map = true, .report = &report);
    printf("%d of %d tensors are mapped\n", report.mapped, report.loaded);

    haul_scope_pop(scope);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
