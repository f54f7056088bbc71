/* What a user's first program may look like: it is built outside the tree, against an installed library. */
#include <haul/haul.h>
#include <stdio.h>

int main(void)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(3), (float[]){1, 2, 3});
    haul_tensor *sum = haul_sum(haul_mul(x, x));
    double       value = haul_item(sum);

    if (haul_error_status() != HAUL_OK)
        fprintf(stderr, "%s\n", haul_error_message());
    printf("%g\n", value);
    haul_scope_pop(scope);
    return value == 14 ? 0 : 1;
}
