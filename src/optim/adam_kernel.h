/* The arguments of the kernels of Adam and AMSGrad. It is part of the kernel text of adam.c and amsgrad.c. */
#ifndef HAUL_OPTIM_ADAM_KERNEL_H
#define HAUL_OPTIM_ADAM_KERNEL_H

// clang-format off
/* Scalars are bits of type A. decay is added to the gradient, shrink is what the parameter is multiplied by. */
typedef struct adam_params {
    I64 items;
    I64 p_at, m_at, v_at, n_at, g_at; /* n: of AMSGrad */
    I64 found_at, made_at; /* of the guarded forms */
    U64 step_size, beta1, beta2, rest1, rest2, correction, eps, decay, shrink;
    U64 lr, log_beta1, log_beta2; /* of the guarded forms, from which they have step_size and correction */
    I32 from, reserved;
} adam_params;
// clang-format on

#endif
