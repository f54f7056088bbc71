# The tool that collects kernel text: what it writes, what it leaves alone, what it refuses.
# ctest: labels=once
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
cat >wanted_b <<'END'
#line 4 "ops/b.c"
K("\n") /* a comment */
#line 10 "ops/b.c"
second
END
cmp wanted_b out/kernels/b.k.h || fail "the regions of b.c differ"
[ ! -e out/kernels/plain.k.h ] || fail "a file without text should give no header"

# A header that a text includes becomes a part of it; host code includes what it likes.
mkdir -p src/ops
printf 'shared\n' >src/ops/shared.h
printf '#include "ops/host.h"\n/* kernel text begins */\nbefore\n#include "ops/shared.h"\nafter\n/* kernel text ends */\n' >ops/i.c
mkdir apart
"$embed" apart $sources ops/i.c || fail "embed failed with an included header"
printf '#line 3 "ops/i.c"\nbefore\n#line 1 "src/ops/shared.h"\nshared\n#line 5 "ops/i.c"\nafter\n' >wanted_i
cmp wanted_i apart/kernels/i.k.h || fail "the text with an included header differs"
# What a header includes by its name alone is from its own folder; another include stays in its text.
mkdir headers
printf 'part\n' >kernels/part.h
printf 'before\n#include "part.h"\n#include "kernels/host.h"\nafter\n' >kernels/whole.h
"$embed" headers kernels/whole.h || fail "embed failed with a header that includes another one"
printf '#line 1 "kernels/whole.h"\nbefore\n#line 1 "kernels/part.h"\npart\n#line 3 "kernels/whole.h"\n' >wanted_whole
printf '#include "kernels/host.h"\nafter\n' >>wanted_whole
cmp wanted_whole headers/kernels/whole.k.h || fail "the text of a header that includes another one differs"
rm kernels/part.h
refused 'kernels/whole.h:2: kernels/part.h: No such file' kernels/whole.h
rm src/ops/shared.h
refused 'ops/i.c:4: src/ops/shared.h: No such file' ops/i.c

