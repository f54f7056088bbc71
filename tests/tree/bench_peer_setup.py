# bench/peer_setup.py without a network: stand-ins for libraries that are not there, with their symbols' versions and
# without; what it refuses and says; and what tools/setup --bench --dry-run announces.
# ctest: labels=once
import ctypes, os, shutil, subprocess, sys

SOURCE = os.environ["HAUL_SOURCE"]
SETUP = os.path.join(SOURCE, "bench", "peer_setup.py")
failed = 0

missing = [tool for tool in ("cc", "nm", "readelf") if not shutil.which(tool)]
if missing or os.environ.get("HAUL_SANITIZE"):
    print("skipped:", ", ".join(missing) + " not found" if missing else "nothing here is sanitized")
    sys.exit(77)


def check(what, condition, shown=""):
    global failed
    if not condition:
        print(f"{what}: no\n{shown}", file=sys.stderr)
        failed += 1


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, mode)


def cc(text, out, *options):
    write("source.c", text)
    subprocess.run(["cc", "-shared", "-fPIC", "source.c", "-o", out, "-Wl,-soname," + os.path.basename(out), *options],
                   check=True)


def make_installation(folder):
    """An environment whose PyTorch needs two libraries that are then removed: one with versions of its symbols. It takes
    the address of a function of the first, as only a library that defines it allows."""
    libraries = os.path.join(folder, "lib", "torch", "lib")
    os.makedirs(libraries)
    write(os.path.join(folder, "bin", "python"), f"#!/bin/sh\necho {os.path.abspath(folder)}/lib\n", 0o755)
    write("script", "one.1 { global: cuOne; };\none.2 { global: cuTwo; };\n")
    cc("int cuOne(void) { return 1; } int cuTwo(void) { return 2; }", f"{libraries}/libcuone.so.1",
       "-Wl,--version-script=script")
    cc("int ncclThree(void) { return 3; }", f"{libraries}/libnccl.so.2")
    cc("int cuOne(void), cuTwo(void), ncclThree(void);\nint (*one)(void) = cuOne;\nint cuOwn(void) { return 4; }\n"
       "int total(void) { return one() + cuTwo() + ncclThree() + cuOwn(); }",
       f"{libraries}/libtorch_cpu.so", f"{libraries}/libcuone.so.1", f"{libraries}/libnccl.so.2", "-Wl,-rpath,$ORIGIN")
    os.remove(f"{libraries}/libcuone.so.1")
    os.remove(f"{libraries}/libnccl.so.2")
    return libraries


def test_stand_ins():
    libraries = make_installation("fake")
    try:
        ctypes.CDLL(os.path.abspath(f"{libraries}/libtorch_cpu.so"))
        check("it cannot be loaded before", False)
    except OSError:
        pass
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.dirname(SETUP))
    import peer_setup

    peer_setup.write_stand_ins("fake")
    check("the stand-ins", sorted(os.listdir(libraries)) == ["libcuone.so.1", "libnccl.so.2", "libtorch_cpu.so"])
    total = ctypes.CDLL(os.path.abspath(f"{libraries}/libtorch_cpu.so")).total()
    check("all functions say that there is no device, but for its own", total == 304, total)


def run(*command, **variables):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | variables)
    return done.returncode, done.stdout + done.stderr


def test_messages():
    os.mkdir("other")
    write("other/precious", "")
    code, said = run(sys.executable, SETUP, "other")
    check("another folder is refused", code == 1 and said.strip().endswith("is not a virtual environment"), said)
    check("and stays", os.path.exists("other/precious"))
    # Nothing listens on this port.
    code, said = run(sys.executable, SETUP, "new", PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0",
                     PIP_FIND_LINKS="", PIP_EXTRA_INDEX_URL="", PIP_CONFIG_FILE=os.devnull)
    if "python3-venv" not in said and "free space" not in said:
        check("no network", code == 1 and said.startswith("pip could not install PyTorch (is there a network?)"), said)
    check("nothing is left", not os.path.exists("new"))
    write("works/bin/python", "#!/bin/sh\necho 9.9\n", 0o755)
    check("what works is left alone", run(sys.executable, SETUP, "works") == (0, ""))


def test_dry_run():
    if not shutil.which("apt-get") or not shutil.which("dpkg-query"):
        return
    setup = os.path.join(SOURCE, "tools", "setup")
    line = f"the newest PyTorch of PyPI, by pip, in {os.getcwd()}/haul-bench-python"
    code, said = run(setup, "--bench", "--dry-run", XDG_CACHE_HOME=os.getcwd())
    check("the dry run names the folder", code == 0 and line in said, said)
    check("and makes nothing", not os.path.exists("haul-bench-python"))
    write("haul-bench-python/bin/python", "#!/bin/sh\nexit 0\n", 0o755)
    code, said = run(setup, "--bench", "--dry-run", XDG_CACHE_HOME=os.getcwd())
    check("what is there is not announced", code == 0 and "PyPI" not in said, said)
    check("a dry run is not silent", "tools/setup would install" in said, said)


for test in (test_stand_ins, test_messages, test_dry_run):
    test()
sys.exit(1 if failed else 0)
