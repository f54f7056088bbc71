# The shared library exports public functions, all of them declared in a public header, and nothing else.
nm -D --defined-only "$HAUL_BUILD/libhaul.so" | awk '$2 ~ /[TDBRVWi]/ { print $3 }' |
    grep -vE '^(__(asan|ubsan|tsan|odr_asan|start|stop)|_init$|_fini$)' | sort >exported
cat "$HAUL_SOURCE"/include/haul/*.h | grep -oE '\bhaul_[a-z0-9_]+' | sort -u >declared
comm -23 exported declared >private
if [ -s private ]; then
    echo "exported, but in no public header:" >&2
    cat private >&2
    exit 1
fi
if grep '^haul__' exported; then
    echo "private names are exported" >&2
    exit 1
fi
# Every global name of the static library carries our prefix.
nm --defined-only -g "$HAUL_BUILD/libhaul.a" 2>/dev/null | awk 'NF == 3 { print $3 }' |
    grep -vE '^(haul_|__(asan|ubsan|tsan|odr_asan))' | sort -u >foreign
if [ -s foreign ]; then
    echo "global names of the static library without haul_:" >&2
    cat foreign >&2
    exit 1
fi
echo "$(wc -l <exported) names are exported"
