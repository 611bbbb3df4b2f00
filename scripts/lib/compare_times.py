#!/usr/bin/env python3
"""compare_times.py WITHOUT,… WITH,…: medians of the "time" lines of nccl_check and torch_check.py in two sets of files, as a table."""
import re
import statistics
import sys

LINE = re.compile(r"^time (\w+) (\d+) (\w+) ([\d.]+)$", re.MULTILINE)


def read(files):
    times = {}
    for file in files.split(","):
        with open(file, encoding="utf-8") as text:
            for operation, size, how, microseconds in LINE.findall(text.read()):
                times.setdefault((operation, how, int(size)), []).append(float(microseconds))
    return times


without, preload = read(sys.argv[1]), read(sys.argv[2])
rows = sorted(without.keys() & preload.keys())
print(f"{'operation':<18} {'launch':<6} {'bytes':>10} {'NCCL us':>9} {'preload us':>10} {'speed-up':>8}  (lowest to highest of the turns)")
for operation, how, size in rows:
    one, other = without[operation, how, size], preload[operation, how, size]
    turns = sorted(a / b for a, b in zip(one, other))
    print(f"{operation:<18} {how:<6} {size:>10} {statistics.median(one):>9.2f} {statistics.median(other):>10.2f} "
          f"{statistics.median(turns):>8.2f}  ({turns[0]:.2f} to {turns[-1]:.2f})")
sys.exit(0 if rows else 1)
