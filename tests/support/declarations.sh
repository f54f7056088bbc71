# What the comparisons of our declarations with NVIDIA's headers share.

# find_headers NAME...: the first folder that has all of these in $folder; ends the test as skipped where none has.
find_headers() {
    local name
    for folder in "${CUDA_HOME:+$CUDA_HOME/include}" /usr/local/cuda/include /usr/include; do
        [ -n "$folder" ] || continue
        for name in "$@"; do
            [ -f "$folder/$name" ] || continue 2
        done
        return
    done
    echo "$(printf '%s, ' "$@" | sed 's/, $//') cannot be found in \$CUDA_HOME/include, /usr/local/cuda/include or" \
        "/usr/include: nothing to compare"
    exit 77
}

# compare_declarations CONSTANTS NAME VALUE: check.c compiles with the headers; and the check can fail: with a constant
# of another value in the place of the file CONSTANTS it does not.
compare_declarations() {
    flags=(-std=gnu11 -Wall -Wextra -Werror -I "$HAUL_SOURCE/src" -I "$HAUL_SOURCE/include" -isystem "$folder")
    "$HAUL_CC" "${flags[@]}" -DHAUL_CUDA_HEADERS -fsyntax-only check.c || exit 1
    sed "s|#include \"backends/cuda/$1\"|X($2, $3)|" check.c >wrong.c
    if "$HAUL_CC" "${flags[@]}" -DHAUL_CUDA_HEADERS -fsyntax-only wrong.c 2>messages; then
        echo "a constant of another value was not noticed" >&2
        exit 1
    fi
    grep -q "$2 has another value" messages || { cat messages >&2; exit 1; }
    echo "compared with $folder"
}
