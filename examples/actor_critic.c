/* An actor and a critic that learn to balance poles on carts, all of which are on the device. The actor gives the
 * probabilities of pushing to the left and to the right, the critic the discounted time for which the pole will stand.
 *
 *     actor_critic [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

enum { CARTS = 64, STEPS = 20, UPDATES = 200 };
#define DISCOUNT 0.97

/* Place and speed of the cart, angle and angular velocity of the pole: [CARTS, 4]. */
static haul_tensor *begin(void)
{
    return haul_uniform(HAUL_F32, HAUL_SHAPE(CARTS, 4), -0.05, 0.05);
}

/* The dynamics of Barto, Sutton and Anderson (1983) for 0.02 s, of all carts. A pole that falls starts anew. */
static haul_tensor *move(haul_tensor *state, haul_tensor *right, haul_tensor **fell)
{
    haul_tensor *v = haul_select(state, 1, 1), *angle = haul_select(state, 1, 2), *spin = haul_select(state, 1, 3);
    haul_tensor *sin = haul_sin(angle), *cos = haul_cos(angle), *swing = haul_mul(haul_square(spin), sin);
    haul_tensor *force = haul_add_scalar(haul_mul_scalar(haul_cast(right, HAUL_F32), 20), -10);
    haul_tensor *push = haul_div_scalar(haul_add(force, haul_mul_scalar(swing, 0.05)), 1.1);
    haul_tensor *torque = haul_sub(haul_mul_scalar(sin, 9.8), haul_mul(cos, push));
    haul_tensor *inertia = haul_rsub(haul_mul_scalar(haul_square(cos), 0.05 / 1.1), 0.5 * 4 / 3);
    haul_tensor *turn = haul_div(torque, inertia);
    haul_tensor *drive = haul_sub(push, haul_mul_scalar(haul_mul(turn, cos), 0.05 / 1.1));
    haul_tensor *change = haul_stack((haul_tensor *[]){v, drive, spin, turn}, 4, 1);
    haul_tensor *next = haul_add(state, haul_mul_scalar(change, 0.02));
    haul_tensor *is_away = haul_gt_scalar(haul_abs(haul_select(next, 1, 0)), 2.4);
    haul_tensor *falls = haul_logical_or(is_away, haul_gt_scalar(haul_abs(haul_select(next, 1, 2)), 0.2095));
    *fell = haul_cast(falls, HAUL_F32);
    return haul_where(haul_unsqueeze(falls, 1), begin(), next);
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    haul_manual_seed(1);
    haul_module    *actor = HAUL_SEQUENTIAL(haul_nn_linear(4, 32), haul_nn_tanh(), haul_nn_linear(32, 2));
    haul_module    *critic = HAUL_SEQUENTIAL(haul_nn_linear(4, 32), haul_nn_tanh(), haul_nn_linear(32, 1));
    haul_optimizer *adam = haul_adam(haul_nn_list((haul_module *const[]){actor, critic}, 2), 0.005);
    haul_tensor    *state = haul_keep(begin());
    for (int update = 1; update <= UPDATES && !haul_error_status(); update++) {
        haul_tensor *states[STEPS], *actions[STEPS], *falls[STEPS], *returns[STEPS], *now = state;
        haul_scope  *scope = haul_scope_push();
        haul_budget(.d2h_bytes = 4, .waits = 1); /* the falls */
        haul_set_grad_enabled(false);
        for (int i = 0; i < STEPS; i++) {
            states[i] = now;
            actions[i] = haul_multinomial(haul_softmax(haul_call(actor, now), 1), 1, true);
            now = move(now, haul_squeeze(actions[i], 1), &falls[i]);
        }
        haul_tensor *value = haul_squeeze(haul_call(critic, now), 1);
        for (int i = STEPS - 1; i >= 0; i--) { /* a step that holds the pole up earns 1 */
            value = haul_add_scalar(haul_mul_scalar(value, DISCOUNT), 1);
            returns[i] = value = haul_mul(haul_rsub(falls[i], 1), value);
        }
        haul_set_grad_enabled(true);
        haul_tensor *all = haul_cat(states, STEPS, 0), *earned = haul_cat(returns, STEPS, 0);
        haul_tensor *values = haul_squeeze(haul_call(critic, all), 1),
                    *logits = haul_log_softmax(haul_call(actor, all), 1);
        haul_tensor *chosen = haul_squeeze(haul_gather(logits, 1, haul_cat(actions, STEPS, 0)), 1);
        haul_tensor *gain = haul_mean(haul_mul(chosen, haul_sub(earned, haul_detach(values))));
        haul_optimizer_zero_grad(adam);
        haul_train_step(adam, haul_sub(haul_mse_loss(values, earned), gain));
        if (update == 1 || update == 50 || update == 100 || update == UPDATES)
            printf("update %d: %.2f %% of the steps end in a fall\n", update,
                   100 * haul_item(haul_mean(haul_stack(falls, STEPS, 0))));
        haul_release(state);
        state = haul_keep(now);
        haul_scope_pop(scope);
    }
    haul_release(state);
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
