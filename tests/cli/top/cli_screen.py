"""What the command shows in a terminal: the progress bar, colours, and texts that fit the width."""
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import termios

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["HAUL_SOURCE"], "tools"))
import screen

haul = os.environ["HAUL"]
failed = 0
TRAIN = [haul, "train", "--model", "dense", "--data", "blobs:256", "--batch", "16", "--epochs", "3", "--log-every", "5",
         "--workers", "1", "--threads", "1", "--device", "cpu"]
ESCAPES = re.compile(r"\x1b\[[0-9;]*[@-~]")
BAR = re.compile(r"\r((?:[^\r\n\x1b]|\x1b\[[0-9;]*m)+)\x1b\[K")  # one line that is drawn over


def check(what, good, shown=""):
    global failed
    if good:
        print("ok   ", what)
        return
    failed += 1
    print("FAILED", what, shown if isinstance(shown, str) else repr(shown), file=sys.stderr)


def variables(**changes):
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    return dict(kept, **{"TERM": "xterm-256color", **changes})


def start(command, environment, out, err, **options):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, **options)


def separate(command, columns, out_is_terminal, err_is_terminal, **changes):
    """(status, standard output, standard error), each from a terminal or from a pipe."""
    ends = [screen.open_terminal(columns) if t else os.pipe() for t in (out_is_terminal, err_is_terminal)]
    child = start(command, variables(**changes), ends[0][1], ends[1][1])
    for _, program in ends:
        os.close(program)
    texts = screen.read_all([user for user, _ in ends])
    for user, _ in ends:
        os.close(user)
    return child.wait(), *texts


def bars(text):
    return [ESCAPES.sub("", found) for found in BAR.findall(text)]


def shape(text):
    """Lines whose numbers, and the spaces that these decide on, say nothing; a chart is one line."""
    lines = [re.sub(r"[-+]?[\d.,]+(e[-+]?\d+)?", "N", line) for line in ESCAPES.sub("", text).replace("\r", "").split("\n")]
    lines = [re.sub(r"N (us|ms|s|min N s)\b", "N s", re.sub(r" +", " ", line)).strip() for line in lines]
    lines = [re.sub(r" best$|; N of N s wait for data$", "", line) for line in lines]
    return [line for line in lines if "|" not in line and not line.startswith("+--")]


def one_terminal(columns, command=TRAIN, **changes):
    user, program = screen.open_terminal(columns)
    child = start(command, variables(**changes), program, program)
    os.close(program)
    text, = screen.read_all([user])
    os.close(user)
    return child.wait(), text


# ---- what stays: the same for a pipe, with a bar and without ----

status, piped, silent = separate(TRAIN, 80, False, False)
check("it trains", status == 0, silent)
check("piped: no escape sequence", "\x1b" not in piped and "\r" not in piped, piped)
check("no bar for a pipe", silent == "", silent)
check("piped: 80 columns at most", max(map(len, piped.split("\n"))) <= 80, piped)
status, out, err = separate(TRAIN, 80, False, True, LC_ALL="C")
check("the same lines with a bar", shape(out) == shape(piped), out)
check("a bar on standard error", len(bars(err)) > 0, err)
check("it has an epoch and brackets", any(re.match(r"Epoch \d/3 \[[=> ]+\] \d+/\d+", b) for b in bars(err)), err)
for columns in (40, 80, 200):
    blocks = bars(separate(TRAIN, columns, False, True, LC_ALL="C.UTF-8")[2])
    check(f"{columns} columns: blocks where the terminal shows UTF-8",
          any(re.search(r"\d/3 \[█*[ ▏▎▍▌▋▊▉]+\] ", b) for b in blocks) and max(map(len, blocks)) <= columns - 3, blocks[:9])
check("it is gone at the end", err.endswith("\r\x1b[K"), err[-80:])
status, out, err = separate(TRAIN, 80, True, False)
check("nothing on standard error that is no terminal", err == "", err)
for option in ("--quiet", "--json"):
    status, out, err = separate(TRAIN + [option], 80, True, True)
    check(option + ": no bar", status == 0 and err == "", err)

# ---- widths ----

