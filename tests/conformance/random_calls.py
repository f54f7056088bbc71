"""Random calls of every public function, with objects that are wrong, stale or missing: errors, but no crash, nothing
leaks, and a call that succeeds records no error. The calls are written from the headers; random_calls/driver.c makes them, with HAUL_DEBUG=lifetimes.

HAUL_TEST_CALLS=N makes N calls (65000; 10000 under sanitizers), HAUL_TEST_THREADS=N makes them from N threads, HAUL_TEST_SEED=N draws others."""
# ctest: labels=slow
import json
import os
import re
import subprocess
import sys

source, build = os.environ["HAUL_SOURCE"], os.environ["HAUL_BUILD"]
sanitize = os.environ.get("HAUL_SANITIZE", "")
compiler = os.environ["HAUL_CC"].split()
visible = '__attribute__((visibility("default")))'

# Not called at random, and why.
LEFT_OUT = {
    "haul_error_set": "takes a format", "haul_tensor_fail": "takes a format",
    "haul_scope_push": "in the driver", "haul_scope_push_named": "in the driver", "haul_scope_pop": "in the driver",
    "haul_scope_return": "in the driver", "haul_keep": "in the driver", "haul_take": "in the driver",
    "haul_release": "in the driver", "haul_drop": "in the driver", "haul_estimate": "in the driver",
    "haul_estimate_free": "in the driver", "haul_program_record": "in the driver",
    "haul_program_free": "in the driver", "haul_plan_new_with": "in the driver", "haul_fit_with": "in the driver", "haul_recording_run": "in the driver", "haul_loader_next": "in the driver",
    "haul_batch_tensor": "in the driver", "haul_batch_lengths": "in the driver",
    "haul_example_field": "in the driver", "haul_example_resize": "in the driver",
    "haul_events_subscribe_with": "subscribers run within calls", "haul_events_unsubscribe": "needs a subscriber",
    "haul_to_dlpack": "the result has a deleter", "haul_to_dlpack_legacy": "the result has a deleter",
    "haul_from_dlpack": "takes a struct of another library", "haul_from_dlpack_legacy": "takes a struct of another library",
    "haul_fetch_with": "opens connections", "haul_group_run": "starts threads",
    "haul_unmap": "frees what the program still has a pointer to",
}
KINDS = {"haul_tensor": "TENSOR", "haul_module": "MODULE", "haul_optimizer": "OPTIMIZER", "haul_dataset": "DATASET",
         "haul_loader": "LOADER", "haul_transform": "TRANSFORM", "haul_grad_scaler": "SCALER", "haul_generator": "GENERATOR",
         "haul_schedule": "SCHEDULE", "haul_average": "AVERAGE", "haul_ledger": "LEDGER", "haul_profile": "PROFILE",
         "haul_safetensors": "SAFETENSORS", "haul_best_weights": "BEST_WEIGHTS",
         "haul_recording": "RECORDING", "haul_parallel": "PARALLEL", "haul_plan": "PLAN", "haul_group": "GROUP"}
VALUES = {"double": "number(r)", "unsigned": "(unsigned)(next(r) % 80)", "int64_t": "integer(r)", "uint64_t": "(uint64_t)integer(r)", "_Bool": "one_in(r, 2)", "char": "one_in(r, 4) ? '.' : 0",
          "size_t": "size(r)", "haul_dtype": "dtype(r)", "haul_shape": "shape(r)", "const char *": "text(r)",
          "haul_device *": "device(r)", "haul_scope *": "scope(r)", "haul_tensor *const *": "one_in(r, 40) ? NULL : r->tensors",
          "haul_tensor **": "one_in(r, 40) ? NULL : r->outs", "haul_module *const *": "r->modules",
          "const haul_named_tensor *": "one_in(r, 40) ? NULL : r->named",
          "const haul_text_pair *": "one_in(r, 40) ? NULL : r->pairs", "const int *": "one_in(r, 40) ? NULL : r->axes",
          "const int64_t *": "one_in(r, 40) ? NULL : r->numbers", "const double *": "(const double *)memory(r)",
          "haul_schedule *const *": "one_in(r, 40) ? NULL : r->schedules",
          "haul_average *const *": "one_in(r, 40) ? NULL : r->averages",
          "haul_optimizer *const *": "one_in(r, 40) ? NULL : r->optimizers",
          "const char **": "r->texts", "haul_forward *": "one_in(r, 40) ? NULL : forward",
          "haul_function *": "one_in(r, 40) ? NULL : function",
          "haul_module_function *": "one_in(r, 40) ? NULL : visit",
          "haul_optimizer_function *": "one_in(r, 40) ? NULL : update",
          "haul_optimizer_closure *": "one_in(r, 40) ? NULL : closure",
          "haul_gradient_hook *": "one_in(r, 40) ? NULL : gradient_hook",
          "haul_leaf_hook *": "one_in(r, 40) ? NULL : leaf_hook",
          "haul_step_function *": "one_in(r, 40) ? NULL : recorded", "haul_call_watcher *": "NULL",
          "haul_custom_operation *": "one_in(r, 40) ? NULL : operation(r)",
          "haul_example_function *": "NULL", "haul_transform *const *": "one_in(r, 40) ? NULL : r->transforms",
          "haul_dataset *const *": "one_in(r, 40) ? NULL : r->datasets",
          "haul_dataset **": "one_in(r, 40) ? NULL : r->parts",
          "const haul_dataset_source *": "one_in(r, 40) ? NULL : &source", "haul_hook *": "one_in(r, 40) ? NULL : hook",
          "haul_early_stop *": "one_in(r, 40) ? NULL : (haul_early_stop *)fill_haul_early_stop(r)",
          "haul_named_module *": "(haul_named_module *)memory(r)", "const haul_named_module *": "one_in(r, 40) ? NULL : r->children"}
