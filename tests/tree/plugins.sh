# Programs that load Haul late, several times over, as plugins that contain it: the copies find room for what the library
# keeps for each thread, and a thread that used one may end after it was closed.
. "$HAUL_SOURCE/tests/support/cli.sh"
[ -z "${HAUL_SANITIZE:-}" ] || { echo "skipped: a sanitized library needs sanitized programs"; exit 77; }

"$HAUL_CC" -std=gnu11 -O1 -I "$HAUL_SOURCE/include" -o host "$HAUL_SOURCE/tests/tree/plugins/host.c" -ldl -lpthread || exit 1
shared=$(readlink -f "$HAUL_BUILD/libhaul.so")
copies=()
for i in 1 2; do
    cp "$shared" "copy$i.so"
    copies+=("$PWD/copy$i.so")
done
export OCL_ICD_VENDORS=none HAUL_CUDA_LIBRARIES=/nowhere
check "one, closed before its threads end" ./host "${copies[0]}"
check "two copies" ./host "${copies[@]}"

# The static library in two plugins.
echo 'int none;' >none.c
for i in 1 2; do
    "$HAUL_CC" -shared -fPIC -o "plugin$i.so" none.c -Wl,--whole-archive "$HAUL_BUILD/libhaul.a" -Wl,--no-whole-archive \
        $(sed -n 's/^Libs.private: //p' "$HAUL_BUILD/haul.pc") $(pkg-config --libs $(sed -n 's/^Requires.private: //p' "$HAUL_BUILD/haul.pc")) ||
        check "plugin$i links" false
done
check "plugins with the static library" ./host "$PWD/plugin1.so" "$PWD/plugin2.so"
finish
