"""Runs `tutti bench` once for each baseline and number of ranks, and joins the results. Called by scripts/bench."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from baseline_variables import notes, without
from sizes import bytes_of, size_text

ALL = "fan-out,broadcast,all-reduce,reduce,all-gather,reduce-scatter,gather,scatter,all-to-all,send-recv,barrier"
# malloc keeps freed memory: Open MPI allocates scratch in each call.
HEAP = {"MALLOC_MMAP_THRESHOLD_": "2147483648", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
YIELD = ["--mca", "mpi_yield_when_idle", "1"]
LAUNCHERS = os.environ.get("TUTTI_LAUNCHERS", "/opt/launchers")
ITERATIONS_OF_SLOW_CALLS = 15
NO_NCCL_MULTICAST = {"NCCL_NVLS_ENABLE": os.environ.get("NCCL_NVLS_ENABLE", "0")}


@dataclass
class Baseline:
    """A configuration of docs/performance.md: the name for `tutti bench --vs`, the launcher's command line, and options of tutti bench."""
    letter: str
    vs: str
    options: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)
    bench: list = field(default_factory=list)
    launcher: str = "mpirun"
    build: str = "TUTTI_BUILD"  # variable with the build folder for its MPI
    on_request: bool = False  # measured only if --baselines selects it
    spins: bool = False  # busy-waits without yielding: a call takes several time slices if ranks outnumber cores
    max_bytes_if_slow: int = 0  # such a call takes seconds above this size; 0: no limit

    def conditions(self):
        words = [f"{name}={value}" for name, value in self.environment.items()] + self.options + self.bench
        return " ".join(words) or "default settings"


def open_mpi(letter, component=None):
    """Open MPI with a kept heap and yielding; with `component`, collectives of that component."""
    chosen = ["--mca", f"coll_{component}_priority", "90"] if component else []
    return Baseline(letter, "mpi", options=[*YIELD, *chosen], environment=HEAP)


BASELINES = {
    "openmpi": Baseline("A", "mpi"),
    "openmpi-best": open_mpi("B"),
    "mpich": Baseline("C", "mpi", launcher="mpirun.mpich", build="TUTTI_MPICH_BUILD", spins=True),
    "gloo": Baseline("D", "gloo"),
    "openmpi-sm": open_mpi("E", "sm"),
    "openmpi-han": open_mpi("F", "han"),
    "openmpi-adapt": open_mpi("G", "adapt"),
    "openmpi5": Baseline("H", "mpi", launcher=f"{LAUNCHERS}/openmpi/bin/mpirun", build="TUTTI_OPENMPI5_BUILD"),
    "openmpi5-best": Baseline("H", "mpi", options=YIELD, environment=HEAP, launcher=f"{LAUNCHERS}/openmpi/bin/mpirun",
                              build="TUTTI_OPENMPI5_BUILD"),
    "mpich5": Baseline("I", "mpi", launcher=f"{LAUNCHERS}/mpich/bin/mpirun", build="TUTTI_MPICH5_BUILD", spins=True,
                       max_bytes_if_slow=64 << 10),
    # Has MPICH's ABI, so the build for MPICH 5 loads its library.
    "impi": Baseline("P", "mpi", launcher=f"{LAUNCHERS}/impi/bin/mpiexec", build="TUTTI_MPICH5_BUILD", spins=True,
                     environment={"LD_LIBRARY_PATH": f"{LAUNCHERS}/impi/lib"}),
    "nccl": Baseline("M", "nccl", environment=NO_NCCL_MULTICAST, bench=["--backend", "nccl"], on_request=True),
    "nccl-graph": Baseline("M", "nccl", environment=NO_NCCL_MULTICAST, bench=["--backend", "nccl", "--graph"], on_request=True),
    "nccl-windows": Baseline("O", "nccl-windows", environment=NO_NCCL_MULTICAST, bench=["--backend", "nccl"], on_request=True),
    "nccl-serial": Baseline("N", "nccl-serial", environment=NO_NCCL_MULTICAST, bench=["--backend", "nccl"], on_request=True),
}


def fail(sentence):
    print(f"bench: {sentence}", file=sys.stderr)
    sys.exit(2)


def tutti_for(baseline):
    build = os.environ.get(baseline.build, "")
    return Path(build) / "apps" / "tutti" if build else None


