"""A program in a terminal of a set size, and the screen that its output makes: for pictures, transcripts and tests."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios

SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([@-~])")
COLOURS = {30: "black", 31: "red", 32: "green", 33: "yellow", 34: "blue", 35: "magenta", 36: "cyan", 37: "white"}


def set_size(descriptor, columns, rows=40):
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def open_terminal(columns, rows=40):
    """(side of the user, side of the program)."""
    user, program = pty.openpty()
    set_size(program, columns, rows)
    return user, program


def read_all(descriptors, on_data=None):
    """What arrives at each descriptor until the last program that writes there is gone, as texts in that order."""
    got = {d: b"" for d in descriptors}
    left = set(descriptors)
    while left:
        for d in select.select(list(left), [], [])[0]:
            try:
                data = os.read(d, 65536)
            except OSError:  # EIO: nobody holds the other side any more
                data = b""
            if not data:
                left.remove(d)
            got[d] += data
            if on_data:
                on_data(d, data)
    return [got[d].decode("utf-8", "replace") for d in descriptors]


def run(command, columns=80, rows=40, environment=None, folder=None, on_data=None):
    """(exit status, text) of a command whose standard input, output and error are one terminal."""
    user, program = open_terminal(columns, rows)
    variables = dict(os.environ, TERM="xterm-256color", **(environment or {}))
    child = subprocess.Popen(command, stdin=program, stdout=program, stderr=program, cwd=folder, env=variables,
                             start_new_session=True)
    os.close(program)
    text, = read_all([user], (lambda _, data: on_data(data)) if on_data else None)
    os.close(user)
    return child.wait(), text


class Screen:
    """Rows of cells, each a character and its style: a set of "bold", "dim" and the name of a colour."""

    def __init__(self, columns):
        self.columns = columns
        self.rows = [[]]
        self.row = self.column = 0
        self.style = frozenset()
        self.unknown = []  # sequences that are not understood

    def feed(self, text):
        at = 0
        while at < len(text):
            found = SEQUENCE.match(text, at)
            if found:
                self.obey(found.group(1), found.group(2))
                at = found.end()
            else:
                self.put(text[at])
                at += 1
        return self

    def put(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
            while len(self.rows) <= self.row:
                self.rows.append([])
        elif character == "\b":
            self.column = max(0, self.column - 1)
        elif character < " ":
            self.unknown.append(character)
        else:
            if self.column == self.columns:
                self.put("\r")
                self.put("\n")
            row = self.rows[self.row]
            row.extend([(" ", frozenset())] * (self.column + 1 - len(row)))
            row[self.column] = (character, self.style)
            self.column += 1

    def obey(self, arguments, letter):
        numbers = [int(n or 0) for n in arguments.split(";")] if re.fullmatch(r"[0-9;]*", arguments) else []
        row = self.rows[self.row]
        if letter == "m" and numbers:
            for number in numbers:
                self.set_style(number)
        elif letter == "K" and numbers in ([0], [2]):
            del row[self.column if numbers == [0] else 0:]
        else:
            self.unknown.append("\x1b[" + arguments + letter)

    def set_style(self, number):
        colours = frozenset(COLOURS.values())
        if number == 0:
            self.style = frozenset()
        elif number in (1, 2):
            self.style |= {"bold" if number == 1 else "dim"}
        elif number in COLOURS:
            self.style = self.style - colours | {COLOURS[number]}
        elif number == 39:
            self.style -= colours
        else:
            self.unknown.append(f"\x1b[{number}m")

    def lines(self):
        """The text of the rows, without spaces at their ends and without empty rows at the end."""
        lines = ["".join(c for c, _ in row).rstrip() for row in self.rows]
        while lines and not lines[-1]:
            lines.pop()
        return lines
