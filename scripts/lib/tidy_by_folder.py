#!/usr/bin/env python3
"""Runs clang-tidy over sources, those of a folder as one: they share nearly all of their headers, in which it spends its time.

    tidy_by_folder.py BUILD ROOT ARGUMENT… < sources    # names below ROOT, a line each; ARGUMENTs go to clang-tidy

Files that are compiled with other options are apart. Two files of a folder that give one name to different things in unnamed
namespaces can't be joined: rename one. Findings are printed with the file's own line. Exits 1 if anything was found.
"""

import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

build, root, *arguments = sys.argv[1:]


def options_of(command):
    """The options that say how a source is read, without those that name it or its object."""
    return tuple(word for word in shlex.split(command)[1:] if re.match(r"-(I|D|U|std|isystem|include|f|m|pthread)", word))


def units_of(sources):
    """Lists of sources that are read as one, the longest first: (folder, options) and their names."""
    units = {}
    for entry in json.load(open(os.path.join(build, "compile_commands.json"))):
        name = os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
        if name in sources:
            sources.remove(name)  # some are in two targets
            key = (os.path.dirname(name), entry["directory"], options_of(entry["command"]))
            units.setdefault(key, []).append(name)
    return sorted(units.items(), key=lambda unit: -sum(os.path.getsize(os.path.join(root, name)) for name in unit[1]))


def join(path, names):
    """Writes the sources to one file; returns what its lines are: (name, line)."""
    origin = []
    with open(path, "w") as joined:
        for name in names:
            with open(os.path.join(root, name)) as source:
                for number, line in enumerate(source.read().splitlines(), 1):
                    joined.write(line + "\n")
                    origin.append((name, number))
    return origin


def tidy(folder, index, unit):
    (place, directory, options), names = unit
    # Beside a .clang-tidy as the sources have it.
    where = os.path.join(folder, str(index), place)
    os.makedirs(where, exist_ok=True)
    path = os.path.join(where, "joined.cpp")
    origin = join(path, sorted(names))
    config = os.path.join(root, place)
    done = subprocess.run(["clang-tidy", "--quiet", "--warnings-as-errors=*", *arguments, path, "--", f"-I{config}", *options],
                          cwd=directory, capture_output=True, text=True, check=False)

    def own_place(match):
        name, line = origin[int(match[1]) - 1]
        return f"{name}:{line}"

    found = re.sub(re.escape(path) + r":(\d+)", own_place, done.stdout)
    if done.returncode != 0 and not found.strip():
        found = re.sub(re.escape(path) + r":(\d+)", own_place, done.stderr)
    return done.returncode, found


def main():
    sources = set(sys.stdin.read().split())
    with tempfile.TemporaryDirectory() as folder:
        # The configuration of a folder counts where its joined file is.
        units = units_of(sources)
        for index, ((place, _, _), _) in enumerate(units):
            for part in ("", *(place.split("/")[:n] for n in range(1, place.count("/") + 2))):
                inside = "/".join(part) if part else ""
                config = os.path.join(root, inside, ".clang-tidy")
                if os.path.exists(config):
                    os.makedirs(os.path.join(folder, str(index), inside), exist_ok=True)
                    os.symlink(config, os.path.join(folder, str(index), inside, ".clang-tidy"))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(lambda item: tidy(folder, *item), enumerate(units)))
    for _, found in results:
        if found.strip():
            print(found.strip())
    sys.exit(any(status for status, _ in results))


main()
