"""The pieces of Python in docs/python.md run, one after the other."""

import contextlib
import io
import os
import re
import tempfile
import unittest

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "python.md")


@unittest.skipUnless(os.path.exists(PAGE), "needs the sources")
class Docs(unittest.TestCase):
    def test_pieces(self):
        with open(PAGE, encoding="utf-8") as f:
            pieces = re.findall(r"```python\n(.*?)```", f.read(), re.S)
        self.assertGreaterEqual(len(pieces), 3)
        names, before = {"__name__": "docs"}, os.getcwd()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
            os.chdir(folder)
            try:
                for piece in pieces:
                    exec(compile(piece, "docs/python.md", "exec"), names)
            finally:
                os.chdir(before)
        self.assertIn("f32[2] on cpu", said.getvalue())


if __name__ == "__main__":
    unittest.main()
