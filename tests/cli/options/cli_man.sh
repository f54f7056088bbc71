# The manual page: what help says is there, and nothing that man complains of.
# ctest: labels=once
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

run 0 manual
cp out haul.1
check "its first line names it" grep -qx '\.TH HAUL 1 "" "haul [0-9.]*\(-dev\)\?" "User commands"' haul.1
for heading in NAME SYNOPSIS DESCRIPTION FILES ENVIRONMENT SIGNALS "EXIT STATUS" EXAMPLES; do
    check "has $heading" grep -qx "\.SH $heading" haul.1
done
# Text in a line of its own that begins with a dot would be a request.
check "only known requests" test -z "$(grep '^[.'"'"']' haul.1 | grep -vE '^\.(TH|SH|SS|TP|B|br|nf|fi|nh|ad|PP)( |$)')"
plain=$(sed 's/\\f[BIR]//g; s/\\-/-/g' haul.1)
run 0 --help
commands=$(sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' out)
check "help lists the commands" test "$(wc -w <<<"$commands")" -ge 8
for command in $commands; do
    check "describes haul $command" grep -qix "\.SH haul $command" <<<"$plain"
    "$HAUL" $command --help >out
    for option in $(grep -o '^ *\(-., \)\?--[a-z-]*' out | sed 's/.*--/--/' | grep -vx -- --help); do
        check "describes --$option" grep -qE "^(-., )?$option( |\$)" <<<"$plain"
    done
done
for name in HAUL_NUM_THREADS HAUL_CPU_LEVEL HAUL_WITHOUT HAUL_DEBUG HAUL_CACHE_DIR; do
    check "describes $name" grep -q "^\.B .*$name" haul.1
done
run 2 manual page
complains "unexpected argument"

if command -v man >/dev/null && command -v groff >/dev/null; then
    MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings ./haul.1 >page 2>err
    check "man has no complaints" test ! -s err
    check "80 columns" test "$(awk '{ if (length($0) > most) most = length($0) } END { print most }' page)" -le 80
    check "the defaults are there" grep -q 'default sgd' page
else
    echo "man or groff is not installed: the page is not formatted"
fi
finish
