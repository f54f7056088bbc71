# Every public header compiles alone, as C11 and as C++17.
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
exit $status
