"""The shared library exports what the public headers declare, all of it and nothing else; the static library's global
names begin with haul_."""
# ctest: labels=once
import os
import re
import subprocess
import sys

build, source = os.environ["HAUL_BUILD"], os.environ["HAUL_SOURCE"]
visible = '__attribute__((visibility("default")))'
runtime = re.compile(r"__(asan|ubsan|tsan|odr_asan)|_init$|_fini$")


def run(*command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def names(*command):
    fields = [line.split() for line in run(*command, stderr=subprocess.DEVNULL).splitlines()]
    return {f[2] for f in fields if len(f) == 3 and not runtime.match(f[2])}


def declared():
    """Names behind HAUL_API, also where a macro declares them."""
    text = run(os.environ["HAUL_CC"], "-std=c11", "-E", "-P", "-x", "c", "-I", source + "/include", "-",
               input="#include <haul/haul.h>\n")
    pieces = [piece.split(";")[0] for piece in text.split(visible)[1:]]
    pieces = [re.sub(r"__attribute__\s*\(\(.*?\)\)\)", "", piece) for piece in pieces]
    return {re.search(r"(\w+)\s*(?:[(=\[]|$)", piece).group(1) for piece in pieces}


def report(what, found):
    global failed
    if found:
        failed = True
        print(what, *sorted(found), sep="\n  ")


failed = False
exported = names("nm", "-D", "--defined-only", build + "/libhaul.so")
wanted = declared()
report("exported, but not declared with HAUL_API in a public header:", exported - wanted)
report("declared in a public header, but not in the library:", wanted - exported)
report("private names that are exported:", {name for name in exported if name.startswith("haul__")})
report("global names of the static library that do not begin with haul_:",
       {name for name in names("nm", "--defined-only", "-g", build + "/libhaul.a") if not name.startswith("haul_")})
print(f"{len(exported)} names are exported, {len(wanted)} declared")
sys.exit(failed)