LENGTHS = {"count", "capacity", "extra_count", "metadata_count", "optimizer_count", "schedule_count",
           "average_count"}  # of lists in the driver


def fail(text):
    print(text, file=sys.stderr)
    sys.exit(1)


def preprocessed():
    done = subprocess.run([*compiler, "-std=c11", "-E", "-P", "-x", "c", "-I", f"{source}/include", "-"], text=True,
                          input="#include <haul/haul.h>\n", stdout=subprocess.PIPE, check=True)
    return re.sub(r"\s+", " ", re.sub(r"__extension__|__attribute__\(\((?!visibility).*?\)\)\)?", " ", done.stdout))


def functions(text):
    """(result, name, [(type, name)])"""
    for piece in text.split(visible)[1:]:
        declaration = piece.split(";")[0].strip()
        found = re.match(r"(.*?)\b(haul_\w+) ?\((.*)\)$", declaration)
        if not found:
            if declaration.startswith("extern"):
                continue
            fail(f"not understood: {declaration}")
        parameters = []
        for one in re.split(r",(?![^(]*\))", found[3]):
            one = one.strip()
            if "(*" in one or one == "...":
                parameters.append(("function", ""))
            elif one != "void":
                parts = re.match(r"(.*?)(\w+)$", one) or fail(f"not understood: {one}")
                parameters.append((parts[1].strip(), parts[2]))
        yield found[1].strip(), found[2], parameters


def value(type_name, name, structs, enums):
    """An expression for a parameter or an option."""
    if type_name == "int":
        return "length(r)" if name in LENGTHS else "(int)integer(r)"
    if name == "index_count":
        return "length(r)"
    if type_name in VALUES:
        return VALUES[type_name]
    plain = re.sub(r"^const ", "", type_name)
    pointed = re.match(r"(\w+) \*$", plain)
    if pointed and pointed[1] in KINDS:
        return f"object(r, {KINDS[pointed[1]]})"
    if plain in VALUES:
        return VALUES[plain]
    if type_name == "function":
        return "NULL"
    if type_name.startswith("const ") and pointed and pointed[1] in structs:
        return f"one_in(r, 40) ? NULL : fill_{pointed[1]}(r)"
    if pointed:
        return "memory(r)"
    if plain in enums:
        return f"({plain})(next(r) % 5)"
    if plain in structs:
        return f"({plain}){{0}}"
    return fail(f"no value for a {type_name} {name}: random_calls.py should have one")


def fields(body):
    for one in body.split(";"):
        one = one.strip()
        if not one or "haul__guard" in one or "[0]" in one or "(*" in one:
            continue
        parts = re.match(r"((?:const )?(?:struct )?\w+) (.*)$", one)
        for name in parts[2].split(","):
            name = name.strip()
            stars = re.match(r"[* ]*(?:const \*)?", name)[0]
            name, stars = name[len(stars):], re.sub(r"\* \*", "**", stars)
            array = re.match(r"(\w+)\[([^\]]+)\]$", name)
            yield f"{parts[1]} {stars}".strip(), array[1] if array else name, array and array[2]


