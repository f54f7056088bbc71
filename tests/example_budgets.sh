# Every example has a budget of transfers, and fails when it exceeds it: compiled so that each budget is followed by one
# copy too many, it exits with status 1 and the message.
# ctest: timeout=300
if [ -n "$HAUL_SANITIZE" ]; then
    echo "skipped: a sanitized library needs sanitized programs"
    exit 77
fi
if ! "$HAUL" devices | grep -q '^opencl:0 '; then
    echo "skipped: there is no opencl:0"
    exit 77
fi
cat >exceed.h <<'END_OF_HEADER'
#include <haul/haul.h>
static haul_status exceed(const haul_budget_options *o)
{
    haul_status  status = haul_budget_with(o);
    haul_tensor *x = haul_zeros(HAUL_U8, HAUL_SHAPE(o->d2h_bytes + 1));
    haul_to(haul_to(x, haul_device_get("opencl:0")), haul_cpu());
    return status;
}
#undef haul_budget
#define haul_budget(...) exceed(HAUL__OPTIONS(haul_budget_options, __VA_ARGS__))
END_OF_HEADER

failed=0
for source in "$HAUL_SOURCE"/examples/*.c; do
    name=$(basename "$source" .c)
    if ! grep -q 'haul_budget(' "$source"; then
        echo "$name has no budget"
        failed=1
        continue
    fi
    "$HAUL_CC" -std=c11 -I "$HAUL_SOURCE/include" -include ./exceed.h "$source" -o "$name" -L "$HAUL_BUILD" -lhaul -lm \
        -Wl,-rpath,"$HAUL_BUILD" || exit 1
    "./$name" >output 2>errors
    status=$?
    if [ $status -ne 1 ] || ! grep -q '^haul_budget: the budget of .* was exceeded: .* bytes to the host' errors; then
        echo "$name exceeds its budget, and exits with status $status and this on standard error:"
        cat errors
        failed=1
    fi
done
exit $failed
