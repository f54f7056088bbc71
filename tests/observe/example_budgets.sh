# Every example has a budget of transfers, and fails when it exceeds it: made so that each budget is followed by one copy
# too many, it exits with status 1 and the message. In C and C++ a header does this, in Python a library in its place.
# ctest: labels=slow,once
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
cat >exceed.c <<'END_OF_LIBRARY'
#include "exceed.h"
haul_status exceeding(const haul_budget_options *o);
haul_status exceeding(const haul_budget_options *o)
{
    return exceed(o);
}
END_OF_LIBRARY
# exceed.py PROGRAM: the library that the program opens has another haul_budget_with.
cat >exceed.py <<'END_OF_PROGRAM'
import ctypes
import os
import runpy
import sys

open_library = ctypes.CDLL


def open_exceeding(path):
    library = open_library(path)
    library.haul_budget_with = open_library("./libexceed.so").exceeding
    return library


ctypes.CDLL = open_exceeding
sys.argv = [sys.argv[1], os.environ["HAUL_BUILD"] + "/libhaul.so"]
runpy.run_path(sys.argv[0], run_name="__main__")
END_OF_PROGRAM
link="-L $HAUL_BUILD -lhaul -lm -Wl,-rpath,$HAUL_BUILD"
cxx=
for compiler in g++ clang++; do
    [ -z "$cxx" ] && command -v $compiler >compiler.txt && cxx=$compiler
done
"$HAUL_CC" -std=c11 -I "$HAUL_SOURCE/include" -fPIC -shared exceed.c -o libexceed.so $link || exit 1

# fails NAME COMMAND...: it exits with status 1, and names the budget
fails() {
    local name=$1
    shift
    "$@" >output 2>errors
    local status=$?
    if [ $status -ne 1 ] || ! grep -q '^haul_budget: the budget of .* was exceeded: .* bytes to the host' errors; then
        echo "$name exceeds its budget, and exits with status $status and this on standard error:"
        cat errors
        return 1
    fi
}

# compile SOURCE COMPILER STANDARD: to the program of the name `example`
compile() {
    "$2" "-std=$3" -I "$HAUL_SOURCE/include" -include ./exceed.h "$1" -o example $link
}

failed=0
for source in "$HAUL_SOURCE"/examples/*.c "$HAUL_SOURCE"/examples/*.cpp "$HAUL_SOURCE"/examples/*.py; do
    name=$(basename "$source")
    if ! grep -q 'haul_budget\(_with\)\?(' "$source"; then
        echo "$name has no budget"
        failed=1
        continue
    fi
    case $name in
        *.c)
            compile "$source" "$HAUL_CC" c11 || exit 1
            fails "$name" ./example || failed=1
            ;;
        *.cpp)
            [ -n "$cxx" ] || { echo "skipped: $name, because there is no C++ compiler"; continue; }
            compile "$source" "$cxx" c++20 || exit 1
            fails "$name" ./example || failed=1
            ;;
        *.py) fails "$name" "$HAUL_PYTHON" exceed.py "$source" || failed=1 ;;
    esac
done
exit $failed
