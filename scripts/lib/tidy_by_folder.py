#!/usr/bin/env python3
"""Runs clang-tidy over sources, joining those of a folder into one file: most of its time goes into their common headers.

    tidy_by_folder.py BUILD ROOT ARGUMENT… < sources    # paths relative to ROOT, one per line; ARGUMENTs are for clang-tidy

Files with different compiler options are not joined. Two files of a folder that use one name for different things in unnamed namespaces
can't be joined: rename one. Findings are printed with the original file and line. Exit status 1 if there are findings.
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
    """The compiler options of a source, without its name and its object's."""
    return tuple(word for word in shlex.split(command)[1:] if re.match(r"-(I|D|U|std|isystem|include|f|m|pthread)", word))


def units_of(sources):
    """Lists of sources that are joined, the longest first: (folder, options) and their names."""
    units = {}
    for entry in json.load(open(os.path.join(build, "compile_commands.json"))):
        name = os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
        if name in sources:
            sources.remove(name)  # some are in two targets
            key = (os.path.dirname(name), entry["directory"], options_of(entry["command"]))
            units.setdefault(key, []).append(name)
    return sorted(units.items(), key=lambda unit: -sum(os.path.getsize(os.path.join(root, name)) for name in unit[1]))


def join(path, names):
    """Writes the sources to one file. Returns (name, line) of each of its lines."""
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
    # In a folder with the same .clang-tidy as the sources.
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
        # clang-tidy uses the configuration of the folder of the joined file.
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
