#!/usr/bin/env python3
"""Reads meson's JUnit log: how long each suite took, why tests were skipped, which failed, and the counts as the last line.

Exits 1 if a test failed, or if none ran at all.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree


def reason_in_log(path, name):
    """Some versions of meson leave the reason of a skipped TAP test out of their JUnit file; its own line in the log has it."""
    log = pathlib.Path(path).with_name("testlog.txt")
    test = re.escape(name.rpartition(" - ")[2])
    found = re.search(rf"^ok \d+ - {test} # SKIP (.+)$", log.read_text(errors="replace"), re.M) if log.exists() else None
    return found.group(1) if found else "no reason given"


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
            print(f"skipped {name}: {reason.get('message') or (reason.text or '').strip() or reason_in_log(path, name)}")
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
