/* A training that runs as planned: where each operation of a step should run, why, and what it takes. Nothing in the
 * step names a device.
 *
 *     plan [DEVICES]     "cpu,cuda:0"; the default is a simulated GPU */
#include <haul/haul.h>
#include <stdio.h>

enum { BATCH = 64, STEPS = 10 };

typedef struct training {
    haul_module      *net;
    haul_optimizer   *sgd;
    const haul_batch *batch;
    haul_tensor      *total; /* of the losses */
} training;

static haul_status step(void *context)
{
    training   *t = context;
    haul_scope *scope = haul_scope_push();
    haul_optimizer_zero_grad(t->sgd);
    haul_tensor *loss = haul_cross_entropy(haul_call(t->net, t->batch->x), t->batch->y);
    haul_backward(loss);
    haul_optimizer_step(t->sgd);
    haul_add_into(t->total, t->total, haul_detach(loss));
    haul_scope_pop(scope);
    return haul_error_status();
}

/* A step as planned copies less than a MiB over the link in each direction, and waits for what comes back. */
static haul_status train(haul_loader *loader, training *t)
{
    haul_scope *scope = haul_scope_push();
    haul_budget(.h2d_bytes = STEPS << 20, .d2h_bytes = STEPS << 20, .waits = 3 * STEPS);
    for (; t->batch && !haul_error_status(); t->batch = haul_loader_next(loader))
        step(t);
    haul_scope_pop(scope);
    return haul_error_status();
}

static void show(haul_plan *plan)
{
    haul_plan_candidate c[3];
    haul_plan_row       row;
    for (int i = 0; i < haul_plan_candidates(plan, c, 3) && i < 3; i++)
        printf("%-22s %7.2f ms a step, %7lld bytes over the link, %9lld on the GPU\n", c[i].name, c[i].step_ms,
               (long long)c[i].copied_bytes, (long long)c[i].peak_bytes[1]);
    if (haul_plan_rows(plan, &row, 1) > 0)
        printf("%s of %s runs on %s: %s\n", row.operation, row.module, row.device, row.why);
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_manual_seed(1);
    training     t = {.net = haul_model_new("simplecnn"), .total = haul_scalar(0)};
    haul_loader *loader = haul_loader_new(haul_shapes(STEPS * BATCH, .seed = 1), .batch = BATCH, .workers = 1);
    char         why[400];
    t.sgd = haul_sgd(t.net, 0.01, .momentum = 0.9);
    haul_loader_start(loader, 1);
    t.batch = haul_loader_next(loader);

    haul_plan *plan = haul_plan_new(step, &t, .module = t.net, .devices = argc > 1 ? argv[1] : "cpu,sim:laptop-4g");
    show(plan);
    haul_plan_save(plan, "plan.json"); /* haul plan --verify plan.json checks it */
    if (!haul_plan_apply(plan, t.net) && !train(loader, &t)) {
        printf("mean loss %.3f\n", haul_item(t.total) / STEPS);
        if (haul_place_explain(haul_module_parameter(t.net, "conv1.weight"), why, sizeof why) > 0)
            printf("%s\n", why);
    }
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
