#!/usr/bin/env python3
"""Reads meson's JUnit log: how long each suite took, why tests were skipped, which failed, and the counts as the last line.

Exits 1 if a test failed, or if none ran at all.
"""

import sys
import xml.etree.ElementTree as ElementTree


def main(path):
    try:
        suites = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        print(f"{path} can't be read: {error}; run the tests first", file=sys.stderr)
        print("0 passed, 0 failed, 0 skipped")
        return 1
    passed = failed = skipped = 0
    for case in suites.iter("testcase"):
        name = f"{case.get('classname') or ''} {case.get('name')}".strip()
        reason = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
            print(f"FAILED  {name}")
        elif reason is not None:
            skipped += 1
            print(f"skipped {name}: {reason.get('message') or (reason.text or '').strip() or 'no reason given'}")
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
