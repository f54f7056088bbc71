"""The page of haul report in Chromium, where it is installed: at ten widths, light and dark, nothing is wider than the
window, no label covers another or the roof of a roofline, and nothing is complained of."""
# ctest: labels=slow,once
import html
import json
import os
import random
import re
import shutil
import subprocess

HAUL = os.environ["HAUL"]
SAMPLES = os.path.join(os.environ["HAUL_SOURCE"], "tests/cli/report")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (320, 360, 430, 560, 768, 800, 1080, 1280, 1440, 1920)
if not BROWSER:
    print("skipped: there is no Chromium")
    raise SystemExit(77)
failures = []

# What a page finds out about itself. Boxes of text are compared, without the padding of their elements. Names at the ends of lines
# are cut where there is no room.
SCRIPT = """<script>addEventListener('load', () => {
const box = e => { const r = document.createRange(); r.selectNodeContents(e); return r.getBoundingClientRect(); };
const found = {width: innerWidth, scroll: document.documentElement.scrollWidth, wide: [], over: [], cut: [],
    paper: getComputedStyle(document.body).backgroundColor, loaded: performance.getEntriesByType('resource').length};
for (const e of document.querySelectorAll('body *'))
    if (e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll, nav, pre, svg, .ends b'))
        found.wide.push(e.tagName + ' ' + e.textContent.slice(0, 40));
for (const e of document.querySelectorAll('body *:not(svg *)')) // what is hidden is cut, and a table scrolls on narrow screens only
    if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth && getComputedStyle(e).display != 'inline' &&
        !e.closest('.ends, .plot, .lanes, .whole, .confusion .up' + (innerWidth > 560 ? ', pre' : '')) &&
        (getComputedStyle(e).overflowX != 'visible') && (!e.matches('.scroll') || innerWidth >= (e.textContent.startsWith('Options of the runs') ? 1280 : 768) && !e.querySelector('.lanes')))
        found.cut.push(e.tagName + '.' + e.className + ' ' + e.textContent.trim().slice(0, 40));
for (const chart of document.querySelectorAll('.chart')) {
    const labels = [...chart.querySelectorAll('span')].filter(e => e.textContent.trim() && !e.matches('.gap'));
    labels.forEach((e, i) => labels.slice(0, i).forEach(f => {
        const a = box(e), b = box(f);
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
            found.over.push(e.textContent + ' | ' + f.textContent);
    }));
    const roof = chart.querySelector('path.roof'), length = roof ? roof.getTotalLength() : 0;
    for (const e of roof ? chart.querySelectorAll('.number') : [])
        for (let at = 0; at <= 200; at++) {
            const p = roof.getPointAtLength(length * at / 200).matrixTransform(roof.getScreenCTM()), a = box(e);
            if (p.x > a.left && p.x < a.right && p.y > a.top + 2 && p.y < a.bottom - 2) {
                found.over.push(e.textContent + ' | the roof');
                break;
            }
        }
}
parent.postMessage(JSON.stringify(found), '*');
});</script></body>"""
OUTER = """<!doctype html><title>frames</title><body><pre id="out"></pre><script>
addEventListener('message', e => { out.textContent += e.data + '\\n'; });</script>%s"""


def check(name, fine, what=""):
    print("ok    " if fine else "FAILED", name, "" if fine else what)
    if not fine:
        failures.append(name)


