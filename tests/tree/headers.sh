# Every public header compiles alone, as C11 and as C++17; the macros with options work in C++20.
# ctest: labels=once
status=0
cxx=$(command -v "${CXX:-c++}" || command -v g++ || command -v clang++)
[ -n "$cxx" ] || echo "no C++ compiler: only C is checked"
for header in "$HAUL_SOURCE"/include/haul/*.h; do
    name=haul/$(basename "$header")
    # Twice: the guard holds.
    printf '#include <%s>\n#include <%s>\nextern int unused;\n' "$name" "$name" >one.c
    cp one.c one.cpp
    "$HAUL_CC" -std=c11 -Wall -Wextra -Wpedantic -Werror -I "$HAUL_SOURCE/include" -fsyntax-only one.c || status=1
    if [ -n "$cxx" ]; then
        "$cxx" -std=c++17 -Wall -Wextra -Werror -I "$HAUL_SOURCE/include" -fsyntax-only one.cpp || status=1
    fi
    [ $status -eq 0 ] || { echo "$name does not compile alone" >&2; exit 1; }
done
if [ -n "$cxx" ] && "$cxx" -std=c++20 -x c++ -fsyntax-only /dev/null 2>/dev/null; then
    cat >options.cpp <<'END'
#include <haul/haul.h>
haul_tensor *compute(haul_tensor *x, haul_tensor *w, int64_t n)
{
    haul_tensor *inputs[] = {x, w}, *results[2];
    haul_shape   shape = HAUL_SHAPE(n, 3);
    haul_grad(haul_sum(x), inputs, 2, results, .create_graph = true);
    x = haul_reshape(haul_to(x, haul_cpu(), .dtype = HAUL_F32), shape);
    x = haul_conv2d(haul_max_pool2d(x, 3, .stride = {2, 2}), w, .stride = {2, 2}, .relu = true);
    x = haul_batch_norm(haul_linear(x, w), .training = true);
    x = haul_mul(x, haul_scalar(n, .dtype = HAUL_F64));
    return haul_sum(haul_mean(x), HAUL_AXES(0, -1), .keepdim = true);
}
haul_module *make(haul_tensor **first)
{
    haul_scope  *scope = haul_scope_push_named("make");
    haul_tensor *kept = haul_keep(*first), *taken = haul_take(haul_exp(kept));
    haul_release(taken);
    *first = haul_scope_return(haul_scope_push(), haul_sqrt(kept));
    return haul_scope_return(scope, haul_nn_relu());
}
/* Arguments of macros are evaluated once. */
constexpr int64_t sizes_counted()
{
    int64_t    n = 0;
    haul_shape shape = HAUL_SHAPE(++n, ++n);
    return n + shape.dims[1] + shape.ndim;
}
static_assert(sizes_counted() == 6, "");
haul_loader *train(haul_module **module, haul_optimizer **optimizer)
{
    *module = HAUL_SEQUENTIAL(haul_nn_conv2d(3, 8, 3, .padding = {1, 1}), haul_nn_batch_norm(8), haul_nn_flatten(1),
                              haul_nn_linear(8, 10, .no_bias = true), haul_model_new("mlp", .outputs = 3));
    *optimizer = haul_adamw(*module, 0.1, .betas = {0.9, 0.95});
    haul_grad_scaler_new(*optimizer, .growth_interval = 100);
    return haul_loader_new(haul_cifar10("data", .test = true), .batch = 64, .shuffle = true);
}
END
    "$cxx" -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Werror -I "$HAUL_SOURCE/include" -fsyntax-only options.cpp ||
        { echo "options do not work in C++20" >&2; exit 1; }
fi
# Structs that have a guard in C have the layout that they have in C++, which has none.
cat >layout.c <<'END'
#include <assert.h>
#include <haul/haul.h>
static_assert(sizeof(haul_axes) == 36 && offsetof(haul_axes, count) == 0, "");
static_assert(sizeof(haul_reduce_options) == 48 && offsetof(haul_reduce_options, keepdim) == 44, "");
static_assert(sizeof(haul_linear_options) == 24 && offsetof(haul_linear_options, bias) == 8, "");
static_assert(sizeof(haul_adam_options) == 72 && offsetof(haul_adam_options, betas) == 16, "");
static_assert(sizeof(haul_split_options) == 16 && offsetof(haul_split_options, test) == 8, "");
static_assert(sizeof(haul_image_folder_options) == 40 && offsetof(haul_image_folder_options, size) == 16, "");
static_assert(sizeof(haul_mask_folder_options) == 40 && offsetof(haul_mask_folder_options, size) == 16, "");
static_assert(sizeof(haul_text_file_options) == 32 && offsetof(haul_text_file_options, context) == 16, "");
static_assert(sizeof(haul_read_image_options) == 32 && offsetof(haul_read_image_options, size) == 8, "");
static_assert(sizeof(haul_model_options) == 120 && offsetof(haul_model_options, input) == 8, "");
extern int unused;
END
cp layout.c layout.cpp
"$HAUL_CC" -std=c11 -Werror -I "$HAUL_SOURCE/include" -fsyntax-only layout.c || exit 1
[ -z "$cxx" ] || "$cxx" -std=c++17 -Werror -I "$HAUL_SOURCE/include" -fsyntax-only layout.cpp || exit 1
# One size too many is no shape.
printf '#include <haul/haul.h>\nhaul_shape f(void) { return HAUL_SHAPE(1, 2, 3, 4, 5, 6, 7, 8, 9); }\n' >nine.c
! "$HAUL_CC" -std=c11 -Werror -I "$HAUL_SOURCE/include" -fsyntax-only nine.c 2>/dev/null || { echo "nine sizes are a shape" >&2; exit 1; }
sed -i 's/, 9)/)/' nine.c
"$HAUL_CC" -std=c11 -Werror -I "$HAUL_SOURCE/include" -fsyntax-only nine.c || exit 1
exit $status
