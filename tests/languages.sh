# The interface from other languages: examples/train in C11 and C++20, without a warning from gcc and clang, and in
# Python by ctypes. All train the network, and print the same numbers.
# ctest: timeout=120
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