def look(page, theme):
    text = open(page, encoding="utf-8").read()
    policy = re.search(r"<meta http-equiv=.Content-Security-Policy[^>]*>\n", text).group()  # it would stop the script
    open("inner.html", "w", encoding="utf-8").write(text.replace(policy, "").replace("</body>", SCRIPT))
    open("as_it_is.html", "w", encoding="utf-8").write(text)
    frames = '<iframe src="as_it_is.html"></iframe>' + "".join(f'<iframe src="inner.html" style="width:{w}px;height:900px;border:0"></iframe>' for w in WIDTHS)
    open("outer.html", "w").write(OUTER % frames)
    done = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
         f"--blink-settings=preferredColorScheme={0 if theme == 'dark' else 1}", "--user-data-dir=" + os.path.abspath("user"),
         "--virtual-time-budget=5000", "--window-size=1600,1000", "--dump-dom", "file://" + os.path.abspath("outer.html")],
        capture_output=True, text=True, timeout=900)
    told = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    check(f"{page}, {theme}: the console is empty", not told, f"{told[:3]}")
    out = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.S)
    found = [json.loads(line) for line in html.unescape(out.group(1)).splitlines()] if out else []
    check(f"{page}, {theme}: all widths", sorted(f["width"] for f in found) == sorted(WIDTHS), done.stderr[-500:])
    for f in found:
        name = f"{page}, {theme}, {f['width']} px"
        check(f"{name}: no wider than the window", f["scroll"] == f["width"] and not f["wide"], f"{f['wide'][:4]}")
        check(f"{name}: no label covers another", not f["over"], f"{f['over'][:4]}")
        check(f"{name}: nothing is cut", not f["cut"], f"{f['cut'][:4]}")
        check(f"{name}: nothing is loaded", f["loaded"] == 0)
        red = int(re.search(r"\d+", f["paper"]).group())
        check(f"{name}: the paper is {theme}", (red < 60) == (theme == "dark"), f["paper"])


def log(epochs, scale=1.0):
    start = {"event": "start", "device": "cpu", "model": "m" * 60, "data": "images:" + "d" * 60, "host": "h" * 40,
             "train_examples": 200, "batch": 10, "parameters": 10}
    events = [{"event": "epoch", "epoch": e, "train_loss": 2 * scale / e, "train_accuracy": 0.5, "test_loss": 2 * scale / e,
               "test_accuracy": 0.5, "lr": 1e-5, "seconds": 1, "images_per_second": 123456} for e in range(1, epochs + 1)]
    return "".join(json.dumps(e) + "\n" for e in [start, *events])


subprocess.run([HAUL, "train", "--data", "shapes:320", "--epochs", "2", "--batch", "32", "--quiet", "--device", "cpu", "--validation", "0.2",
                "--run", "run"], check=True)
for sample in ("profile.json", "audit.json"):
    shutil.copy(os.path.join(SAMPLES, sample), "run")
os.mkdir("program")  # what haul_profile_save writes
for sample in ("profile.json", "audit.json"):
    shutil.copy(os.path.join(SAMPLES, sample), "program")
profile = json.load(open("program/profile.json"))  # many operations, some of them near the roof or each other
place = random.Random(7)
for crowd in range(4):
    intensities = [10 ** place.uniform(-1.5, 2) for _ in range(10)]
    for o, x in zip([o for o in profile["operations"] if o["device"] == "opencl:0"], intensities):
        o.update(flop=1e6 * x, bytes=1e6, share=0.1, gflops=min(222, 17 * x) * 10 ** place.uniform(-1, 0.05))
    os.mkdir(f"crowd{crowd}")
    json.dump(profile, open(f"crowd{crowd}/profile.json", "w"))
    subprocess.run([HAUL, "report", f"crowd{crowd}"], check=True)
names = ["n" * 40, "a name with words", "\u05e9\u05dc\u05d5\u05dd", "two"]
for i, name in enumerate(names):
    os.mkdir(name)
    open(name + "/log.jsonl", "w").write(log(200 if i == 0 else 2, 1 + 1e-4 * i))
subprocess.run([HAUL, "report", "run"], check=True)
subprocess.run([HAUL, "report", "program"], check=True)
subprocess.run([HAUL, "report", *names, "--output", "names.html"], check=True)
for theme in ("light", "dark"):
    look("run/report.html", theme)
    look("program/report.html", theme)
    look("names.html", theme)
for crowd in range(4):
    look(f"crowd{crowd}/report.html", "light")
print(f"{len(failures)} failures: {failures}" if failures else "all fine")
raise SystemExit(1 if failures else 0)
