"""Branch coverage of parsers of outside data, from llvm-cov's JSON on standard input.

    llvm-cov export PROGRAM -instr-profile FILE | branches.py test/fuzz/parsers.txt

A line of the list is a file and, after "but", functions in it that read no outside data. Counts each outcome of each condition, once for
all instances of a template. Excludes conditions that no input decides, such as results of the kernel or libcrypto.
"""
import json
import re
import subprocess
import sys

MIN_PERCENT = 95.0
NOT_BY_INPUT = re.compile(r"errno|result < 0|got < 0|done < 0|done >= 0")


def demangled(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, text.split("\n")))


def read_list(path):
    wanted = {}
    for line in open(path, encoding="utf-8"):
        words = line.split("#")[0].split()
        if words:
            wanted[words[0]] = words[2:] if len(words) > 1 else []
    return wanted


def main():
    wanted = read_list(sys.argv[1])
    verbose = "--verbose" in sys.argv
    functions = json.load(sys.stdin)["data"][0]["functions"]
    names = demangled([function["name"].split(":")[-1] for function in functions])
    branches = {name: {} for name in wanted}
    paths = {}
    for function in functions:
        path = function["filenames"][0]
        name = next((wanted_name for wanted_name in wanted if path.endswith("/" + wanted_name)), None)
        if name is None:
            continue
        paths[name] = path
        plain = names[function["name"].split(":")[-1]]
        if any(re.search(rf"\b{re.escape(excluded)}\b", plain) for excluded in wanted[name]):
            continue
        for branch in function["branches"]:
            if branch[6] != 0:  # in a macro or another file
                continue
            taken = branches[name].setdefault(tuple(branch[:4]), [0, 0])
            taken[0] += branch[4]
            taken[1] += branch[5]
    print("%-30s %10s %9s" % ("parser", "outcomes", "reached"))
    low = []
    for name, found in branches.items():
        if name not in paths:
            print("%-30s is not part of any target" % name)
            low.append(name)
            continue
        lines = open(paths[name], encoding="utf-8").read().split("\n")
        counted = {at: taken for at, taken in found.items() if not NOT_BY_INPUT.search(lines[at[0] - 1])}
        reached = sum((taken[0] > 0) + (taken[1] > 0) for taken in counted.values())
        percent = 100.0 * reached / max(1, 2 * len(counted))
        print("%-30s %10d %8.1f%%" % (name, 2 * len(counted), percent))
        if percent < MIN_PERCENT:
            low.append(name)
        if verbose:
            for at, taken in sorted(counted.items()):
                if not all(taken):
                    missing = "true" if taken[0] == 0 else "false"
                    print("    %d: never %s: %s" % (at[0], missing if any(taken) else "reached", lines[at[0] - 1].strip()))
    if low:
        print("below %.0f %%: %s" % (MIN_PERCENT, ", ".join(low)))
    return 1 if low else 0


sys.exit(main())