for columns in (24, 40, 60, 80, 120, 200):
    status, text = one_terminal(columns)
    drawn = bars(text)
    shown = screen.Screen(columns).feed(text)
    lines = shown.lines()
    check(f"{columns} columns: it ends well", status == 0 and not shown.unknown, shown.unknown)
    check(f"{columns}: bars leave room for ^C",
          drawn and max(map(len, drawn)) <= columns - 3, max(drawn, key=len, default=""))
    check(f"{columns}: bars are erased", not any("[=" in line or "[>" in line for line in lines), "\n".join(lines))
    marks = [line for line in lines if "+--" in line]
    wide = max((len(line.rstrip()) for line in marks), default=0)
    check(f"{columns}: the chart uses the width", columns - 16 <= wide <= columns, "\n".join(lines))
    if columns >= 40:
        ends = ESCAPES.sub("", BAR.sub("", text)).replace("\r", "").split("\n")
        longest = max(ends, key=len)
        check(f"{columns}: no line is wider", len(longest) <= columns, longest)

    if columns >= 40:
        table = [line for line in lines if re.match(r"(Epoch +\d+/3|batch +\d+) ", line)]
        ends = {re.search(r"\d\.\d{3}", line).end() for line in table}
        check(f"{columns}: one table of epochs and mini-batches", len(table) == 12 and len(ends) == 1, "\n".join(lines))

# ---- kernels that are compiled ----

if "opencl:0" in subprocess.run([haul, "devices"], capture_output=True, text=True).stdout:
    status, text = one_terminal(80, [*TRAIN[:-1], "opencl:0"])
    check("the first epoch says that kernels are compiled",
          any(re.search(r"Epoch 1/3  ?compiling kernels for opencl:0: \d+ of about \d+", b) for b in bars(text)), bars(text)[:9])

# ---- colours ----

status, text = one_terminal(80)
check("colours", "\x1b[1m" in text and "\x1b[0m" in text)
check("no colours that vanish on white or black", not re.search(r"\x1b\[(3[0347]|9\d|4\d|10\d)m", text))
status, plain = one_terminal(80, NO_COLOR="1")
check("NO_COLOR", not re.search(r"\x1b\[[0-9;]*m", plain) and bars(plain), plain[-300:])
check("the same text without colours", shape(BAR.sub("", plain)) == shape(BAR.sub("", text)))
status, empty = one_terminal(80, NO_COLOR="")
check("an empty NO_COLOR is none", "\x1b[1m" in empty)
status, dumb = one_terminal(80, TERM="dumb")
check("TERM=dumb", status == 0 and "\x1b" not in dumb and not bars(dumb), dumb[-300:])

# ---- the chart: braille where the terminal shows it ----

BRAILLE, CIRCLE = "[\u2801-\u28ff]", "\u25cf"
status, fine = one_terminal(80, LC_ALL="C.UTF-8")
check("UTF-8: a line of braille in a colour", re.search("\x1b\\[36m" + BRAILLE, fine), fine[-3000:])
check("UTF-8: marks in another colour", "\x1b[35m" + CIRCLE in fine, fine[-3000:])
status, grey = one_terminal(80, LC_ALL="C.UTF-8", NO_COLOR="1")
check("UTF-8 without colours", re.search(BRAILLE, grey) and not re.search(r"\x1b\[[0-9;]*m", grey), grey[-3000:])
check("UTF-8: shares of layers in blocks", re.search(r"█+ +\d+ %", fine), fine[:3000])
status, ascii_only = one_terminal(80, LC_ALL="C")
check("plain signs where not", ascii_only.isascii() and ". training   o test" in ascii_only, ascii_only[-3000:])
status, piped, silent = separate(TRAIN, 80, False, False, LC_ALL="C.UTF-8")
check("plain signs in a pipe", piped.isascii(), piped)

# ---- the width changes meanwhile ----

user, program = screen.open_terminal(120)
many = [a if a != "3" else "60" for a in TRAIN]  # more output than a terminal holds that nobody reads
child = start(many, variables(), program, program)
first = os.read(user, 200)
screen.set_size(user, 40)
os.close(program)
text, = screen.read_all([user])
os.close(user)
check("a narrower terminal", child.wait() == 0 and len(bars(text)[-1]) <= 37, bars(text)[-1:])

# ---- a recording ----

