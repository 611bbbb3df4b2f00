#!/usr/bin/env python3
"""Reads meson's logs. Prints the time of each suite, reasons of skipped tests, failed tests, and the counts in the last line.

    count_tests.py LOG.junit.xml           # one run
    count_tests.py --repeat LOG.junit.xml… # several runs of the same tests: how often each failed

LOG.json in the same folder, if it exists, adds times, and programs that failed although each of their tests passed. Exit status 1 if a test
failed or none ran.
"""

import collections
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

BAD = ("FAIL", "TIMEOUT", "ERROR", "INTERRUPT", "UNEXPECTEDPASS")


def log_beside(path, ending):
    return pathlib.Path(path).with_name(pathlib.Path(path).name.removesuffix(".junit.xml") + ending)


def reason_in_log(path, name):
    """The reason of a skipped TAP test from its line in the log: some versions of meson omit it in the JUnit file."""
    log = log_beside(path, ".txt")
    test = re.escape(name.rpartition(" - ")[2])
    found = re.search(rf"^ok \d+ - {test} # SKIP (.+)$", log.read_text(errors="replace"), re.M) if log.exists() else None
    return found.group(1) if found else "no reason given"


def error_in_log(path, name):
    """The line of a failed TAP test with its error. It is repeated here because CI may truncate the log."""
    log = log_beside(path, ".txt")
    test = re.escape(without_number_and_time(name))
    found = re.search(rf"^not ok \d+ - {test}.*\n(?:# .*\n)*?# (\w*(?:Error|Exception)\b.*)", log.read_text(errors="replace"), re.M) if log.exists() else None
    return found.group(1)[:500] if found else ""


def programs_of(path):
    """Result and seconds of each program that meson ran, by name."""
    log = log_beside(path, ".json")
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return {record["name"]: (record["result"], record["duration"]) for record in map(json.loads, lines)}


def without_number_and_time(name):
    """The name of a TAP test without number and time, so that it is the same in all runs: not '3 - Class.test (0.2 s)'."""
    return re.sub(r" \([\d.]+ s\)$", "", re.sub(r"^\d+ - ", "", name))


def read(path):
    """(test, 'passed' | 'failed' | 'skipped', reason) for each test of one run, and the result of programs_of()."""
    programs, found, told = programs_of(path), [], set()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name, suite = case.get("name"), case.get("classname") or ""
        program = name if name in programs else suite.partition(".")[2]
        test = name if name in programs else f"{program or suite} {without_number_and_time(name)}".strip()
        reason = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            told.add(program)
            found.append((test, "failed", error_in_log(path, name)))
        elif reason is not None:
            why = reason.get("message") or (reason.text or "").strip() or reason_in_log(path, name)
            found.append((test, "skipped", why))
        elif test != program or programs[program][0] not in BAD:
            found.append((test, "passed", ""))
    for name, (result, _) in programs.items():
        if result in BAD and name not in told:
            found.append((name, "failed", f"the program ended with {result}"))
    return found, programs


def print_times(programs):
    """Prints one line per suite, in the format of `step` in setup.sh."""
    took = collections.Counter()
    for name, (_, seconds) in programs:
        took[re.split("[+ ]", name.rpartition(" / ")[0].partition(":")[2])[0] or "tests"] += seconds
    for suite, seconds in took.items():
        print(f"{'suite ' + suite:<24} {seconds:6.1f} s")


def print_failures(runs):
    """Prints how often each program failed, and each test of programs with several."""
    failed, ran = collections.Counter(), collections.Counter()
    for found, programs in runs:
        in_this = {name for name, (result, _) in programs.items() if result in BAD}
        tests = {test for test, outcome, _ in found if outcome == "failed"}
        failed.update(in_this | tests)
        ran.update(programs.keys() | {test for test, _, _ in found})
    shown = {name for _, programs in runs for name in programs} or set(ran)
    for name in sorted(shown | set(failed)):
        print(f"failed {failed[name]:4} of {ran[name]:4}  {name}")


def main(arguments):
    repeated = arguments[:1] == ["--repeat"]
    runs = []
    for path in arguments[1:] if repeated else arguments:
        try:
            runs.append(read(path))
        except (OSError, ElementTree.ParseError) as error:
            print(f"{path} can't be read: {error}; run the tests first", file=sys.stderr)
            print("0 passed, 0 failed, 0 skipped")
            return 1
    print_times([program for _, programs in runs for program in programs.items()])
    results = [result for found, _ in runs for result in found]
    for test, outcome, reason in dict.fromkeys(results):
        if outcome == "skipped":
            print(f"skipped {test}: {reason}")
        elif outcome == "failed" and not repeated:
            print(f"FAILED  {test}{': ' if reason else ''}{reason}")
    if repeated:
        print_failures(runs)
    counts = collections.Counter(outcome for _, outcome, _ in results)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 0 if counts["passed"] and not counts["failed"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