def filler(name, body, structs, enums):
    lines = [f"static const {name} *fill_{name}(run *r)", "{", f"    static _Thread_local {name} o;",
             "    memset(&o, 0, sizeof o);"]
    for type_name, field, array in fields(body):
        if type_name in structs or field.startswith("haul__"):
            continue  # left at zero: not given
        what = value(type_name, field, structs, enums)
        to = f"o.{field}[next(r) % ({array})]" if array else f"o.{field}"
        if array and type_name == "haul_tensor *":  # a list from the first one on
            lines.append(f"    for (unsigned i = 0, n = next(r) % 4; i < n && i < {array}; i++)\n        o.{field}[i] = {what};")
            continue
        lines.append(f"    if (one_in(r, 2))\n        {to} = {what};")
    return "\n".join([*lines, "    return &o;", "}", ""])


def held(result, call):
    pointed = re.match(r"(?:const )?(\w+) \*$", result)
    if result == "haul_status":
        return f"r->succeeded = !{call};"
    if result == "haul_tensor *":
        return f"hold_tensor(r, {call});"
    if pointed and pointed[1] in KINDS:
        return f"r->succeeded = hold(r, {KINDS[pointed[1]]}, {call});"
    return f"look_at({call});" if result == "const char *" else f"(void){call};"


def write_calls():
    text = preprocessed()
    structs = dict((b, a) for a, b in re.findall(r"typedef struct \w+ \{ ((?:[^{}]|\{[^{}]*\})*)\} (\w+)", text))
    enums = set(re.findall(r"typedef enum \w+ \{[^{}]*\} (\w+)", text))
    out, names = [], []
    wanted = [f for f in functions(text) if f[1] not in LEFT_OUT]
    taken = {re.sub(r"^const | \*$", "", t) for f in wanted for t, _ in f[2]}
    for name, body in structs.items():
        if name in taken and any(t == f"const {name} *" for f in wanted for t, _ in f[2]) and f"const {name} *" not in VALUES:
            out.append(filler(name, body, structs, enums))
    for result, name, parameters in wanted:
        call = f"{name}({', '.join(value(t, n, structs, enums) for t, n in parameters)})"
        out.append(f"static void call_{name}(run *r)\n{{\n    (void)r;\n    {held(result, call)}\n}}\n")
        names.append(name)
    rows = "".join(f'    {{"{n}", call_{n}}},\n' for n in names)
    out.append("static const struct {\n    const char *name;\n    void (*call)(run *r);\n} calls[] = {\n" + rows + "};\n")
    with open("calls.h", "w", encoding="utf-8") as f:
        f.write("\n".join(out))
    with open("count.h", "w", encoding="utf-8") as f:
        f.write(f"enum {{ CALLS = {len(names)} }};\n")
    return set(names)


called = write_calls()
listed = json.loads(subprocess.run([os.environ["HAUL"], "ops", "--json"], stdout=subprocess.PIPE, check=True).stdout)
public = {o["name"] for o in listed}
missing = {n for n in public if n not in called and f"{n}_with" not in called and n not in LEFT_OUT}
declared = {m for m in missing if re.search(rf"\b{m}\b", preprocessed())}
if declared:
    fail(f"never called: {', '.join(sorted(declared))}")
flags = [f"-fsanitize={sanitize}", "-fno-sanitize-recover=undefined"] if sanitize else []
built = subprocess.run([*compiler, "-std=c11", "-g", "-O1", *flags, "-I", f"{source}/include", "-I", ".",
                        f"{source}/tests/conformance/random_calls/driver.c", "-o", "driver", "-L", build, "-lhaul", "-lm", "-lpthread",
                        f"-Wl,-rpath,{build}"], check=False)
if built.returncode:
    fail("random_calls/driver.c does not compile")
count = os.environ.get("HAUL_TEST_CALLS", "10000" if sanitize else "65000")
seed = os.environ.get("HAUL_TEST_SEED", "1")
threads = os.environ.get("HAUL_TEST_THREADS")
environment = dict(os.environ, HAUL_DEBUG="lifetimes", OCL_ICD_VENDORS="none", HAUL_CUDA_LIBRARIES="/nowhere")
for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"):  # requests that are too large fail, as they do without sanitizers
    environment[name] = ":".join(filter(None, [os.environ.get(name), "allocator_may_return_null=1"]))
for number in [threads] if threads else ["1", "8"]:
    done = subprocess.run(["./driver", count, number, seed], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          env=environment, check=False)
    print(f"{number} threads: exit {done.returncode}: {done.stderr[-4000:]}")
    if done.returncode:
        sys.exit(1)
