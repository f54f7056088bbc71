"""Calls of functions in the documents and examples, which tests compile, and the names that PyTorch gives them.

An entry without an example of its own shows the shortest statement that calls it; the search knows PyTorch's names."""

import glob
import os
import re

DOCUMENTS = ["docs/from-pytorch.md", "docs/guide.md", "docs/tutorial-*.md", "README.md", "docs/profile.md", "examples/*.c"]
LONGEST = 110  # columns of an example
SHOWN = re.compile(r"\b(haul_[a-z0-9_]+|HAUL_SEQUENTIAL)\(")

# Words that no row of from-pytorch.md has, and the names that they should find.
WORDS = {
    "haul_loader_new": ["DataLoader", "torch.utils.data.DataLoader", "data loader"],
    "haul_module_tensors": ["state_dict", "named_parameters"],
    "haul_save_weights": ["state_dict", "torch.save"],
    "haul_load_weights": ["load_state_dict", "torch.load"],
    "haul_cat": ["torch.cat", "concatenate"],
    "haul_stack": ["torch.stack"],
    "haul_to": ["to device", "tensor.to", "x.to(device)", "x.cuda()", "x.cpu()"],
    "haul_module_to": ["to device", "net.to(device)", "model.to", "net.cuda()"],
    "haul_device_get": ["gpu", "cuda", "torch.device"],
    "haul_device_list": ["gpu", "torch.cuda.device_count"],
    "haul_device_sync": ["torch.cuda.synchronize"],
    "haul_backward": ["loss.backward", "autograd"],
    "haul_optimizer_step": ["optimizer.step"],
    "haul_optimizer_zero_grad": ["optimizer.zero_grad"],
    "haul_item": ["tensor.item"],
    "haul_from_host": ["torch.tensor", "from_numpy"],
    "haul_set_grad_enabled": ["torch.no_grad", "torch.inference_mode"],
    "haul_detach": ["tensor.detach"],
    "haul_matmul": ["torch.mm", "torch.bmm", "torch.matmul", "einsum", "gemm", "dot"],
    "haul_linear": ["dense", "fully connected"],
    "haul_nn_linear": ["dense", "fully connected"],
    "haul_reshape": ["tensor.view"],
    "haul_permute": ["einsum", "tensor.transpose"],
    "haul_manual_seed": ["torch.manual_seed", "random seed"],
    "haul_clip_grad_norm": ["clip_grad_norm_", "gradient clipping"],
    "haul_autocast_begin": ["torch.autocast", "amp", "mixed precision"],
    "haul_grad_scaler_new": ["GradScaler", "amp"],
    "haul_uniform": ["torch.rand"],
    "haul_normal": ["torch.randn"],
    "haul_nn_log_softmax": ["LogSoftmax"],
    "haul_nll_loss": ["NLLLoss"],
    "haul_call": ["model.eval", "model.train", "forward"],
    "haul_schedule_step": ["lr_scheduler", "scheduler.step"],
    "haul_schedule_staircase": ["lr_scheduler", "MultiStepLR"],
    "haul_pin": ["pin_memory"],
    "haul_memory_release_cached": ["torch.cuda.empty_cache"],
    "haul_memory_stats_get": ["torch.cuda.memory_allocated"],
}


def documents(root):
    for pattern in DOCUMENTS:
        for path in sorted(glob.glob(os.path.join(root, pattern))):
            with open(path, encoding="utf-8") as f:
                yield os.path.relpath(path, root), f.read()


def code_of(name, body):
    """The C of a document, as lines."""
    if name.endswith(".c"):
        return body.split("\n")
    return "\n".join(re.findall(r"^```c\n(.*?)^```", body, re.S | re.M)).split("\n")


def statement(lines, at):
    """The statement that begins in this line, on one line; None if it is long, or no statement by itself."""
    found = lines[at].strip()
    for line in lines[at + 1 : at + 4]:
        if found.count("(") == found.count(")") and found.endswith((";", "{")):
            break
        found += " " + line.strip()
    found = re.sub(r"\s*/\*.*?\*/", "", found).strip()
    found = re.sub(r"\s+", " ", found)
    whole = found.endswith(";") and found.count("(") == found.count(")") and found.count("{") == found.count("}")
    return found if whole and len(found) <= LONGEST and not found.startswith(("//", "*", "static", ".")) else None