if shutil.which("script"):
    recorded = subprocess.run(["script", "-qec", " ".join(TRAIN), "recording"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, env=variables())
    text = open("recording", encoding="utf-8", newline="").read()
    text = text[text.index("\n") + 1:text.rindex("\nScript done")]
    shown = screen.Screen(80).feed(text)
    check("script records what the screen shows", recorded.returncode == 0 and
          not any("[=" in line for line in shown.lines()) and any(line.startswith("Done") for line in shown.lines()),
          "\n".join(shown.lines()))

# ---- a terminal that is closed ----


def own_terminal():
    os.setsid()
    fcntl.ioctl(1, termios.TIOCSCTTY, 0)


user, program = screen.open_terminal(80)
child = start([a if a != "3" else "100000" for a in TRAIN] + ["--run", "closed", "--save-every", "0"], variables(), program,
              program, preexec_fn=own_terminal)
os.close(program)
text = ""
while "Epoch 2/100000" not in text:
    text += os.read(user, 4096).decode()
os.close(user)
# 130 by the hangup, or 1 if a line could not be written before that arrived
check("a closed terminal stops the training", child.wait() in (1, 130), str(child.returncode))
resumed = subprocess.run([haul, "train", "--run", "closed", "--resume", "--epochs", "5"], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, env=variables())
check("which is saved and goes on", resumed.returncode == 0 and b"resumed" in resumed.stdout, resumed.stdout.decode())

# ---- other subcommands ----

# A profile of two devices with long names, and with a warm-up.
os.mkdir("profiled")
profile = json.load(open(os.path.join(os.environ["HAUL_SOURCE"], "tests/cli/report/profile.json"), encoding="utf-8"))
json.dump(profile, open("profiled/profile.json", "w", encoding="utf-8"))
one_profile = one_terminal(80, [haul, "profile", "profiled"])[1]
for rows in ("operations", "kernels"):
    for i, row in enumerate(profile[rows]):
        row["device"] = ("sim:laptop-4g:0", "sim:jetson:0")[i % 2]
        row["stream"] = ("compute", "upload")[i // 2 % 2]
profile.update(warm_ups=2, steady_ms=profile["step_ms"])
os.mkdir("two")
json.dump(profile, open("two/profile.json", "w", encoding="utf-8"))
two_profile = one_terminal(80, [haul, "profile", "two"])[1]
check("80 columns: a profile has what limits operations", "bound by" in one_profile and "bound by" in two_profile, one_profile)
check("and their devices where there are several", "  sim:laptop-4g:0\r\n" in two_profile, two_profile)
check("and the operations of kernels", re.search(r"^relu_f32 .* haul_relu\r$", two_profile, re.M), two_profile)
wide_profile = one_terminal(120, [haul, "profile", "two"])[1]
check("120 columns: kernels name device and stream", re.search(r" haul_\w+ on sim:jetson:0(, upload)?\r\n", wide_profile), wide_profile)

for columns in (40, 80, 200):
    for words in (["devices"], ["ops"], ["ops", "batch_norm"], ["inspect", "closed/checkpoint"],
                  ["train", "--estimate", "--model", "resnet18", "--data", "shapes:64", "--device", "cpu"],
                  ["plan", "--model", "mlp", "--batch", "32", "--machine", "rtx4090"], ["group"],
                  ["record", "simplecnn", "--device", "cpu"], ["record", "simplecnn", "--device", "cpu", "--memory"],
                  ["profile", "profiled"], ["profile", "two"]):
        status, text = one_terminal(columns, [haul] + words)
        longest = max(ESCAPES.sub("", text).replace("\r", "").split("\n"), key=len)
        check(f"haul {' '.join(words)}, {columns} columns", status == 0 and len(longest) <= columns, longest)

status, text = one_terminal(40, [haul, "plan", "--model", "mlp", "--batch", "32", "--machine", "rtx4090"])
check("40 columns: a plan says what it needs", re.search(r"This plan needs \d.* on cpu,", " ".join(text.split())), text)
for words in (["--help"], ["train", "--help"], ["what-if", "--help"], ["help", "profile"]):
    status, text = one_terminal(40, [haul] + words)
    status, wide, err = separate([haul] + words, 80, False, False)
    text = text.replace("\r", "").split("\nExamples:")[0]
    check(f"haul {' '.join(words)}, 40 columns", max(map(len, text.split("\n"))) <= 40, text)
    check("has the words of a wide one", text.split() == wide.split("\nExamples:")[0].split(), text)

# Complaints are wrapped between words on a terminal, and are one line elsewhere.
status, out, err = separate([haul, "trian"], 40, False, True)
lines = err.replace("\r", "").rstrip("\n").split("\n")
check("a complaint fits a narrow terminal", len(lines) > 1 and max(map(len, lines)) <= 40, err)
check("and is torn between words only", " ".join(line.strip() for line in lines) ==
      "haul: unknown command 'trian'; did you mean 'train'? (haul --help lists all commands)", err)
status, out, err = separate([haul, "trian"], 40, False, False)
check("a piped complaint is one line", err.count("\n") == 1, err)

status, text, err = separate([haul, "ops"], 80, False, False)
check("a line for each operation when piped", not any(line.startswith(" ") for line in text.split("\n")))
sys.exit(failed > 0)
