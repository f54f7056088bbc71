# .ci/run repeats tests that failed, once: it goes on if they pass then, and names them. Of the slow tests it runs a
# part, and with sanitizers a part of all but the core. The stage clang fails for a warning. The real script, Makefile
# and presets run in a tree whose builds are made by a cmake that does nothing, with tests that are lines of shell.
# ctest: labels=once
. "$HAUL_SOURCE/tests/support/cli.sh"

unset MAKEFLAGS MAKELEVEL MAKEOVERRIDES CTEST_FLAGS BUILD # of the make that runs this test
tree=$PWD/tree
mkdir -p "$tree/tests/support/run" "$tree/tools" "$tree/.ci" "$tree/include/haul" stubs cache
cp "$HAUL_SOURCE/.ci/run" "$tree/.ci"
cp "$HAUL_SOURCE/Makefile" "$HAUL_SOURCE/CMakePresets.json" "$tree"
cp "$HAUL_SOURCE/tests/support/run/"{run-tests,choose-tests,check-syntax} "$tree/tests/support/run"
cp "$HAUL_SOURCE/include/haul/base.h" "$tree/include/haul"
printf '#!/bin/sh\n' >"$tree/tools/setup"
cp "$tree/tools/setup" stubs/cmake
chmod +x "$tree/tools/setup" stubs/cmake
git init -q "$tree"
git -C "$tree" -c user.name=none -c user.email=none commit -q --allow-empty -m "A tree" || exit 1

labels='threads;core'
# tests FOLDER LINE...: the tests of a build; each line is a name, which is $0, and what bash runs in the folder. The labels
# are those of tests that run under ThreadSanitizer, and with every commit.
tests() {
    local folder=$tree/$1 line
    shift
    rm -rf "$folder"
    mkdir "$folder"
    for line in "$@"; do
        printf 'add_test("%s" bash -c [==[%s]==] "%s")\nset_tests_properties("%s" PROPERTIES LABELS "%s")\n' \
            "${line%% *}" "${line#* }" "${line%% *}" "${line%% *}" "$labels" >>"$folder/CTestTestfile.cmake"
    done
}

on_ci= # not empty: as on a machine that runs nothing else
# ci CODE STAGE...: .ci/run must end with that code; what it says is in the file out.
ci() {
    local want=$1 got
    shift
    env -u CTEST_PARALLEL_LEVEL CI="$on_ci" PATH="$PWD/stubs:$PATH" XDG_CACHE_HOME="$PWD/cache" HAUL_TEST_DATA=none \
        "$tree/.ci/run" "$@" >out 2>&1
    got=$?
    check ".ci/run $* ends with $want" test $got -eq "$want" || cat out >&2
    newest=$(find cache/haul-ci-logs -mindepth 1 -maxdepth 1 | sort | tail -n 1)
}

says() { check "says: $1" grep -qxF -- "$1" out; }
last_says() { check "ends with: $1" test "$(tail -n 1 out)" = "$1"; }

once='if [ -e seen-$0 ]; then echo second-words; else touch seen-$0; echo first-words; exit 1; fi'

# All pass.
tests build "good true" "fine true"
tests build-asan "good true"
tests build-tsan "good true"
ci 0 test asan tsan
check "nothing is flaky" test "$(grep -ci flaky out)" -eq 0
last_says "100% tests passed, 0 tests failed out of 4"
check "the summary has the times of a stage" grep -qE '^asan +[0-9]+ s, [0-9]+ s of them to build$' out

# In each of the stages, one passes the second time only. Names may have characters of regular expressions.
tests build "good true" "a+b $once" "fine true"
tests build-asan "slow[1] $once" "good true"
tests build-tsan "races $once" "also $once" "good true"
ci 0 test asan tsan
for name in a+b 'slow[1]' races also; do
    says "flaky: $name"
    check "$name is named by its stage and by the summary" test "$(grep -cxF "flaky: $name" out)" -eq 2
    check "$name is named in the summary" test -n "$(sed -n '/^total /,$p' out | grep -xF "flaky: $name")"
done
check "no other is flaky" test "$(grep -c '^flaky: ' out)" -eq 8
last_says "100% tests passed, 0 tests failed out of 8"
for stage in test asan tsan; do
    check "the first output of $stage is kept" grep -q first-words "$newest/$stage-1.log"
    check "the second output of $stage is kept" grep -q second-words "$newest/$stage-2.log"
done
check "it says where" grep -qF "$PWD/$newest" out