def rows_of(body):
    """The rows of tables with PyTorch's and Haul's form: calls in backquotes."""
    for row in re.findall(r"^\| (.*?) \| (.*?) \|$", body, re.M):
        left, right = (re.findall(r"`([^`]+)`", cell) for cell in row)
        if left and any(SHOWN.search(r) for r in right):
            yield left, right


def call_in(line, at):
    """The call that begins at this place of a line, up to its closing parenthesis; None if the line does not have it."""
    depth = 0
    for end in range(line.index("(", at), len(line)):
        depth += {"(": 1, ")": -1}.get(line[end], 0)
        if depth == 0:
            return line[at : end + 1]
    return None


def plain(call):
    """True if a call in a test says how one is made: without helpers of the tests, and without what they refuse."""
    return call and len(call) <= 80 and not re.search(r"haul__|NULL|-1\b|wanted|\[i\]|%|\"\"", call)


def cost(found):
    """The less, the better: a call that stands alone says most."""
    others = len(re.findall(r"\bhaul_[a-z0-9_]+\(", found)) - 1
    return len(found) + 40 * others + (40 if found.startswith(("return", "if", "for", "while")) else 0)


class Examples:
    def __init__(self, root, operands):
        """`operands` has the names of each operation's operands."""
        self.calls, self.more, self.aliases = {}, {}, {name: list(words) for name, words in WORDS.items()}
        for name, body in documents(root):
            if name == "docs/from-pytorch.md":
                for left, right in rows_of(body):
                    self.take_row(left, right)
            lines = code_of(name, body)
            for at, line in enumerate(lines):
                for called in SHOWN.findall(line):
                    self.take(called, statement(lines, at))
        self.take_samples(root, operands)
        self.take_tests(root)

    def take_samples(self, root, operands):
        """Operations without an example: as their samples call them."""
        with open(os.path.join(root, "tests/conformance/samples.def"), encoding="utf-8") as f:
            for line in f:
                found = re.search(r"\b(haul_[a-z0-9_]+)\(", line) if line.startswith("SAMPLE(") else None
                call = call_in(line, found.start()) if found else None
                names = [n.rstrip("?") for n in operands.get(found[1], [])] if found else []
                if call and len(call) <= LONGEST:
                    call = re.sub(r"in\[(\d)\]", lambda m: names[int(m[1])] if int(m[1]) < len(names) else m[0], call)
                    if "in[" not in call:
                        self.take(found[1], f"haul_tensor *result = {call};")

    def take_tests(self, root):
        for path in sorted(glob.glob(os.path.join(root, "tests/*/test_*.c"))):
            with open(path, encoding="utf-8") as f:
                for line in f:
                    for found in re.finditer(r"\bhaul_[a-z0-9_]+(?=\()", line):
                        call = call_in(line, found.start())
                        if found[0] not in self.calls and plain(call):
                            self.more.setdefault(found[0], []).append(call)
        for name, calls in self.more.items():
            self.calls.setdefault(name, min(calls, key=len) + ";")

    def take(self, called, found):
        known = self.calls.get(called)
        if found and (known is None or cost(found) < cost(known)):
            self.calls[called] = found

    def take_row(self, left, right):
        for i, call in enumerate(right):
            found = SHOWN.match(call)
            if not found:
                continue
            words = re.findall(r"[A-Za-z_][\w.]*", left[min(i, len(left) - 1)])
            self.aliases.setdefault(found[1], []).extend(w for w in words[:1] if len(w) > 2)
            if call.count("(") == call.count(")") and call.endswith(")") and "..." not in call:
                self.take(found[1], call + ";")

    def of(self, names):
        """An example of one of these names; "" if the documents have none."""
        return next((self.calls[n] for n in names if n in self.calls), "")

    def words(self, name):
        return " ".join(dict.fromkeys(self.aliases.get(name, [])))
