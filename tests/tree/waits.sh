# Every wait of the host goes through src/device/wait.c: the backends' hooks that wait, and those in which a driver may
# wait by itself, are called there and nowhere else, so the events that are emitted there are all there are.
# ctest: labels=once
cd "$HAUL_SOURCE" || exit 1
failed=0

# calls HOOK FILE: the places outside of backends that call the hook are in FILE alone.
calls() {
    found=$(grep -rnE "(->|\.)$1\(" src cli --include='*.c' --include='*.h' | grep -v "^src/backends/")
    if [ -z "$found" ] || echo "$found" | grep -qv "^$2:"; then
        echo "$1 is to be called in $2 only, and is called here:"
        echo "$found"
        failed=1
    fi
}
calls sync src/device/wait.c
calls sync_device src/device/wait.c
calls event_query src/device/wait.c
calls alloc src/device/wait.c
calls free src/device/wait.c
calls host_alloc src/device/wait.c
calls host_free src/device/wait.c
calls compile src/device/kernel.c

# Functions of drivers that wait, in the backends: none but those behind the hooks.
# waits PATTERN FUNCTIONS: functions that match stand only in these functions of C files.
waits() {
    pattern=$1
    shift
    for file in src/backends/*/*.c; do
        awk -v pattern="$pattern" -v allowed=" $* " -v file="$file" '
            /^[a-z].*[a-z_]\(/ { name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
            $0 ~ pattern && index(allowed, " " name " ") == 0 { print file ": " name ": " $0; bad = 1 }
            END { exit bad }' "$file" || failed=1
    done
}
# await_compiler waits for PoCL's compiler, once for each kernel, as loading one waits on other devices. show_host
# waits if a driver took a kernel and refuses the next command, after which nobody would wait for the kernel.
waits 'haul__cl\.(Finish|WaitForEvents)\(' wait_for_event haul__cl_stream_close place host_free await_compiler \
    show_host
waits 'wait_for_event\(' wait_for_event haul__cl_sync
waits '(Stream|Event|Ctx)Synchronize\(' haul__cuda_sync haul__cuda_finish haul__cuda_stream_close
waits 'Memcpy(HtoD|DtoH|DtoD)(_v2)?\(|MemsetD(8|16|32)\(' none

# One mechanism tells what happened, the stream of events: waits and copies are emitted where they are made, and nothing
# else in the library keeps a function to be called about what it does.
emits() {
    found=$(grep -rnE "$1" src cli --include='*.c' | grep -v "^src/events/" | grep -vE "^($2):")
    if [ -n "$found" ]; then
        echo "$1 belongs to $2, and stands here:"
        echo "$found"
        failed=1
    fi
}
# cuda/conv2d.c times plans of a library, and opencl/queue.c a driver's compiler, of which no other component knows.
emits 'haul__emit_counted\(' 'src/device/wait.c|src/transfer/transfer.c|src/memory/spill/copy.c|src/backends/cuda/cudnn/conv2d.c|src/backends/opencl/queue.c'
emits 'HAUL_EVENT_(WAITED|FOUND_DONE|DRIVER_CALLED),' 'src/device/wait.c|src/backends/cuda/cudnn/conv2d.c|src/backends/opencl/queue.c'
emits '\(\*(sink|watcher|callback|listener|hook)\)\(|haul_call_watcher \*' 'src/observe/watch/(sync|placement|calls).c'
exit $failed
