# The interface from other languages: examples/train in C11 and C++20, without a warning from gcc and clang, and in
# Python by ctypes. All train the network, and print the same numbers.
# ctest: labels=once
if [ -n "$HAUL_SANITIZE" ]; then
    echo "skipped: a sanitized library needs sanitized programs"
    exit 77
fi
strict="-Wall -Wextra -Wpedantic -Wconversion -Werror"
status=0

# check NAME COMMAND...: what it prints is what the program printed in the languages before it.
check() {
    local name=$1
    shift
    if ! "$@" >"$name.txt"; then
        echo "$name fails" >&2
        status=1
    elif [ -e first.txt ]; then
        diff first.txt "$name.txt" || { echo "$name prints other numbers than those before it" >&2; status=1; }
    else
        cp "$name.txt" first.txt
    fi
}

# build COMPILER STANDARD SOURCE
build() {
    if ! command -v "$1" >compiler.txt; then
        echo "skipped: $1 was not found"
        return
    fi
    if "$1" "-std=$2" $strict -I "$HAUL_SOURCE/include" "$HAUL_SOURCE/examples/$3" -o "by-$1" -L "$HAUL_BUILD" -lhaul \
        -Wl,-rpath,"$HAUL_BUILD"; then
        check "$1" "./by-$1"
    else
        echo "$1 does not compile $3 without warnings" >&2
        status=1
    fi
}

build gcc c11 train.c
build clang c11 train.c
build g++ c++20 train.cpp
build clang++ c++20 train.cpp
# A C++ program has an operation of its own, whose kernel is C.
cat >kernel.c <<'END'
#include <haul/kernel.h>
HAUL_KERNEL2(cube, T, y, const T, x, { FOR_ITEMS(i) STORE(y, i, LOAD(x, i) * LOAD(x, i) * LOAD(x, i)); });
extern const haul_kernel *const cube_kernel;
const haul_kernel *const cube_kernel = &cube;
END
cat >operation.cpp <<'END'
#include <haul/haul.h>
extern "C" const haul_kernel *const cube_kernel;
static void gradient(haul_custom_gradient *g)
{
    g->operands[0] = haul_mul_scalar(haul_mul(g->results[0], haul_square(g->saved[0])), 3);
}
static haul_custom_operation cube = {.name = "cube",
                                     .operands = {{.name = "x", .saved = true}},
                                     .results = {{.name = "y"}},
                                     .kernel = cube_kernel,
                                     .gradient = gradient};
static haul_tensor *cubed(haul_tensor *const *x, int, void *)
{
    return haul_apply(&cube, nullptr, x[0]);
}
int main()
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_set_requires_grad(haul_arange(HAUL_F64, 0, 4, 1), true);
    haul_status  status = haul_grad_check(cubed, &x, 1, nullptr);
    bool         right = haul_item(haul_sum(cubed(&x, 1, nullptr))) == 36;
    haul_scope_pop(scope);
    return status || !right;
}
END
"$HAUL_CC" -std=c11 $strict -I "$HAUL_SOURCE/include" -c kernel.c -o kernel.o || status=1
for cxx in g++ clang++; do
    command -v "$cxx" >compiler.txt || continue
    "$cxx" -std=c++20 $strict -Wno-missing-field-initializers -I "$HAUL_SOURCE/include" operation.cpp kernel.o -o "operation-$cxx" -L "$HAUL_BUILD" -lhaul \
        -Wl,-rpath,"$HAUL_BUILD" && "./operation-$cxx" ||
        { echo "an operation of one's own does not work in C++ by $cxx" >&2; status=1; }
done
# The other examples are C11 without warnings, too.
for source in "$HAUL_SOURCE"/examples/*.c; do
    "$HAUL_CC" -std=c11 $strict -I "$HAUL_SOURCE/include" -fsyntax-only "$source" || status=1
done

lines=$(wc -l <"$HAUL_SOURCE/examples/train.py")
[ "$lines" -le 60 ] || { echo "train.py has $lines lines; 60 are enough" >&2; status=1; }
check python python3 "$HAUL_SOURCE/examples/train.py" "$HAUL_BUILD/libhaul.so"

# It learns: the last loss is less than a quarter of the first.
[ "$(wc -l <first.txt)" -eq 5 ] &&
    awk '{ loss[NR] = $4 } END { exit !(loss[5] > 0 && loss[5] < loss[1] / 4) }' first.txt ||
    { echo "the network does not learn:" >&2; cat first.txt >&2; status=1; }
exit $status
