"""Options cannot be misread: gcc and clang refuse each wrong line, as C11 and C++20, with the warnings that they give by
default as errors; the right spelling compiles with all warnings. Both hold where the headers are installed among the
system's, in which compilers warn less, so each wrong line is tried with -isystem, too."""
# ctest: labels=once
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

source = os.environ["HAUL_SOURCE"]

TOP = """#include <haul/haul.h>
struct state {
    haul_tensor *x, *w, *b, **all;
    haul_module *net;
    haul_device *device;
    haul_dataset *data;
    haul_optimizer *optimizer;
    haul_profile *profile;
    haul_function *f;
    haul_example_function *change;
    void (*hear)(const haul_event *, void *);
};
"""
FUNCTION = "void line_%d(struct state *s); void line_%d(struct state *s) { (void)s; (void)%s; }\n"

# (wrong, right)
LINES = [
    ("haul_scalar(2, HAUL_F64)", "haul_scalar(2, .dtype = HAUL_F64)"),
    ('haul_group_get("mpi", 10)', 'haul_group_get("mpi", .limit = 10)'),
    ("haul_scalar(2, 0)", "haul_scalar(2)"),
    ("haul_sum(s->x, 1)", "haul_sum(s->x, HAUL_AXES(1))"),
    ("haul_sum(s->x, 0)", "haul_sum(s->x, HAUL_AXES(0))"),
    ("haul_mean(s->x, -1)", "haul_mean(s->x, HAUL_AXES(-1))"),
    ("haul_max(s->x, false)", "haul_max(s->x, .keepdim = false)"),
    ("haul_sum_into(s->w, s->x, 1)", "haul_sum_into(s->w, s->x, HAUL_AXES(1))"),
    ("haul_sum(s->x, .axes = {1})", "haul_sum(s->x, HAUL_AXES(1))"),
    ("haul_sum(s->x, .axes = {1}, .count = 1)", "haul_sum(s->x, HAUL_AXES(0, 2), .keepdim = true)"),
    ("haul_fft(s->x, -1, 8)", "haul_fft(s->x, -1, .n = 8)"),
    ("haul_solve_triangular(s->x, s->b, true)", "haul_solve_triangular(s->x, s->b, .upper = true)"),
    ("haul_pad(s->x, 1)", "haul_pad(s->x, HAUL_PADS(1, 2))"),
    ("haul_pad(s->x, .pads = {1, 2})", "haul_pad(s->x, HAUL_PADS(1, 2, 0, 1), .mode = HAUL_PAD_REFLECT)"),
    ("haul_pad(s->x, .sizes = {1, 2}, 0.5)", "haul_pad(s->x, HAUL_PADS(1, 2), .value = 0.5)"),
    ("haul_flip(s->x, 1)", "haul_flip(s->x, HAUL_AXES(1))"),
    ("haul_var(s->x, 1)", "haul_var(s->x, HAUL_AXES(1))"),
    ("haul_std(s->x, .axes = {1}, 0)", "haul_std(s->x, HAUL_AXES(1), .correction = HAUL_ZERO)"),
    ("haul_norm(s->x, 1)", "haul_norm(s->x, .p = 1)"),
    ("haul_logsumexp(s->x, 1)", "haul_logsumexp(s->x, HAUL_AXES(1), .keepdim = true)"),
    ("haul_max_pool2d(s->x, 3, 2)", "haul_max_pool2d(s->x, 3, .stride = {2, 2})"),
    ("haul_avg_pool2d(s->x, 3, 2)", "haul_avg_pool2d(s->x, 3, .size_w = 2)"),
    ("haul_max_pool1d(s->x, 3, 2)", "haul_max_pool1d(s->x, 3, .stride = 2)"),
    ("haul_avg_pool1d(s->x, 3, 2)", "haul_avg_pool1d(s->x, 3, .padding = 1)"),
    ("haul_grid_sample(s->x, s->x, HAUL_BILINEAR, 1)", "haul_grid_sample(s->x, s->x, HAUL_BILINEAR, .align_corners = true)"),
    ("haul_rotate(s->x, 15, HAUL_BILINEAR)", "haul_rotate(s->x, 15, .mode = HAUL_BILINEAR)"),
    ('haul_save_image("a.png", s->x, 90)', 'haul_save_image("a.png", s->x, .quality = 90)'),
    ("haul_interpolate(s->x, 2)", "haul_interpolate(s->x, .scale = {2, 2}, .mode = HAUL_BICUBIC, .antialias = true)"),
    ("haul_nn_max_pool2d(3, 2)", "haul_nn_max_pool2d(3, .stride = {2, 2})"),
    ("haul_nn_conv2d(3, 6, 5, 1, 2)", "haul_nn_conv2d(3, 6, 5, .stride = {1, 1}, .padding = {2, 2})"),
    ("haul_nn_conv2d(3, 6, 5, 0)", "haul_nn_conv2d(3, 6, 5, .padding = {1, HAUL_ZERO})"),
    ("haul_nn_conv1d(3, 6, 5, 2)", "haul_nn_conv1d(3, 6, 5, .stride = 2, .padding = 2)"),
    ("haul_nn_conv_transpose2d(3, 6, 2, 2)", "haul_nn_conv_transpose2d(3, 6, 2, .stride = {2, 2})"),
    ("haul_nn_conv_transpose1d(3, 6, 2, 2)", "haul_nn_conv_transpose1d(3, 6, 2, .stride = 2)"),
    ("haul_nn_conv3d(3, 6, 2, 2)", "haul_nn_conv3d(3, 6, 2, .same = true)"),
    ("haul_nn_conv_transpose3d(3, 6, 2, 2)", "haul_nn_conv_transpose3d(3, 6, 2, .stride = {2, 2, 2})"),
    ("haul_conv3d(s->x, s->w, s->b)", "haul_conv3d(s->x, s->w, .bias = s->b, .padding = {1, 1, 1})"),
    ("haul_conv_transpose3d(s->x, s->w, 2)", "haul_conv_transpose3d(s->x, s->w, .stride = {2, 2, 2})"),
    ("haul_max_pool3d(s->x, 3, 2)", "haul_max_pool3d(s->x, 3, .stride = {2, 2, 2})"),
    ("haul_nn_upsample(HAUL_NEAREST, 2)", "haul_nn_upsample(HAUL_BILINEAR, .scale = {2, 2})"),
    ("haul_nn_linear(3, 4, false)", "haul_nn_linear(3, 4, .no_bias = true)"),
    ("haul_nn_batch_norm(3, 1e-5)", "haul_nn_batch_norm(3, .eps = 1e-5)"),
    ("haul_attention(s->x, s->w, s->b, true)", "haul_attention(s->x, s->w, s->b, .causal = true)"),
    ("haul_nn_multi_head_attention(8, 2, true)", "haul_nn_multi_head_attention(8, 2, .causal = true)"),
    ("haul_nn_layer_norm(8, 1e-5)", "haul_nn_layer_norm(8, .eps = 1e-5)"),
    ("haul_nn_group_norm(2, 4, 1e-5)", "haul_nn_group_norm(2, 4, .eps = 1e-5)"),
    ("haul_nn_instance_norm(4, true)", "haul_nn_instance_norm(4, .affine = true)"),
    ("haul_nn_lstm(3, 4, 2)", "haul_nn_lstm(3, 4, .layers = 2)"),
    ("haul_nn_lstm_cell(3, 4, true)", "haul_nn_lstm_cell(3, 4, .no_bias = true)"),
    ("haul_nn_rnn(3, 4, 2)", "haul_nn_rnn(3, 4, .relu = true)"),
    ("haul_nn_gru(3, 4, true)", "haul_nn_gru(3, 4, .bidirectional = true)"),
    ("haul_linear(s->x, s->w, s->b)", "haul_linear(s->x, s->w, .bias = s->b, .relu = true)"),
    ("haul_linear(s->x, s->w, HAUL_NONE, .relu = true)", "haul_linear(s->x, s->w, .relu = true)"),
    ("haul_conv2d(s->x, s->w, s->b)", "haul_conv2d(s->x, s->w, .bias = s->b, .stride = {2, 2})"),
    ("haul_conv2d(s->x, s->w, HAUL_NONE)", "haul_conv2d(s->x, s->w)"),
    ("haul_conv2d(s->x, s->w, {2, 2})", "haul_conv2d(s->x, s->w, .padding = {2, 2}, .groups = 2)"),
    ("haul_conv1d(s->x, s->w, s->b)", "haul_conv1d(s->x, s->w, .bias = s->b, .stride = 2, .padding = 1)"),
    ("haul_conv_transpose2d(s->x, s->w, 2)", "haul_conv_transpose2d(s->x, s->w, .bias = s->b, .stride = {2, 2})"),
    ("haul_conv_transpose1d(s->x, s->w, s->b)", "haul_conv_transpose1d(s->x, s->w, .stride = 2)"),
    ("haul_batch_norm(s->x, s->w)", "haul_batch_norm(s->x, .weight = s->w, .bias = s->b)"),
    ("haul_group_norm(s->x, 2, s->w)", "haul_group_norm(s->x, 2, .weight = s->w, .bias = s->b)"),
    ("haul_instance_norm(s->x, s->w)", "haul_instance_norm(s->x, .weight = s->w, .eps = 1e-6)"),
    ("haul_normalize(s->x, 1, 3)", "haul_normalize(s->x, 1, .p = 3)"),
    ("haul_cosine_similarity(s->x, s->w, 1, 1e-6)", "haul_cosine_similarity(s->x, s->w, 1, .eps = 1e-6)"),
    ("haul_cdist(s->x, s->w, 1)", "haul_cdist(s->x, s->w, .p = 1)"),
    ("haul_rms_norm(s->x, s->w)", "haul_rms_norm(s->x, .weight = s->w, .eps = 1e-6)"),
    ("haul_nn_rms_norm(8, true)", "haul_nn_rms_norm(8, .no_weight = true)"),
    ("haul_layer_norm(s->x, s->w)", "haul_layer_norm(s->x, .weight = s->w, .bias = s->b)"),
    ("haul_layer_norm(s->x, HAUL_NONE, .eps = 1)", "haul_layer_norm(s->x, .eps = 1)"),
    ("haul_nn_embedding(9, 4, 0)", "haul_nn_embedding(9, 4, .padding_idx = HAUL_ZERO)"),
    ("haul_embedding(s->w, s->x, 0)", "haul_embedding(s->w, s->x, .padding_idx = HAUL_ZERO)"),
    ("haul_cross_entropy(s->x, s->b, s->w)", "haul_cross_entropy(s->x, s->b, .weight = s->w, .ignore_index = HAUL_ZERO)"),
    ("haul_nll_loss(s->x, s->b, HAUL_REDUCE_SUM)", "haul_nll_loss(s->x, s->b, .reduction = HAUL_REDUCE_SUM)"),
    ("haul_mse_loss(s->x, s->b, HAUL_REDUCE_SUM)", "haul_mse_loss(s->x, s->b, .reduction = HAUL_REDUCE_SUM)"),
    ("haul_smooth_l1_loss(s->x, s->b, 0.5)", "haul_smooth_l1_loss(s->x, s->b, .beta = 0.5)"),
    ("haul_huber_loss(s->x, s->b, 0.5)", "haul_huber_loss(s->x, s->b, .delta = 0.5)"),
    ("haul_triplet_margin_loss(s->x, s->w, s->b, 2)", "haul_triplet_margin_loss(s->x, s->w, s->b, .margin = 2)"),
    ("haul_cosine_embedding_loss(s->x, s->w, s->b, 1)", "haul_cosine_embedding_loss(s->x, s->w, s->b, .margin = 1)"),
    ("haul_hinge_embedding_loss(s->x, s->b, 2)", "haul_hinge_embedding_loss(s->x, s->b, .margin = 2)"),
    ("haul_margin_ranking_loss(s->x, s->w, s->b, 1)", "haul_margin_ranking_loss(s->x, s->w, s->b, .margin = 1)"),
    ("haul_ctc_loss(s->x, s->b, 2)", "haul_ctc_loss(s->x, s->b, .blank = 2)"),
    ("haul_multi_margin_loss(s->x, s->b, 2)", "haul_multi_margin_loss(s->x, s->b, .p = 2, .weight = s->w)"),
    ("haul_poisson_nll_loss(s->x, s->b, true)", "haul_poisson_nll_loss(s->x, s->b, .no_log = true)"),
    ("haul_gaussian_nll_loss(s->x, s->b, s->w, true)", "haul_gaussian_nll_loss(s->x, s->b, s->w, .full = true)"),
    ("haul_kl_div(s->x, s->b, true)", "haul_kl_div(s->x, s->b, .log_target = true)"),
    ("haul_bce_with_logits(s->x, s->b, s->w)", "haul_bce_with_logits(s->x, s->b, .weight = s->w)"),
    ("haul_to(s->x, s->device, HAUL_F32)", "haul_to(s->x, s->device, .dtype = HAUL_F32)"),
    ("haul_backward(s->x, HAUL_NONE)", "haul_backward(s->x)"),
    ("haul_relu_backward(s->x, s->w)", "haul_relu(s->x)"),
    ("haul_leaky_relu(s->x, 0.01, 0)", "haul_leaky_relu(s->x, 0.01)"),
    ("haul_backward(s->x, s->w)", "haul_backward(s->x, .seed = s->w, .keep = true)"),
    ("haul_grad(s->x, s->all, 1, s->all, s->w)", "haul_grad(s->x, s->all, 1, s->all, .seed = s->w)"),
    ("haul_grad_check(s->f, s->all, 1, NULL, 1e-6)", "haul_grad_check(s->f, s->all, 1, NULL, .step = 1e-6)"),
    ("haul_checkpoint(s->f, s->all, 1, NULL, NULL)", "haul_checkpoint(s->f, s->all, 1, NULL, .release = NULL)"),
    ("haul_grad_check(s->f, s->all, 1, NULL, .atol = 0)",
     "haul_grad_check(s->f, s->all, 1, NULL, .tolerance = {HAUL_ZERO, 1e-3})"),
    ("haul_call(s->net, s->x, s->w, s->x, s->w, s->x, s->w, s->x, s->w, s->b)", "haul_call(s->net, s->x, s->w)"),
    ("haul_call(s->net, s->net)", "haul_call(s->net, s->x)"),
    ("haul_call_child(s->net, s->x)", "haul_call_child(s->net, \"fc\", s->x)"),
    ("haul_module_new(\"m\", NULL, \"x\")", "haul_module_new(\"m\", NULL, .inputs = \"x, mask?\")"),
    ("haul_module_add_hook(s->net, NULL)", "haul_module_add_hook(s->net, .before = NULL)"),
    ("haul_sgd(s->net)", "haul_sgd(s->net, 0.01)"),
    ("haul_sgd(s->net, .lr = 0)", "haul_sgd(s->net, 0)"),
    ("haul_sgd(s->net, .momentum = 0.9)", "haul_sgd(s->net, 0.01, .momentum = 0.9)"),
    ("haul_sgd(s->net, 0.01, 0.9)", "haul_sgd(s->net, 0.01, .momentum = 0.9, .nesterov = true)"),
    ("haul_adam(s->net)", "haul_adam(s->net, 0.001)"),
    ("haul_adamw(s->net)", "haul_adamw(s->net, 0.001)"),
    ("haul_adamw(s->net, .weight_decay = 0)", "haul_adamw(s->net, 0.001, .weight_decay = HAUL_ZERO)"),
    ("haul_rmsprop(s->net)", "haul_rmsprop(s->net, 0.01)"),
    ("haul_rmsprop(s->net, 0.01, 0.9)", "haul_rmsprop(s->net, 0.01, .alpha = 0.9, .centered = true)"),
    ("haul_adagrad(s->net)", "haul_adagrad(s->net, 0.01)"),
    ("haul_adagrad(s->net, 0.01, 0.1)", "haul_adagrad(s->net, 0.01, .lr_decay = 0.1)"),
    ("haul_adadelta(s->net)", "haul_adadelta(s->net, 1)"),
    ("haul_adadelta(s->net, 1, 0.9)", "haul_adadelta(s->net, 1, .rho = 0.9)"),
    ("haul_nadam(s->net)", "haul_nadam(s->net, 0.002)"),
    ("haul_nadam(s->net, 0.002, 0.9)", "haul_nadam(s->net, 0.002, .betas = {0.9, 0.999})"),
    ("haul_radam(s->net)", "haul_radam(s->net, 0.001)"),
    ("haul_radam(s->net, 0.001, 0.9)", "haul_radam(s->net, 0.001, .betas = {0.9, 0.999})"),
    ("haul_lion(s->net)", "haul_lion(s->net, 1e-4)"),
    ("haul_lion(s->net, 1e-4, 0.9)", "haul_lion(s->net, 1e-4, .betas = {0.9, 0.99})"),
    ("haul_clip_grad_norm(s->net)", "haul_clip_grad_norm(s->net, 1)"),
    ("haul_clip_grad_value(s->net, 1, s->optimizer)", "haul_clip_grad_value(NULL, 1, .optimizer = s->optimizer)"),
    ("haul_adam(s->net, 0.001, 0.9, 0.999)", "haul_adam(s->net, 0.001, .betas = {0.9, 0.999})"),
    ("haul_adam(s->net, 0.001, .beta1 = 0)", "haul_adam(s->net, 0.001, .betas = {HAUL_ZERO, 0.999})"),
    ("haul_grad_scaler_new(s->optimizer, 1024)", "haul_grad_scaler_new(s->optimizer, .init_scale = 1024)"),
    ("haul_average_new(s->net, 0.9)", "haul_average_new(s->net, .decay = 0.9)"),
    ("haul_train_step(s->optimizer, s->x, NULL, 1)", "haul_train_step(s->optimizer, s->x, .clip_norm = 1)"),
    ('haul_save_checkpoint("c", s->net, s->optimizer, NULL, NULL, 0)', 'haul_save_checkpoint("c", s->net, s->optimizer)'),
    ('haul_load_checkpoint("c", s->net, s->optimizer, NULL)',
     'haul_load_checkpoint("c", s->net, NULL, .optimizers = &s->optimizer, .optimizer_count = 1)'),
    ("haul_schedule_staircase(s->optimizer, 10, 0.5)", "haul_schedule_staircase(s->optimizer, 10, .factor = 0.5)"),
    ("haul_schedule_cosine(s->optimizer, 10, 0.5)", "haul_schedule_cosine(s->optimizer, 10, .minimum = 0.5)"),
    ("haul_schedule_warm_up(s->optimizer, 10, 0.5)", "haul_schedule_warm_up(s->optimizer, 10, .from = HAUL_ZERO)"),
    ("haul_schedule_one_cycle(s->optimizer, 0.5, 10, 0.25)",
     "haul_schedule_one_cycle(s->optimizer, 0.5, 10, .rise = 0.25, .momentum = {0.8, 0.9})"),
    ("haul_schedule_plateau(s->optimizer, 0.5)", "haul_schedule_plateau(s->optimizer, .patience = HAUL_ZERO)"),
    ("haul_loader_new(s->data, 64)", "haul_loader_new(s->data, .batch = 64, .shuffle = true)"),
    ("haul_loader_new(s->data, .normalise = 1)", "haul_dataset_map(s->data, haul_normalise(\"x\"))"),
    ("haul_dataset_split(&s->data, s->data, 0.5)", "haul_dataset_split(&s->data, s->data, .fractions = {0.5, 0.5})"),
    ("haul_csv_dataset(\"a.csv\", 1)", "haul_csv_dataset(\"a.csv\", .missing = true)"),
    ("haul_normalise(\"x\", 0.4)", "haul_normalise(\"x\", .mean = {0.4}, .deviation = {0.2})"),
    ("haul_transform_new(s->change, s)", "haul_transform_new(s->change, .context = s)"),
    ('haul_cifar10("data", true)', 'haul_cifar10("data", .test = true)'),
    ('haul_image_folder("photos", true)', 'haul_image_folder("photos", .test = true, .size = {64, 64})'),
    ('haul_image_folder("photos", {64, 64})', 'haul_image_folder("photos", .size = {64, 64}, .channels = 1)'),
    ('haul_read_image("a.png", 64)', 'haul_read_image("a.png", .size = {64, 64}, .channels = 3)'),
    ("haul_shapes(100, 1)", "haul_shapes(100, .seed = 1)"),
    ("haul_blobs(100, 1)", "haul_blobs(100, .test = true)"),
    ('haul_model_new("mlp", 3)', 'haul_model_new("mlp", .input = HAUL_SHAPE(1, 28, 28), .outputs = 3)'),
    ('haul_open_safetensors("w", true)', 'haul_open_safetensors("w", .map = true)'),
    ('haul_save_weights("w", s->net, NULL, 0)', 'haul_save_weights("w", s->net, .metadata = NULL)'),
    ('haul_load_weights("w", s->net, "encoder.")', 'haul_load_weights("w", s->net, .prefix = "encoder.")'),
    ("haul_profile_rows(s->profile, NULL, 0, HAUL_PROFILE_KERNEL)",
     "haul_profile_rows(s->profile, NULL, 0, .by = HAUL_PROFILE_KERNEL)"),
    ("haul_events_subscribe(s->hear, HAUL_EVENT_COPY)", "haul_events_subscribe(s->hear, .kinds = HAUL_EVENT_COPY)"),
]
# C++ fills these structs in by position without a warning.
ONLY_C = [
    ("haul_ledger_begin(true)", "haul_ledger_begin(.everywhere = true)"),
    ("haul_profile_begin(true)", "haul_profile_begin(.everywhere = true)"),
    ('haul_publish_begin("run")', 'haul_publish_begin(.name = "run")'),
    ("haul_publish_progress(12)", "haul_publish_progress(.steps = 12)"),
    ("haul_budget(4096)", "haul_budget(.h2d_bytes = 4096, .waits = 1)"),
    ("haul_optimizer_add_group(s->optimizer, s->net)",
     "haul_optimizer_add_group(s->optimizer, .module = s->net, .lr = 0.1)"),
    ("haul_sum(s->x, .haul__axes = {1})", "haul_sum(s->x, HAUL_AXES(1))"),
    ('(haul_custom_operand){"x", true}', '(haul_custom_operand){"x", .saved = true}'),
    ('(haul_custom_result){"y", true}', '(haul_custom_result){"y", .saved = true}'),
]
EVERYTHING = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion"]


