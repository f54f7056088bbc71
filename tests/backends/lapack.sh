# LAPACK opened at run time: the declarations of src/backends/cpu/lapack/lapack.def agree with LAPACKE's header where that is
# installed (Debian: liblapacke-dev). HAUL_LAPACK names a library; one that cannot be opened, one without the functions, and
# one whose functions fail leave the work to the kernel. `haul devices` shows which library is used.
# ctest: labels=slow,once
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
export OCL_ICD_VENDORS=none HAUL_CUDA_LIBRARIES=/nowhere

# ---- declarations ----

cat >check.c <<'END'
#include "backends/cpu/lapack/library.h"
#include <lapack.h>
#define X(name, arguments)                                                                                             \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name##_), void arguments), #name " has another type");
#include "backends/cpu/lapack/lapack.def"
#undef X
END
flags=(-std=gnu11 -Wall -Wextra -Werror -I "$HAUL_SOURCE/src" -I "$HAUL_SOURCE/include" ${HAUL_LAPACK_HEADERS:+-I "$HAUL_LAPACK_HEADERS"})
if echo '#include <lapack.h>' | "$HAUL_CC" "${flags[@]}" -E - >/dev/null 2>&1; then
    check "the declarations are those of lapack.h" "$HAUL_CC" "${flags[@]}" -fsyntax-only check.c
    sed 's/X(name, arguments) .*/X(name, arguments) _Static_assert(__builtin_types_compatible_p(__typeof__(name##_), int arguments), "another");/; /_Static_assert(__builtin_types_compatible_p(__typeof__(name##_), void/d' check.c >wrong.c
    check "another type is noticed" bash -c '! "$0" "$@" -fsyntax-only wrong.c 2>/dev/null' "$HAUL_CC" "${flags[@]}"
else
    echo "lapack.h is not installed: declarations are not compared"
fi
[ -z "${HAUL_SANITIZE:-}" ] || finish # a sanitized library needs sanitized programs

# ---- libraries ----

cat >fake.c <<'END'
/* Every call fails but for questions about sizes. */
#include <stddef.h>
#define FAILS(name, work, lwork, info) { (void)work; if (*(lwork) < 0) work[0] = 1; else *(info) = 3; }
void ssyevd_(const char *j, const char *u, const int *n, float *a, const int *l, float *w, float *work, const int *lwork, int *i, const int *li, int *info) FAILS(s, work, lwork, info)
void dsyevd_(const char *j, const char *u, const int *n, double *a, const int *l, double *w, double *work, const int *lwork, int *i, const int *li, int *info) FAILS(d, work, lwork, info)
void sgesdd_(const char *j, const int *m, const int *n, float *a, const int *l, float *s, float *u, const int *lu, float *v, const int *lv, float *work, const int *lwork, int *i, int *info) FAILS(s, work, lwork, info)
void dgesdd_(const char *j, const int *m, const int *n, double *a, const int *l, double *s, double *u, const int *lu, double *v, const int *lv, double *work, const int *lwork, int *i, int *info) FAILS(d, work, lwork, info)
END
cat >program.c <<'END'
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    haul_scope   *scope = haul_scope_push();
    const int64_t n = argc > 1 ? atoi(argv[1]) : 70;
    haul_tensor  *one = haul_triu(haul_tril(haul_ones(HAUL_F64, HAUL_SHAPE(n, n)), 0), 0), *u, *s, *vt, *w, *v;
    if (haul_svd(haul_mul_scalar(one, 2), &u, &s, &vt) || haul_eigh(haul_mul_scalar(one, 3), &w, &v)) {
        fprintf(stderr, "%s\n", haul_error_message());
        return 1;
    }
    printf("%g %g\n", haul_item(haul_sum(s)), haul_item(haul_sum(w)));
    haul_scope_pop(scope);
    return 0;
}
END
"$HAUL_CC" -shared -fPIC -w -o fake.so fake.c || exit 1
"$HAUL_CC" -std=gnu11 -I "$HAUL_SOURCE/include" -o program program.c -L "$HAUL_BUILD" -lhaul -Wl,-rpath,"$HAUL_BUILD" || exit 1

# computes LIBRARY REPORT [N]: 70 values of 2 and of 3, and the report on the choice has these words.
computes() {
    HAUL_LAPACK=$1 HAUL_DEBUG=dispatch ./program >out 2>err
    check "with '$1' values are right" test "$(cat out)" = "140 210"
    check "with '$1' the report says: $2" grep -q "haul_svd on cpu, f64 \[70,70\]: $2" err
}
computes /nowhere/liblapack.so.3 'kernel (lapack: HAUL_LAPACK is /nowhere/liblapack.so.3, which cannot be opened)'
computes libm.so.6 'kernel (lapack: HAUL_LAPACK is libm.so.6, which has not dsyevd_ and dgesdd_)'
computes "$PWD/fake.so" 'kernel (lapack: it found out too late that it cannot)'
HAUL_LAPACK=/nowhere ./program 513 >out 2>err
check "large matrices need a library" test $? -eq 1
check "the error names it" grep -q "without LAPACK at most 512 are supported; install" err
HAUL_LAPACK=/nowhere "$HAUL" devices >out
check "haul devices says why there is none" grep -q "no LAPACK: HAUL_LAPACK is /nowhere" out
HAUL_LAPACK=$PWD/fake.so "$HAUL" devices --json >out
check "haul devices names the library" grep -q "LAPACK: .*/fake.so" out
if ./program 2000 >out 2>err; then
    HAUL_DEBUG=dispatch ./program >out 2>err
    check "the library of the system computes" grep -q "haul_eigh on cpu, f64 \[70,70\]: lapack" err
    (ulimit -s 64 && ./program 300 >out 2>&1)
    check "on a small stack" test "$(cat out)" = "600 900"
else
    check "without a library it is named as missing" grep -q "install a" err
fi
finish