def why_not(baseline):
    """Why the baseline can't be measured here; None if it can."""
    tutti = tutti_for(baseline)
    if tutti is None or not shutil.which(baseline.launcher):
        if baseline.launcher == "mpirun":
            return "there is no mpirun"
        return f"{baseline.launcher} or a build for it is missing (apt install mpich libmpich-dev; scripts/launchers openmpi mpich impi)"
    if baseline.vs == "gloo":
        version = subprocess.run([tutti, "--version"], capture_output=True, text=True, check=True).stdout
        if "Gloo (bench --vs gloo): not" in version:
            return "Gloo was not found when tutti was built (apt install libgloo-dev)"
    return None


def placement(launcher, ranks):
    """Options of the launcher: one core per rank if there are enough cores, else oversubscription."""
    if "mpich" in launcher or Path(launcher).parent.parent.name == "impi":
        return []
    if "/" in launcher and ranks > len(os.sched_getaffinity(0)):
        return ["--map-by", ":oversubscribe", "--bind-to", "none"]
    return ["--bind-to", "core"] if ranks <= len(os.sched_getaffinity(0)) else ["--oversubscribe", "--bind-to", "none"]


def is_slow(baseline, ranks):
    return baseline.spins and ranks > len(os.sched_getaffinity(0))


def how_often(baseline, ranks, options):
    """--iterations if given; else --min-time, or a fixed number of calls if each takes several time slices."""
    iterations = options.iterations or (ITERATIONS_OF_SLOW_CALLS if is_slow(baseline, ranks) else 0)
    return ["--iterations", str(iterations)] if iterations else ["--min-time", options.min_time]


def sizes_for(name, ranks, options):
    """The sizes that take at most minutes. Prints the others."""
    baseline = BASELINES[name]
    sizes = options.sizes.split(",")
    max_bytes = baseline.max_bytes_if_slow
    if not max_bytes or not is_slow(baseline, ranks):
        return sizes
    kept = [size for size in sizes if bytes_of(size) <= max_bytes]
    if skipped := [size for size in sizes if size not in kept]:
        print(f"{name}: {', '.join(skipped)} with {ranks} ranks skipped: a call takes seconds if ranks outnumber cores", flush=True)
    return kept


def run(baseline, ranks, sizes, options):
    """Returns the report of one run and its command. Removes variables that slow the baseline down (baseline_variables.py)."""
    command = [baseline.launcher, *placement(baseline.launcher, ranks), *options.mpirun, *baseline.options, "-np", str(ranks),
               str(tutti_for(baseline)), "bench", *options.operations.split(","), "--sizes", ",".join(sizes), "--type", options.type,
               "--vs", baseline.vs, *how_often(baseline, ranks, options), "--json", "-", *baseline.bench]
    environment, _ = without(os.environ, [baseline.vs])
    done = subprocess.run(command, capture_output=True, text=True, env={**environment, **baseline.environment}, check=False)
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        return None, command, (done.stderr or done.stdout).strip()
    return report, command, "results were wrong" if done.returncode else ""


def release(report, baseline):
    version = report["job"]["peers"][baseline.vs]
    return version if baseline.vs == "mpi" else f"{baseline.vs} {version}"


def key_of(entry, ranks):
    return (entry["op"], ranks, entry["bytes"])


def join(runs):
    """One row per operation, number of ranks and size, with the speed-up against each baseline and the lowest of them."""
    rows = {}
    for entry in runs:
        for ratio in entry["report"]["ratios"]:
            row = rows.setdefault(key_of(ratio, entry["ranks"]), {"op": ratio["op"], "type": ratio["type"], "ranks": entry["ranks"],
                                                                  "bytes": ratio["bytes"], "ratios": {}})
            row["ratios"][entry["baseline"]] = {name: ratio[name] for name in ("ratio", "low", "high", "back_to_back_ratio")}
    for row in rows.values():
        row["lowest"] = min(row["ratios"], key=lambda name: row["ratios"][name]["ratio"])
    return list(rows.values())


