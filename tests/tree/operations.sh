# The tool that collects the list of all operations: what it finds, what it leaves alone, what it refuses.
# ctest: labels=once
set -u
cmake=$(sed -n 's/^CMAKE_COMMAND:INTERNAL=//p' "$HAUL_BUILD/CMakeCache.txt")
fail() {
    echo "$*" >&2
    exit 1
}
collect() {
    "$cmake" "-DSOURCES=b.c;a.c" -DROWS=rows.def -DHEADERS=ops.h -DOUT=out.h \
        -P "$HAUL_SOURCE/tools/operations.cmake" 2>message
}

cat >a.c <<'END'
/* HAUL__OPERATION(comment) */
extern HAUL__OPERATION(elsewhere);
    HAUL__OPERATION(indented) = {0};
#define HAUL__OPERATION(id) id
HAUL__OPERATION(sum_2d) = {
    .name = "haul_sum_2d; [",
};
HAUL__OPERATION(sum) = {.name = "haul_sum"};
END
printf 'HAUL__OPERATION(cat) = {\n};\n' >b.c
cat >rows.def <<'END'
/*   HAUL_UNARY  (name, ...) */
HAUL_UNARY(tan, ANY, [x; y], 1)
HAUL_UNARY_TO_BOOL(not,  ANY)
HAUL_UNARY2 ( bend, ANY)
HAUL_BINARY(add,  ANY)
HAUL_COMPARE(lt, a < b)
END
printf 'int haul_sum_into(int);\nint haul_cat_into_with(int);\nint haul_my_sum_2d_into(int);\n' >ops.h
collect || fail "failed: $(cat message)"
cat >wanted <<'END'
X(add, 1)
X(add_scalar, 1)
X(bend, 1)
X(cat, 1)
X(lt, 1)
X(lt_scalar, 1)
X(not, 1)
X(sum, 1)
X(sum_2d, 0)
X(tan, 1)
END
grep '^X' out.h | cmp - wanted || fail "the list differs"

# A change that brings no operation touches nothing; one line brings one.
touch -d '2001-01-01' out.h
echo 'int more;' >>a.c
collect
[ -z "$(find out.h -newermt 2002-01-01)" ] || fail "the list was touched without need"
echo 'HAUL__OPERATION(tanh) = {0};' >>b.c
collect
[ "$(tail -1 out.h)" = "X(tanh, 0)" ] || fail "a new operation is not in the list"

echo 'HAUL_TERNARY(fma, ANY)' >>rows.def
collect && fail "a row of an unknown kind was not refused"
grep -q 'HAUL_TERNARY' message || fail "the message is: $(cat message)"
sed -i '$d' rows.def
echo 'HAUL__OPERATION(a b) = {0};' >>b.c
collect && fail "an id with a space was not refused"
grep -q 'takes one id' message || fail "the message is: $(cat message)"
exit 0
