"""Writes the reference of Haul as HTML from the headers in include/haul.

python3 tools/reference --out build/docs              write it, and check it
python3 tools/reference --check                       check only
python3 tools/reference --facts build/haul --check    also compare docs/operations.json with the library
python3 tools/reference --facts build/haul --update   rewrite docs/operations.json and cli/show/prototypes.def
"""

import argparse
import json
import os
import subprocess
import sys

import check
import model
import prototypes
import render
from headers import HeaderError


def ask(program):
    """The facts of the library that `program`, the command, is built with."""
    environment = {k: v for k, v in os.environ.items() if k != "HAUL_WITHOUT"}
    told = subprocess.run([program, "ops", "--json"], stdout=subprocess.PIPE, check=True, env=environment).stdout
    return model.facts_of(json.loads(told))


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser = argparse.ArgumentParser(
        prog="python3 tools/reference", description="Writes the reference of Haul as HTML."
    )
    parser.add_argument("--out", help="the folder to write to")
    parser.add_argument("--check", action="store_true", help="check the comments, write nothing")
    parser.add_argument("--facts", metavar="HAUL", help="the haul command, which knows the operations")
    parser.add_argument("--update", action="store_true", help="write docs/operations.json from --facts, and the prototypes")
    parser.add_argument("--include", default=os.path.join(root, "include", "haul"), help="the folder of the headers")
    options = parser.parse_args()

    facts_file = os.path.join(root, "docs", "operations.json")
    told = ask(options.facts) if options.facts else None
    if options.update:
        if told is None:
            parser.error("--update needs --facts")
        model.write_operations(facts_file, told)
    try:
        facts = model.read_operations(facts_file)
        reference = model.build(options.include, facts)
        if options.update:
            prototypes.write(reference, root)
    except HeaderError as error:
        sys.exit(f"tools/reference: {error}")
    problems = check.check(reference, root) + prototypes.check(reference, root)
    problems += check.check_facts(facts, told) if told is not None else []
    if options.out and not problems:
        count = render.Renderer(reference, root, os.path.abspath(options.out)).write()
        problems = check.check_links(options.out)
    for problem in problems:
        print(f"tools/reference: {problem}", file=sys.stderr)
    if problems:
        sys.exit(f"tools/reference: {len(problems)} problems")
    if options.out:
        start = os.path.join(options.out, "index.html")
        print(f"the reference is in {start}: {count - 2} pages, {len(reference.where)} names")


if __name__ == "__main__":
    main()
