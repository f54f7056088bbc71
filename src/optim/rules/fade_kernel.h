/* Part of the kernel text of optimizers that keep a mean of gradients. */
#ifndef HAUL_OPTIM_RULES_FADE_KERNEL_H
#define HAUL_OPTIM_RULES_FADE_KERNEL_H
#ifdef HAUL_KERNEL
#if IS_FLOAT
// clang-format off
/* A mean of gradients, which fades where they are zero, for example in units that are never active. It would end as
 * a subnormal number, because roundings keep it from zero, and processors take a hundred times as long for these. So
 * less than the smallest normal number is zero. */
FUNC A fading_mean(A x)
{
#if defined(HAUL_KERNEL_DTYPE_f64)
    const A least = 2.2250738585072014e-308;
#else
    const A least = 1.17549435e-38f;
#endif
    return x < least && x > -least ? 0 : x;
}
// clang-format on
#endif
#endif
#endif