# The list of kernels, those of rows and templates among them, with dtypes, form and number of buffers.
cat >kernels/pointwise.h <<'END'
TEMPLATE(pointwise1, NAME, R, PUT, S, V, READ, X, FORMULA, IS_FAR, NEAR, BLOCKS)
KERNEL2(NAME, P, R, out, const S, in) { X FORMULA }
END_TEMPLATE
TEMPLATE(pointwise2, NAME, R, PUT, FORMULA, BLOCKS)
KERNEL3(NAME, P, R, out, const T, a, const T, b) { FORMULA }
END_TEMPLATE
END
cat >kernels/rows.def <<'END'
/* HAUL_UNARY(no) */
HAUL_BINARY(mod, NUMBER, M(a, b) , SAVE, f(g, h), 0, 1)
HAUL_COMPARE(lt, a < b)
END
cat >ops/rows.c <<'END'
/* kernel text begins */
#define ROWS(name, formula) KERNEL1(name, P, T, out) { FOR_ROWS(i) formula }
KERNEL1(first, P, T, out)
{
    FOR_ITEMS(i) KERNEL2(inner, x)
}
#if !defined(HAUL_KERNEL_DTYPE_bool)
KERNEL2(second, P, T, out, const T, x)
{
    FOR_ITEMS(i) {}
}
#endif
#if defined(HAUL_KERNEL) && IS_FLOAT
#if defined(OTHER)
KERNEL1(third, P, T, out) { FOR_ROWS(i) {}
}
#else
KERNEL1(third, P, T, out) { FOR_ROWS(i) { 1; }
}
#endif
KERNEL2(fourth, P, T, out,
        const T, x)
{
    FOR_ROWS(i) {}
}
#else
OTHER(fifth) KERNEL1(fifth)
#endif
TEMPLATE(forms, NAME, BODY)
KERNEL1(NAME##_few, P, T, out)
{
    BODY
}
KERNEL1(NAME##_columns, P, T, NAMES)
{
}
END_TEMPLATE
KERNEL1(sixth, P, T, out)
{
}
EXPAND(forms, sixth, f(a,
                       b))
/* kernel text ends */
KERNEL1(host, P, T, out)
END
"$embed" list ops/rows.c kernels/pointwise.h kernels/rows.def || fail "embed failed"
cat >wanted_list <<'END'
KERNEL(ANY, false, 3, pointwise_lt, lt, lt, lt)
KERNEL(ANY, false, 2, pointwise_lt, lt_scalar, lt_scalar, lt_scalar)
KERNEL(NUMBER, false, 3, pointwise_mod, mod, mod, mod)
KERNEL(NUMBER, false, 2, pointwise_mod, mod_scalar, mod_scalar, mod_scalar)
KERNEL(ANY, false, 1, rows, first, first, first)
KERNEL(NUMBER, false, 2, rows, second, second, second)
KERNEL(FLOAT, true, 1, rows, third, third, third)
KERNEL(FLOAT, true, 2, rows, fourth, fourth, fourth)
KERNEL(ANY, false, 1, rows, sixth, sixth_columns, sixth_few)
KERNEL(ANY, false, 1, rows, sixth_few, sixth_few, sixth_few)
KERNEL(ANY, false, 1, rows, sixth_columns, sixth_columns, sixth_columns)
END
grep '^KERNEL' list/kernels/kernels.def | cmp - wanted_list || fail "the list of kernels differs: $(cat list/kernels/kernels.def)"
cat >wanted <<'END'
#if !defined(HAUL_KERNEL_DTYPE_bool)
#line 2 "kernels/rows.def"
#line 5 "kernels/pointwise.h"
KERNEL3(mod, P, T, out, const T, a, const T, b) { M(a, b) }
#line 3 "kernels/rows.def"
#line 2 "kernels/pointwise.h"
KERNEL2(mod_scalar, P, T, out, const T, in) { a M(a, b) }
#line 4 "kernels/rows.def"
#endif
END
cmp wanted list/kernels/pointwise_mod.k.h || fail "the text of a row differs"

sed -n '/sixth/,$p' list/kernels/rows.k.h >text
cat >wanted <<'END'
KERNEL1(sixth, P, T, out)
{
}
#line 30 "ops/rows.c"
KERNEL1(sixth_few, P, T, out)
{
    f(a,                        b)
}
KERNEL1(sixth_columns, P, T, NAMES)
{
}
#line 43 "ops/rows.c"
END
cmp wanted text || fail "the template's text is: $(cat text)"

# A unit for each dtype that a text has kernels for. A build that is configured is told when they change.
ls list/kernels/units | grep -c '^rows_' | grep -qx 10 || fail "the units of rows.c are: $(ls list/kernels/units)"
[ -e list/kernels/units/pointwise_3_u8.c ] && [ ! -e list/kernels/units/pointwise_3_bool.c ] ||
    fail "the units of rows are: $(ls list/kernels/units)"
[ -e list/kernels/units/pointwise_5_bool.c ] || fail "the row lt is not for bool"
cat >wanted <<'END'
/* Written by tools/embed.c. */
#define HAUL_KERNEL_DTYPE_f16 1
#define HAUL_KERNEL_SUFFIX f16
#define HAUL_KERNEL_FUNCTIONS "kernels/rows.functions.h"
#include "backends/cpu/kernels/unit.h"
#include "kernels/rows.k.h"
END
cmp wanted list/kernels/units/rows_f16.c || fail "a unit differs"
"$embed" --configured list ops/rows.c kernels/pointwise.h kernels/rows.def || fail "nothing changed"
"$embed" --configured list ops/rows.c kernels/pointwise.h 2>message && fail "units went without a word"
grep -q 'build again' message || fail "the message is: $(cat message)"
[ ! -e list/kernels/units/pointwise_0_u8.c ] || fail "a unit without text is left"

# The arrays hold the same text.
cat >main.c <<'END'
#include "kernels/text.h"
#include <stdio.h>
#include <stdlib.h>
void *haul__malloc(size_t size)
{
    return malloc(size);
}
static void print(const haul__kernel_text *t)
{
    char *text = t->text ? NULL : haul__kernel_text_unpack(t);
    printf("%s:\n%s", t->name, t->text ? t->text : text);
    free(text);
}
int main(void)
{
    printf("%zu\n", haul__kernel_text_count);
    for (const haul__kernel_text *t = haul__kernel_texts; t->name; t++)
        print(t);
    return 0;
}
END
"$HAUL_CC" -std=c11 -Wall -Wextra -Wpedantic -Werror -DNDEBUG -D_GNU_SOURCE -I "$HAUL_SOURCE/src" -I "$HAUL_SOURCE/include" \
    -o main main.c out/kernels_text.c "$HAUL_SOURCE/src/kernels/unpack.c" || fail "does not compile"
{
    printf '4\na:\n#line 2 "ops/a.c"\nfirst\nb:\n'
    cat wanted_b
    printf 'common:\n#line 1 "kernels/common.h"\n#define C 1\n'
    printf 'prelude_some:\n#line 1 "backends/some/prelude.h"\n#define P 1\n'
} >expected
./main | cmp - expected || fail "the table differs"

# A change outside the regions touches no header. One that moves them touches the texts of run-time compilers, which
# always have the right lines. One inside touches its header, which gets the right lines.
touched() {
    find out -type f -newermt 2002-01-01 | sort | xargs
}
touch -d '2001-01-01' out/kernels/*.* out/kernels_text.c
sed -i 's/int more/int less/' ops/b.c
"$embed" out $sources
[ -z "$(touched)" ] || fail "files were touched without need: $(touched)"
sed -i '1i int moved;' ops/a.c
"$embed" out $sources
[ "$(touched)" = "out/kernels_text.c" ] || fail "a text that moved touched $(touched)"
sed -i 's/first/FIRST/' ops/a.c
"$embed" out $sources
[ "$(touched)" = "out/kernels/a.k.h out/kernels_text.c" ] || fail "the wrong files were touched: $(touched)"
grep -q '#line 3' out/kernels/a.k.h || fail "the text has the line that it was at before it moved"

# A unit has the functions that it uses, with those that they use, under their conditions. Another function leaves it alone.
mkdir apart/functions
cat >kernels/functions.h <<'END'
/* Functions.
 * FUNC A in_a_comment(A x); */
/* kernel functions: a unit has those that it uses */
#define ONE(x) (x) /* used by two() */
#if IS_FLOAT
/* what two is */
FUNC A two(A x)
{
    return ONE(x);
}
#if MORE
FUNC A three(A x) { return x / x; } /* of its own */
#endif
#else
#define two(x) \
    (x)
#endif
CONSTANT U32 table[2] = {0,
                         1};
#define tables(i) table[i]
END
printf '/* kernel text begins */\nKERNEL1(twice, P, T, out)\n{\n two(out);\n}\n/* kernel text ends */\n' >ops/twice_kernel.c
printf '/* kernel text begins */\nKERNEL1(look, P, T, out)\n{\n tables(1);\n}\n/* kernel text ends */\n' >ops/look.c
with_functions='ops/twice_kernel.c ops/look.c kernels/functions.h'
"$embed" apart/functions $with_functions || fail "embed failed with functions"
cat >wanted <<'END'
#line 4 "kernels/functions.h"
#define ONE(x) (x) /* used by two() */
#if IS_FLOAT
#line 7 "kernels/functions.h"
FUNC A two(A x)
{
    return ONE(x);
}
#else
#line 15 "kernels/functions.h"
#define two(x) \
    (x)
#endif
END
cmp wanted apart/functions/kernels/twice_kernel.functions.h || fail "the functions of a unit differ"
printf '#line 18 "kernels/functions.h"\nCONSTANT U32 table[2] = {0,\n                         1};\n#line 20 "kernels/functions.h"\n#define tables(i) table[i]\n' >wanted
cmp wanted apart/functions/kernels/look.functions.h || fail "a constant's unit differs"
grep -q twice_kernel.functions.h apart/functions/kernels/units/twice_kernel_f32.c || fail "a unit does not include its functions"
grep -q 'FUNC A' apart/functions/kernels_text.c && fail "functions are no text of their own"
find apart/functions/kernels -type f -exec touch -d '2001-01-01' {} +
sed -i '4i FUNC A four(A x) { return x; }' kernels/functions.h
"$embed" apart/functions $with_functions
[ -z "$(find apart/functions/kernels -type f -newermt 2002-01-01)" ] || fail "a function that nothing uses touched a unit"
sed -i 's/return ONE(x)/return ONE(ONE(x))/' kernels/functions.h
"$embed" apart/functions $with_functions
[ "$(find apart/functions/kernels -type f -newermt 2002-01-01)" = apart/functions/kernels/twice_kernel.functions.h ] ||
    fail "a function touched other units than those that use it"
printf '/* kernel functions: a unit has those that it uses */\nint host;\n' >kernels/functions.h
refused 'functions.h:2: a macro, FUNC' kernels/functions.h

# Kernels that move elements have a unit for each size; those with dtypes of their own one.
mkdir apart/classes
printf '/* kernel text begins */\n#if IS_BITS\nKERNEL1(moves, P, T, out)\n#endif\n#if defined(HAUL_KERNEL_DTYPE_bool)\nKERNEL1(once, P, T, out)\n#endif\n/* kernel text ends */\n' >ops/moves.c
"$embed" apart/classes ops/moves.c || fail "embed failed with classes of dtypes"
[ "$(ls apart/classes/kernels/units | xargs)" = "moves_bool.c moves_i16.c moves_i32.c moves_i64.c moves_u8.c" ] ||
    fail "the units are $(ls apart/classes/kernels/units | xargs)"

# The CPU's own text of a unit follows it, and takes groups of items of the kernels that it names. Other devices do not get it.
mkdir -p apart/own backends/cpu/text
printf '/* kernel text begins */\n#if IS_FLOAT\nKERNEL1(rows, P, T, out)\n#endif\n/* kernel text ends */\n' >ops/own.c
printf 'GROUPS1(rows, P, T, out)\n' >backends/cpu/text/own.h
"$embed" apart/own ops/own.c backends/cpu/text/own.h || fail "embed failed with a text of the CPU"
cat >wanted <<'END'
#if HAS_GROUPS
#define HAUL_GROUPS_rows ~, haul_groups_rows
static haul_groups haul_groups_rows;
#endif
#include "kernels/own.k.h"
#if HAS_GROUPS
#include "kernels/own_cpu.k.h"
#endif
END
tail -n 8 apart/own/kernels/units/own_f32.c | cmp - wanted || fail "a unit with a text of the CPU differs"
grep -q own_cpu apart/own/kernels_text.c && fail "the text of the CPU is an array"

printf '/* kernel text begins */\nx\n' >ops/open.c
refused 'open.c: kernel text begins but does not end' ops/open.c
printf 'x\n/* kernel text ends */\n' >ops/close.c
refused 'close.c:2: kernel text ends but has not begun' ops/close.c
printf '/* kernel text begins */\n/* kernel text begins */\n' >ops/twice.c
refused 'twice.c:2: kernel text begins inside' ops/twice.c
printf '/* kernel text begins */\n\303\244\n/* kernel text ends */\n' >ops/letter.c
refused 'not ASCII' ops/letter.c
cp ops/a.c backends/some/a.c
refused 'have one name' ops/a.c backends/some/a.c
cp ops/a.c ops/common.c # now it has text
refused 'have one name' ops/common.c kernels/common.h
printf '/* kernel text begins */\nKERNEL1(same, P, T, out)\n/* kernel text ends */\n' | tee ops/same.c >ops/again.c
refused 'have a kernel same each' ops/same.c ops/again.c
printf '/* kernel text begins */\nTEMPLATE(t, A)\n/* kernel text ends */\n' >ops/open.c
refused 'open.c:2: a template begins but does not end' ops/open.c
printf '/* kernel text begins */\nEXPAND(none, 1)\n/* kernel text ends */\n' >ops/none.c
refused 'no template none' ops/none.c
printf '/* kernel text begins */\nTEMPLATE(t, A)\nEXPAND(t, A)\nEND_TEMPLATE\nEXPAND(t, 1)\n/* kernel text ends */\n' >ops/loop.c
refused 'without end' ops/loop.c
printf '/* kernel text begins */\nTEMPLATE(t, A)\nEND_TEMPLATE\nEXPAND(t, 1, 2)\n/* kernel text ends */\n' >ops/two.c
refused 'has 2 arguments; the template takes 1' ops/two.c
echo 'HAUL_UNARY(bad, REAL, -x, NOTHING)' >kernels/bad.def
refused 'REAL: expected' kernels/bad.def
refused 'missing.c: No such file' ops/missing.c
refused 'neither' kernels/common
exit 0
