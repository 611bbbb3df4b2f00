#!/usr/bin/env python3
"""Prints the names of the tests of some suites plus some single tests: `meson test` accepts both, but runs only their intersection.

    meson introspect --tests build | select_tests.py SUITE… -- TEST…

Exit status 1 if a TEST is unknown. Tests are selected by name, so tests of the same name in other suites run too.
"""

import json
import sys

split = sys.argv.index("--")
suites, wanted = set(sys.argv[1:split]), sys.argv[split + 1:]
tests = json.load(sys.stdin)
unknown = sorted(set(wanted) - {test["name"] for test in tests})
if unknown:
    sys.exit(f"scripts/test: unknown suite or test {', '.join(unknown)}; `meson test -C build --list` has the names")
for name in dict.fromkeys(test["name"] for test in tests
                          if test["name"] in wanted or suites & {suite.split(":")[-1] for suite in test["suite"]}):
    print(name)
