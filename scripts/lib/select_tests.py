#!/usr/bin/env python3
"""The names that `meson test` has to be given for some suites and some tests: it takes both, but runs only what is in both.

    meson introspect --tests build | select_tests.py SUITE… -- TEST…

Exits 1 where a TEST is unknown. A suite's tests go by name, so where another suite has a test of the same name it runs, too.
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
