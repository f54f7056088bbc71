# An installed Haul works for a program outside the tree.
# ctest: labels=once
if [ -n "$HAUL_SANITIZE" ]; then
    echo "skipped: a sanitized library needs a sanitized program"
    exit 77
fi
set -e
DESTDIR= cmake --install "$HAUL_BUILD" --prefix "$PWD/prefix" >install.log
# The same files come out below DESTDIR.
DESTDIR=$PWD/root cmake --install "$HAUL_BUILD" --prefix /usr >install.log
[ -e root/usr/bin/haul ]
# The package may be moved: nothing in it names where it was built or installed.
mv prefix moved
if grep -rIl "$PWD/prefix" moved; then
    echo "these files name the prefix" >&2
    exit 1
fi
bash "$HAUL_SOURCE/tests/tree/install/check" "$PWD/moved" "$PWD/outside"
