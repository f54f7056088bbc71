/* For HAUL_CPU_LEVELS=native: exits with the best instruction level of this machine, 0 for base, 1 for v3, 2 for v4. */
#include "../src/backends/cpu/processor.h"

int main(void)
{
    return has_v3() + has_v4();
}
