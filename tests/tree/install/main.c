/* What a user's first program may look like: it is built outside the tree, against an installed library. */
#include <haul/haul.h>
#include <haul/kernel.h>
#include <stdio.h>
#include <string.h>

/* An operation of the program's own, with a kernel. */
HAUL_KERNEL2(twice_kernel, T, y, const T, x, { FOR_ITEMS(i) STORE(y, i, LOAD(x, i) + LOAD(x, i)); });

static haul_custom_operation twice = {
    .name = "twice", .operands = {{"x"}}, .results = {{"y"}}, .kernel = &twice_kernel};

int main(void)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(3), (float[]){1, 2, 3});
    haul_tensor *sum = haul_sum(haul_mul(x, x));
    double       value = haul_item(haul_apply(&twice, NULL, sum));
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    printf("%g\n", value);
    haul_scope_pop(scope);
    return value == 28 && !strcmp(haul_version(), HAUL_VERSION_STRING) ? 0 : 1;
}
