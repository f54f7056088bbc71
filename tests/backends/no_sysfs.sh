# Where /sys is missing or cannot be read, PoCL would end the process: Haul does not open OpenCL there, and says why. And a
# program that names the CPU opens no driver.
. "$HAUL_SOURCE/tests/support/cli.sh"

# opened ARGUMENT...: what haul opens of drivers and their loaders.
opened() { LD_DEBUG=files "$HAUL" "$@" 2>&1 >/dev/null | grep -oE 'file=(libOpenCL|libpocl|libcuda|libnvidia-ml)[^ ]*' | sort -u; }

for arguments in "--version" "train ${small[*]} --epochs 1" "ops relu" "train ${small[*]} --epochs 1 --estimate"; do
    check "haul $arguments opens no driver" test -z "$(opened $arguments)"
done
check "haul devices looks for OpenCL" test -n "$(opened devices | grep libOpenCL)"

if ! unshare -m mount -t tmpfs none /sys 2>/dev/null; then
    echo "skipped: only root may mount, and not in every container"
    [ "$failures" -eq 0 ] && exit 77
    finish
fi

# without WHAT ARGUMENT...: haul where WHAT, a command, was done to the file system.
without() {
    local what=$1
    shift
    unshare -m bash -c "$what && exec \"\$@\"" - "$HAUL" "$@" >out 2>err
}

cpu0=$(readlink -f /sys/devices/system/cpu/cpu0)
for what in "mount -t tmpfs none /sys" "mount -t tmpfs none $cpu0"; do
    without "$what" devices
    check "$what: haul devices ends well" test $? -eq 0 || cat out err >&2
    check "it shows the CPU" grep -q '^cpu' out
    without "$what" devices --json
    check "it says why there is no OpenCL" "$HAUL_PYTHON" -c '
import json, sys
found = [d for d in json.load(open("out"))["devices"] if d["name"].startswith("opencl")]
sys.exit(not (len(found) == 1 and not found[0]["usable"] and "mount /sys" in found[0]["reason"]))' || cat out >&2
    without "$what" train --data blobs:64 --model dense --epochs 1 --device auto --workers 0
    check "--device auto takes the CPU" test $? -eq 0 || cat out err >&2
    without "$what" train --data blobs:64 --model dense --epochs 1 --device opencl:0 --workers 0
    check "--device opencl:0 is an error" test $? -eq 1
    check "which says why" grep -q "mount /sys" err
done
finish
