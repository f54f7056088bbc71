# haul top in tmux at 40, 80 and 160 columns, its keys, and how little it sends over a slow link.
# ctest: processors=2
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["HAUL_SOURCE"], "tests", "support", "python"))
from top import HAUL, LIMIT, check, environment, finish, processes, train, wait_until  # noqa: E402

version = subprocess.run([HAUL, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
if "ncurses" not in version:
    print("skipped: this build has no screen")
    sys.exit(77)
if not shutil.which("tmux"):
    print("skipped: tmux is not installed")
    sys.exit(77)


class Screen:
    """A terminal with haul top in it."""

    def __init__(self, width, height, **more):
        self.width, self.height = width, height
        self.folder = tempfile.mkdtemp(prefix="haul-top")
        line = "; ".join([f"{HAUL} top", 'echo "left with $?"', "cat"])
        self.tmux("new-session", "-d", "-x", str(width), "-y", str(height), line, env=environment(**more))

    def tmux(self, *arguments, env=None):
        done = subprocess.run(["tmux", "-S", self.folder + "/s", "-f", "/dev/null", "-u", *arguments], env=env,
                              stdout=subprocess.PIPE, text=True)
        return done.stdout

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def lines(self, styles=False):
        return self.tmux("capture-pane", "-p", *(["-e"] if styles else [])).split("\n")[:self.height]

    def text(self):
        return "\n".join(self.lines())

    def shows(self, what, styles=False):
        return wait_until(lambda: what in "\n".join(self.lines(styles)))

    def resize(self, width, height):
        self.width, self.height = width, height
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def close(self):
        self.tmux("kill-server")
        shutil.rmtree(self.folder)


def graphs_of(screen):
    """The first lines of the graphs of a history; [] unless it has all of them."""
    titles = ("LOSS ", "ACCURACY ", "EX./S ", "STEP ms ", "ALLOC ", "WAITS/S ")
    lines = [i for i, line in enumerate(screen.lines()) if line.startswith(titles)]
    return lines if len(lines) == len(titles) else []


def row_of(screen, name):
    return next((line for line in screen.lines() if name in line), "")


jobs = [train("--run", "resnet-with-a-long-name-of-forty-characters"), train("--run", "wide"), train("--run", "tmp")]
screens = []
try:
    wait_until(lambda: len([p for p in processes().values() if p["examples_per_second"]]) == 3)
    jobs[2].send_signal(signal.SIGSTOP)
    for width in (40, 80, 160):
        s = Screen(width, 24)
        screens.append(s)
        check(f"{width} columns", s.shows("wide") and s.shows("stopped") and wait_until(lambda: " %" in row_of(s, "cpu")) and
              s.shows("? help"), s.text())  # the last line, drawn last
        lines = s.lines()
        check("no line is too wide", len(lines) == 24 and all(len(line) <= width for line in lines), s.text())
        check("the head", lines[0].startswith("haul top") and re.search(r"\d\d:\d\d:\d\d$", lines[0]), lines[0])
        check("how often, where it fits", "every 1 s, sorted by EX./S" in lines[0] or width < 160, lines[0])
        check("the keys in the last line", lines[-1].startswith("q quit") and "? help" in lines[-1], lines[-1])
        check("one line is selected", wait_until(lambda: [line[0] for line in s.lines() if line].count(">") == 1), s.text())
        check("an epoch", re.search(r"\d+/10+[~ ]", row_of(s, "wide")), row_of(s, "wide"))
        check("the stopped one", re.search(r"stopped \d+s; [\d.]+[MK]" if width == 40 else r"stopped \d+s ago; [\d.]+[MK] reserved on cpu",
                                           row_of(s, "tmp")), row_of(s, "tmp"))
        check("titles", wait_until(lambda: ("COPY/S" in s.text()) == (width == 80) and ("COPIES/S" in s.text()) == (width == 160)),
              s.text())
        check("details of the selected one", wait_until(lambda: (" waits/s" in s.text()) == (width == 40)), s.text())
        check("memory of the device", wait_until(lambda: ("used/total" in s.text()) == (width >= 80)), s.text())
        print(s.text())

    # ---- keys ----

    s = screens[1]
    s.press("s")
    check("s sorts", s.shows("by MEMORY"), s.text())
    s.press("s", "s", "s")
    check("by name", s.shows("by NAME") and wait_until(lambda: -1 < s.text().find("resnet") < s.text().find("wide")), s.text())
    before = next(line for line in s.lines() if line.startswith(">"))
    s.press("Up", "Up", "Up", "Down")
    check("arrows select", wait_until(lambda: [l for l in s.lines() if l.startswith(">")] != [before]), s.text())
    s.press("/")
    check("/ asks for a text", s.shows("filter: _"), s.text())
    s.press("w", "I", "x", "BSpace", "d")
    check("it filters", wait_until(lambda: "wide" in s.text() and "resnet" not in s.text()), s.text())
    s.press("Enter")
    check("and goes on", s.shows("q quit") and wait_until(lambda: "resnet" not in s.text()), s.text())
    s.press("/", "z", "z", "z")
    check("nothing matches", s.shows('No process matches "wIdzzz"'), s.text())
    s.press("Escape")
    check("esc ends the filter", s.shows("resnet"), s.text())
    s.press("p")
    check("p pauses", s.shows("paused"), s.text())
    clock = s.lines()[0][-8:]
    first = [line for line in s.lines() if "wide" in line]
    steps = processes()[jobs[1].pid]["steps"]
    wait_until(lambda: processes()[jobs[1].pid]["steps"] > steps + 1000)
    s.press("?") # help covers the screen, which is then drawn again
    s.shows("haul top: keys")
    s.press("x")
    s.shows("paused")
    check("numbers stand still", [line for line in s.lines() if "wide" in line] == first, (clock, first, s.text()))
    s.press("p", "h")
    check("h shows history", s.shows("EX./S") and s.shows("WAITS/S") and s.shows("esc back"), s.text())
    check("graphs of loss, accuracy and speeds fill the window", wait_until(lambda: {
        b - a for a, b in zip(graphs_of(s), graphs_of(s)[1:])} == {(s.height - 1) // 6}), s.text())
    s.press("Escape", "?")
    check("? helps", s.shows("haul top: keys"), s.text())
    s.press("x", "+")
    check("any key ends help; + waits longer", wait_until(lambda: re.search("every 2 s, sorted by NAME|2 s  by NAME", s.text())), s.text())
    s.press("c")
    many = os.cpu_count() > 1
    check("c shows each core", not many or wait_until(lambda: re.search(r"^  0 [█·]+ +\d+ %.*  1 [█·]+ +\d+ %", s.text(), re.M)), s.text())
    s.press("c")
    check("else cores have a line", not many or wait_until(lambda: not re.search(r"^  0 [█·]", s.text(), re.M)), s.text())
    s.resize(80, 50)
    check("a high window has a line of cores, and graphs", wait_until(lambda: all(
        re.search(f"^{title}", s.text(), re.M) for title in ("LOSS ", "ACCURACY ", *(["cores "] if many else [])))), s.text())
    check("and its keys in the last line", s.lines()[-1].startswith("q quit"), s.text())
    s.resize(80, 24)
    s.press("t")
    check("t without a GPU that tells", s.shows("No GPU reports its processes.") or "cuda:0" in s.text(), s.text())

    # ---- sizes ----

    s.resize(30, 5)
    check("too small", s.shows("haul top needs 36 x 8"), s.text())
    s.resize(36, 8)
    check("just large enough", s.shows("q quit") and s.shows("cpu") and s.shows(">"), s.text())
    s.resize(120, 30)
    check("large again", s.shows("ALLOCATED") and wait_until(lambda: len(s.lines()[0]) <= 120), s.text())

    # ---- processes that go ----

    jobs[1].kill()
    jobs[1].wait()
    check("ended", s.shows("ended"), s.text())

    # ---- the end ----

    s.press("q")
    check("q quits", s.shows("left with 0"), s.text())
    screens[0].press("C-c")
    check("Ctrl-C quits", screens[0].shows("left with 130"), screens[0].text())

    # ---- without UTF-8, without colours ----

    os.makedirs("root/proc")
    os.makedirs("root/sys/class/hwmon/hwmon0")
    for name, value in [("name", "k10temp"), ("temp1_input", "99000"), ("temp1_max", "90000")]:
        with open(f"root/sys/class/hwmon/hwmon0/{name}", "w") as file:
            file.write(value + "\n")
    hot = {"HAUL_SENSORS_ROOT": os.path.abspath("root"), "HAUL_CUDA_LIBRARIES": "/nowhere"}
    s = Screen(80, 12, LC_ALL="C", **hot)
    screens.append(s)
    check("ASCII", s.shows("99!") and s.shows("# allocated") and s.text().isascii(), s.text())
    red = re.compile(r"\x1b\[[0-9;]*31m[ ]*99!")
    check("a mark in colour", wait_until(lambda: red.search("\n".join(s.lines(styles=True)))), s.lines(styles=True))
    s = Screen(80, 12, NO_COLOR="1", **hot)
    screens.append(s)
    check("the same without", s.shows("99!") and not re.search(r"\x1b\[([0-9;]*;)?[34][0-8][;m]", "\n".join(s.lines(styles=True))),
          s.lines(styles=True))
    check("bold all the same", wait_until(lambda: re.search(r"\x1b\[[0-9;]*1m[ ]*99!", "\n".join(s.lines(styles=True)))),
          s.lines(styles=True))
finally:
    for s in screens:
        s.close()
    for job in jobs:
        job.kill()
        job.wait()


# ---- on a terminal of our own: what is sent ----

def on_terminal(enough, **more):
    """(what came until that is true of it, and then after a q, exit code)"""
    parent, child = pty.openpty()
    process = subprocess.Popen([HAUL, "top"], env=environment(**more), stdin=child, stdout=child, stderr=child)
    os.close(child)
    came = b""
    asked = False
    try:
        while select.select([parent], [], [], LIMIT)[0]:
            came += os.read(parent, 65536)
            if enough(came) and not asked:
                os.write(parent, b"q")
                asked = True
    except OSError:
        pass # it has ended
    code = process.wait(timeout=LIMIT)
    os.close(parent)
    return came, code


came, code = on_terminal(lambda came: len(came.partition(b"used/total")[2].partition(b"quit")[2]) > 150, TERM="xterm")
check("a screen, then only what changes", code == 0 and came.count(b"used/total") == came.count(b"quit") == 1, came)
came, code = on_terminal(lambda came: False, TERM="dumb")
check("TERM=dumb", code == 1 and b"cannot move its cursor; use haul top --once" in came, came)
came, code = on_terminal(lambda came: False, TERM="no-such-terminal")
check("an unknown terminal", code == 1 and b"use haul top --once" in came, came)
finish()
