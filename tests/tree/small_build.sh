# With HAUL_SMALL a static, stripped program that trains, saves and loads has about 2 MB, and computes the same as
# the normal build. What is left out is an error that says so.
# ctest: labels=slow,once; processors=2
if [ -n "$HAUL_SANITIZE" ]; then
    echo "skipped: a sanitized program is not small"
    exit 77
fi
set -eu
generator=
command -v ninja >/dev/null && generator="-G Ninja"
# In a folder of the tree, and with the user's cache of the compiler: it has the objects of the last run, and those of the
# archive (tests/tree/packages/check-dist).
build=$HAUL_SOURCE/build-small-test
unset XDG_CACHE_HOME
rm -rf "$build"
trap 'rm -rf "$build"' EXIT
cmake -S "$HAUL_SOURCE" -B "$build" $generator -DHAUL_SMALL=ON -DHAUL_COMMAND=OFF -DHAUL_TESTS=OFF -DHAUL_BENCH=OFF \
    -DHAUL_EXAMPLES=OFF -DCMAKE_C_COMPILER="$HAUL_CC" >cmake.log
cmake --build "$build" -j "$(nproc)" --target haul_static >build.log 2>&1 || { tail -n 40 build.log >&2; exit 1; }

compile() {
    "$HAUL_CC" -std=c11 -O2 -I "$HAUL_SOURCE/include" "$1" -o "$2" -static "$build/libhaul.a" -lm -lpthread -Wl,--gc-sections
    strip "$2"
}
compile "$HAUL_SOURCE/examples/small.c" small
if ldd small >/dev/null 2>&1; then
    echo "small is not static" >&2
    exit 1
fi
size=$(stat -c %s small)
echo "the program has $size bytes, of at most 2220000"
[ "$size" -lt 2220000 ]

# The same losses, by the same instructions, unless the normal build has none of them: digit by digit.
./small >losses
cat losses
if HAUL_CPU_LEVEL=base HAUL_WITHOUT=onednn "$HAUL_BUILD/examples/small" >wanted 2>refused; then
    diff wanted losses
else
    grep "this build has kernels for .* only" refused
fi

cat >left_out.c <<'END'
#include <haul/haul.h>
#include <stdio.h>
static void tell(void)
{
    puts(haul_error_message());
    haul_error_clear();
}
int main(void)
{
    haul_scope *scope = haul_scope_push();
    haul_dtype  dtypes[] = {HAUL_F16, HAUL_BF16, HAUL_F64};
    for (int i = 0; i < 3; i++) {
        haul_add(haul_zeros(dtypes[i], HAUL_SHAPE(3)), haul_zeros(dtypes[i], HAUL_SHAPE(3)));
        tell();
    }
    haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(3)), haul_device_get("cuda:0"));
    tell();
    puts(haul_build_features());
    haul_scope_pop(scope);
    return 0;
}
END
compile left_out.c left_out
./left_out >said
cat said
for dtype in f16 bf16 f64; do
    grep -q "add: $dtype is not in this build (HAUL_SMALL=ON)" said
done
grep -q 'cuda.*not in this build (HAUL_SMALL=ON)' said
grep -qx HAUL_SMALL said
