"""The marked transcripts of the documentation have the shape of what their commands print today, numbers aside.

`tools/transcript` brings them up to date.
"""
# ctest: labels=slow,once
import difflib
import glob
import os
import sys

source, build = os.environ["HAUL_SOURCE"], os.path.dirname(os.environ["HAUL"])
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(source, "tools"))
import transcripts

os.environ.pop("HAUL_NUM_THREADS", None)
failed = 0


def hold(path):
    global failed
    lines, found = transcripts.find(path)
    if not transcripts.data_is_there(found):
        print("skipped", path, "because HAUL_TEST_DATA is not set")
        return
    for t, printed in zip(found, transcripts.run_all(found, build)):
        if t.setup:
            continue
        shown = lines[t.start + transcripts.prompt_lines(lines, t):t.end]
        if transcripts.same_shape(t.command, shown, printed):
            print("ok   ", f"{path}:{t.number}: {t.command}")
            continue
        failed += 1
        print(f"FAILED {path}:{t.number}: {t.command} prints something else; run tools/transcript", file=sys.stderr)
        print("\n".join(difflib.unified_diff(transcripts.shape(shown), transcripts.shape(printed), "shown", "printed",
                                             lineterm="")), file=sys.stderr)


# The comparison itself: numbers and charts may differ, words and lines may not.
before = ["loss  . training   o test", " 2.0 |  .", "     | .", "     +---", "     0  1 epochs", "  step   3.6 ms median"]
after = ["loss  . training   o test", " 1.0 | .", "     +---+", "     0  1 epochs", "  step   12 s median"]
assert transcripts.same_shape("x", before, after)
assert not transcripts.same_shape("x", before, after[:-1])
assert not transcripts.same_shape("x", before, after[:-1] + ["  stop   12 s median"])
assert transcripts.same_shape("x", ["a.jpg  frog  93% ###", "       ship   1% #"], ["a.jpg  frog  99% ###", "       cat   <1%"])
assert not transcripts.same_shape("x", ["a.jpg  frog  93% ###", "       ship   1% #"], ["a.jpg  frog  99% ###"])
assert not transcripts.same_shape("x", ["a.jpg  frog  93% ###"], ["b.jpg  frog  93% ###"])

for path in [os.path.join(source, "README.md"), *sorted(glob.glob(os.path.join(source, "docs", "*.md"))),
             *sorted(glob.glob(os.path.join(source, "examples", "*.md")))]:
    hold(path)
sys.exit(failed > 0)
