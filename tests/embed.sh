# The tool that collects kernel text: what it writes, what it leaves alone, what it refuses.
set -u
embed=$HAUL_BUILD/haul_embed
fail() {
    echo "$*" >&2
    exit 1
}
refused() {
    local words=$1
    shift
    "$embed" out "$@" 2>message && fail "was not refused: $*"
    grep -q "$words" message || fail "the message is: $(cat message)"
}

mkdir -p ops kernels backends/some
cat >ops/b.c <<'END'
int host;
#if 0
/* kernel text begins */
K("\n") /* a comment */
/* kernel text ends */
#endif
int more;
#if 0
/* kernel text begins */
second
    /* kernel text ends */
#endif
END
cat >ops/a.c <<'END'
/* kernel text begins */
first
/* kernel text ends */
END
echo 'int nothing;' >ops/plain.c
echo 'int nothing;' >ops/common.c # next to kernels/common.h: allowed, as it has no text
printf '#define C 1\n' >kernels/common.h
printf '#define P 1\n' >backends/some/prelude.h # named by its folder

sources='ops/b.c ops/plain.c ops/a.c ops/common.c kernels/common.h backends/some/prelude.h'
"$embed" out $sources || fail "embed failed"
cat >wanted <<'END'
#line 4 "ops/b.c"
K("\n") /* a comment */
#line 10 "ops/b.c"
second
END
cmp wanted out/kernels/b.k.h || fail "the regions of b.c differ"
[ -e out/kernels/plain.k.h ] && [ ! -s out/kernels/plain.k.h ] || fail "a file without regions should give an empty header"
[ ! -s out/kernels/common.k.h ] || fail "a header should have no other header"
grep include out/kernels/all.k.h >includes
printf '#include "kernels/a.k.h"\n#include "kernels/b.k.h"\n' | cmp - includes || fail "all.k.h differs"

# The list of kernels: by line and by macro, of headers too, with dtypes and form.
cat >kernels/pointwise.h <<'END'
#define TWICE(name, formula) \
    KERNEL2(name, P, T, out, const T, x) { FOR_ITEMS(i) formula }
#define OTHER(kernel) TWICE_(kernel, KERNEL)
END
cat >ops/rows.c <<'END'
/* kernel text begins */
#define ROWS(name, formula) \
    KERNEL1(name, P, T, out)  \
    { FOR_ROWS(i) formula }
KERNEL1(first, P, T, out)
{
    FOR_ITEMS(i) KERNEL2(inner, x)
}
#if !defined(HAUL_KERNEL_DTYPE_bool)
TWICE(second, 1)
#endif
#if defined(HAUL_KERNEL) && IS_FLOAT
#if defined(SHARED)
ROWS(third, 2)
#else
ROWS(third, 3)
#endif
KERNEL2(fourth, P, T, out,
        const T, x)
{
    FOR_ROWS(i) {}
}
#else
OTHER(fifth)
#endif
KERNEL1(sixth, P, T, out)
{
}
/* kernel text ends */
KERNEL1(host, P, T, out)
END
"$embed" list ops/rows.c kernels/pointwise.h || fail "embed failed"
cat >wanted_list <<'END'
KERNEL(ANY, false, rows, first)
KERNEL(NUMBER, false, rows, second)
KERNEL(FLOAT, true, rows, third)
KERNEL(FLOAT, true, rows, fourth)
KERNEL(ANY, false, rows, sixth)
END
grep '^KERNEL' list/kernels/kernels.def | cmp - wanted_list || fail "the list of kernels differs: $(cat list/kernels/kernels.def)"

# The arrays hold the same text.
cat >main.c <<'END'
#include "kernels/text.h"
#include <stdio.h>
int main(void)
{
    printf("%zu\n", haul__kernel_text_count);
    for (const haul__kernel_text *t = haul__kernel_texts; t->name; t++)
        printf("%s:\n%s", t->name, t->text);
    return 0;
}
END
"$HAUL_CC" -std=c11 -Wall -Wextra -Wpedantic -Werror -I "$HAUL_SOURCE/src" -o main main.c out/kernels_text.c || fail "does not compile"
{
    printf '4\na:\n#line 2 "ops/a.c"\nfirst\nb:\n'
    cat wanted
    printf 'common:\n#line 1 "kernels/common.h"\n#define C 1\n'
    printf 'prelude_some:\n#line 1 "backends/some/prelude.h"\n#define P 1\n'
} >expected
./main | cmp - expected || fail "the table differs"

# A change outside the regions that moves no line touches nothing; one inside touches its header only.
touch -d '2001-01-01' out/kernels/* out/kernels_text.c
sed -i 's/int more/int less/' ops/b.c
"$embed" out $sources
[ -z "$(find out -type f -newermt 2002-01-01)" ] || fail "files were touched without need"
sed -i 's/first/FIRST/' ops/a.c
"$embed" out $sources
[ "$(find out -type f -newermt 2002-01-01 | sort | xargs)" = "out/kernels/a.k.h out/kernels_text.c" ] || fail "the wrong files were touched"

printf '/* kernel text begins */\nx\n' >ops/open.c
refused 'open.c: kernel text begins but does not end' ops/open.c
printf 'x\n/* kernel text ends */\n' >ops/close.c
refused 'close.c:2: kernel text ends but has not begun' ops/close.c
printf '/* kernel text begins */\n/* kernel text begins */\n' >ops/twice.c
refused 'twice.c:2: kernel text begins inside' ops/twice.c
printf '/* kernel text begins */\n\303\244\n/* kernel text ends */\n' >ops/letter.c
refused 'not ASCII' ops/letter.c
cp ops/plain.c backends/some/a.c # its empty header would take the place of the other
refused 'have one name' ops/a.c backends/some/a.c
cp ops/a.c ops/common.c # now it has text
refused 'have one name' ops/common.c kernels/common.h
refused 'missing.c: No such file' ops/missing.c
refused 'neither' kernels/common
exit 0