# One fails twice: the run fails, and names it; one that only failed once is still named as flaky.
tests build "good true" "broken echo broken-words; exit 1" "unsteady $once"
ci 1 test asan
says "flaky: unsteady"
check "broken is not flaky" test "$(grep -c '^flaky: broken' out)" -eq 0
check "it says which failed twice" test -n "$(sed -n '/^These tests failed twice/,$p' out | grep -x broken)"
check "the stage fails" grep -q '^== test FAILED' out
check "the run stops" test "$(grep -c '^== asan' out)" -eq 0
check "no closing line" test "$(grep -c '^100% tests passed' out)" -eq 0
check "the first output is kept" grep -q broken-words "$newest/test-1.log"
check "the second output is kept" grep -q broken-words "$newest/test-2.log"

# ran LEAST MOST: what ran of 122 tests.
ran() {
    local count
    count=$(sed -n 's/^100% tests passed, 0 tests failed out of //p' out | tail -n 1)
    check "$count of 122 tests run, of $1 to $2" test "$count" -ge "$1" -a "$count" -le "$2"
}

# Of tests that are not in the core, a tenth runs under a sanitizer; --all and WHOLE run the rest, too.
mapfile -t many < <(printf 'name_%s true\n' {1..120})
tests build-asan "good true" "fine true"
core=$(<"$tree/build-asan/CTestTestfile.cmake")
labels=threads
tests build-asan "${many[@]}"
printf '%s\n' "$core" >>"$tree/build-asan/CTestTestfile.cmake"
cp -r "$tree/build-asan" "$tree/build-tsan.new"
rm -rf "$tree/build-tsan"
mv "$tree/build-tsan.new" "$tree/build-tsan"
for preset in asan tsan; do
    ci 0 $preset
    ran 3 60
    check "it says how to run the others" grep -qxF "the others, too: .ci/run --all $preset" out
    ci 0 --all $preset
    ran 122 122
done
WHOLE=1 ci 0 asan
ran 122 122

# Of the slow tests, a fifth runs without a sanitizer; all others do.
labels=slow
tests build "${many[@]}"
printf '%s\n' "$core" >>"$tree/build/CTestTestfile.cmake"
ci 0 test
ran 3 80
ci 0 --all test
ran 122 122
labels='threads;core'

# The stage clang parses what the build would compile, with its flags.
mkdir "$tree/build-clang"
echo 'int f(void) { return 0; }' >"$tree/build-clang/good.c"
echo 'int f(void) { int unused; return 0; }' >"$tree/build-clang/bad.c"
compiles() {
    printf '[{"directory": "%s", "file": "%s", "command": "%s -Wall -Werror -o %s.o -c %s"}]' "$tree/build-clang" "$1" \
        "$HAUL_CC" "$1" "$1" >"$tree/build-clang/compile_commands.json"
}
compiles good.c
ci 0 clang
says "1 files were checked, 0 have errors"
compiles bad.c
ci 1 clang
check "it shows the warning" grep -q 'unused variable' out

# ctest itself fails.
printf 'message(FATAL_ERROR "no tests")\n' >"$tree/build-asan/CTestTestfile.cmake"
ci 1 asan

# Users get ctest as it is.
tests build "unsteady $once"
(cd "$tree" && PATH="$OLDPWD/stubs:$PATH" make --no-print-directory test >../out 2>&1)
check "make test repeats nothing" test $? -ne 0 -a "$(grep -c '^flaky' out)" -eq 0

# Where nobody works in the tree, a build of a stage is gone after it, and the one that later stages need stays.
tests build "good true"
tests build-asan "good true"
on_ci=true
ci 0 test asan
on_ci=
check "the build of asan is gone" test ! -e "$tree/build-asan"
check "the build is there" test -e "$tree/build"

# Only the newest runs are kept.
tests build "good true"
for _ in 1 2 3 4; do
    ci 0 test
done
check "five are kept" test "$(find cache/haul-ci-logs -mindepth 1 -maxdepth 1 | wc -l)" -eq 5
check "this one, too" test -s "$newest/test-1.log"

# For a script the hostile stage builds what the script runs.
mkdir -p "$tree/tests/group" "$tree/examples" "$tree/build-script"
touch "$tree/tests/group/test_tree.c" "$tree/examples/small.c"
echo '"$HAUL_BUILD/tests/test_tree"; "$HAUL_BUILD/examples/small"; test_none; gcc -lhaul' >"$tree/tests/group/script.sh"
echo "add_test(scripted bash \"$tree/tests/group/script.sh\")" >"$tree/build-script/CTestTestfile.cmake"
for commit in {1..50}; do
    "$tree/tests/support/run/choose-tests" hostile "$commit" --test-dir "$tree/build-script" 2>/dev/null
done | sort -u >out
check "what a script needs is built" test "$(cat out)" = "scripted haul_cli test_tree example_small libhaul.so"
finish