def compile_lines(name, compiler, include, warnings, lines):
    """The numbers of the lines that the compiler refuses, and its output. Each line is a function of one source line."""
    plus = "++" in compiler
    path = f"{name}.cpp" if plus else f"{name}.c"
    with open(path, "w", encoding="utf-8") as file:
        file.write(TOP)
        for i, line in enumerate(lines):
            file.write(FUNCTION % (i, i, line))
    every = "-ferror-limit=0" if "clang" in compiler else "-fmax-errors=0"
    done = subprocess.run([compiler, "-std=" + ("c++20" if plus else "c11"), "-Werror", every] + warnings +
                          [include, source + "/include", "-fsyntax-only", path], capture_output=True, text=True)
    first = TOP.count("\n") + 1
    named = {int(at) - first for at in re.findall(rf"^{re.escape(path)}:(\d+):", done.stderr, re.M)}
    return (named if done.returncode else set()), done.stderr


def knows(compiler):
    """Whether it is there and can do C++20, where that is its language."""
    if not shutil.which(compiler):
        return False
    language = ["-std=c++20", "-x", "c++"] if "++" in compiler else ["-std=c11", "-x", "c"]
    return subprocess.run([compiler] + language + ["-fsyntax-only", "/dev/null"], capture_output=True).returncode == 0


def main():
    jobs = []
    compilers = [c for c in ("gcc", "clang", "g++", "clang++") if knows(c)]
    for compiler in compilers:
        pairs = LINES + ([] if "++" in compiler else ONLY_C)
        for include in ("-I", "-isystem"):
            jobs.append((compiler, include, [], [wrong for wrong, _ in pairs], False))
        jobs.append((compiler, "-I", EVERYTHING, [right for _, right in pairs], True))
    failed = count = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = [(job, pool.submit(compile_lines, f"lines{i}", *job[:4])) for i, job in enumerate(jobs)]
        for (compiler, include, _, lines, wanted), result in results:
            refused, output = result.result()
            count += len(lines)
            for i, line in enumerate(lines):
                if (i in refused) == wanted:
                    failed += 1
                    print(f"{compiler} {include} {'refuses' if wanted else 'accepts'} {line}")
                    print(output if wanted else "")
    print(f"{count} lines with {', '.join(compilers) or 'no compiler'}: {failed} wrong")
    return 77 if not compilers else failed != 0


sys.exit(main())