def table(rows, runs):
    """A Markdown table with one row per size and one column per baseline."""
    lines = []
    for ranks in dict.fromkeys(row["ranks"] for row in rows):
        names = list(dict.fromkeys(entry["baseline"] for entry in runs if entry["ranks"] == ranks))
        lines += ["", f"{ranks} ranks: speed-up of tutti, the baseline's time over tutti's (quartiles); above 1 tutti is faster", "",
                  "| operation | bytes | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
        for row in (row for row in rows if row["ranks"] == ranks):
            cells = []
            for name in names:
                ratio = row["ratios"].get(name)
                text = f"{ratio['ratio']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})" if ratio else "–"
                cells.append(f"**{text}**" if name == row["lowest"] else text)
            lines.append(f"| {row['op']} | {size_text(row['bytes'])} | " + " | ".join(cells) + " |")
    return lines


def legend(runs):
    job = runs[0]["report"]["job"]
    lines = ["", f"tutti {job['version']}, {job['hosts']} host(s), {job['processor']}, {job['cores']} core(s) for rank 0"
             + (f" (quota {job['core_quota']:g})" if job.get("core_quota") else "")
             + (f", {job['device']}" if job["device"] else "")]
    seen = {}
    for entry in runs:
        dropped = ", ".join(f"{name}={value}" for name, value in entry.get("dropped", {}).items())
        seen.setdefault(entry["baseline"], f"- {entry['baseline']} (configuration {entry['configuration']}): {entry['release']}, {entry['conditions']}"
                        + (f", without {dropped}, which the environment had" if dropped else ""))
    return lines + list(seen.values())


def baselines_named(words):
    """Names of baselines, from their names or the letters of their configurations."""
    names = []
    for word in words:
        found = [name for name, baseline in BASELINES.items() if word in (name, baseline.letter)]
        if not found:
            letters = dict.fromkeys(baseline.letter for baseline in BASELINES.values())
            fail(f"unknown baseline '{word}': expected {', '.join(BASELINES)}, or a configuration {', '.join(letters)}")
        names += [name for name in found if name not in names]
    return names


def arguments():
    words = sys.argv[1:]
    mpirun = words[words.index("--") + 1:] if "--" in words else []
    parser = argparse.ArgumentParser(prog="scripts/bench", add_help=False)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--operations", "--ops", default=ALL)
    parser.add_argument("--sizes", default="4,1KiB,64KiB,1MiB,16MiB,64MiB")
    parser.add_argument("--type", default="f32")
    parser.add_argument("--min-time", default="300ms")
    parser.add_argument("--iterations", type=int, default=0)
    parser.add_argument("--baselines", "--opponents", default=",".join(name for name, one in BASELINES.items() if not one.on_request))
    parser.add_argument("--out", default=str(Path(os.environ.get("TUTTI_BUILD", "build")) / "bench"))
    options = parser.parse_args(words[:words.index("--")] if "--" in words else words)
    options.mpirun = mpirun
    options.baselines = baselines_named(options.baselines.split(","))
    if not all(part.isdigit() and int(part) > 0 for part in options.ranks.split(",")):
        fail(f"invalid --ranks '{options.ranks}': expected comma-separated numbers, such as 2,4")
    return options


def measure(options):
    runs = []
    for name in options.baselines:
        baseline = BASELINES[name]
        if reason := why_not(baseline):
            print(f"{name} is skipped: {reason}", flush=True)
            continue
        _, dropped = without(os.environ, [baseline.vs])
        for line in notes(name, dropped):
            print(line, flush=True)
        for ranks in map(int, options.ranks.split(",")):
            if not (sizes := sizes_for(name, ranks, options)):
                continue
            report, command, error = run(baseline, ranks, sizes, options)
            print(f"{name}, {ranks} ranks: {error or 'done'}", flush=True)
            if report is not None:
                runs.append({"baseline": name, "configuration": baseline.letter, "release": release(report, baseline), "conditions": baseline.conditions(),
                             "ranks": ranks, "command": command, "environment": baseline.environment, "dropped": dropped,
                             "good": not error, "report": report})
    return runs


def main():
    options = arguments()
    if options.list:
        for name, baseline in BASELINES.items():
            print(f"{baseline.letter} {name:<14} {baseline.launcher:<13} --vs {baseline.vs:<12} {baseline.conditions()}")
        return 0
    runs = measure(options)
    if not runs:
        fail("no baseline could be measured")
    rows = join(runs)
    lines = table(rows, runs) + legend(runs)
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.json").write_text(json.dumps({"schema": 1, "table": rows, "runs": runs}, indent=1) + "\n")
    (folder / "bench.md").write_text("\n".join(lines).lstrip("\n") + "\n")
    print("\n".join(lines))
    print(f"\nwritten: {folder}/bench.json, {folder}/bench.md; scripts/plot {folder}/bench.json draws it")
    return 0 if all(entry["good"] for entry in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
