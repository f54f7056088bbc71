# The table of a backend stays small, and only the device layer reads it.
# ctest: labels=once
cd "$HAUL_SOURCE" || exit 1
count=$(sed -n '/^typedef struct haul__backend {/,/^} haul__backend;/p' src/backends/backend.h | grep -c '(\*')
if [ "$count" -gt 24 ] || [ "$count" -lt 1 ]; then
    echo "haul__backend has $count functions; 1 to 24 are expected"
    exit 1
fi
if grep -rnE 'backend->|haul__backend \*' src cli --include='*.c' --include='*.h' | grep -v '^src/\(device\|backends\)/'; then
    echo "only src/device reads the table of a backend; ask it by a function of device/device.h"
    exit 1
fi
