"""Runs `tutti bench` once for each opponent and job size, and joins their results. Called by scripts/bench."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from peer_variables import notes, without
from sizes import bytes_of, size_text

ALL = "fan-out,broadcast,all-reduce,reduce,all-gather,reduce-scatter,gather,scatter,all-to-all,send-recv,barrier"
# Keeps what malloc has got from the kernel: Open MPI allocates its scratch anew at each call.
HEAP = {"MALLOC_MMAP_THRESHOLD_": "2147483648", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
YIELD = ["--mca", "mpi_yield_when_idle", "1"]
PEERS = os.environ.get("TUTTI_PEERS", "/opt/peers")
ITERATIONS_OF_SLOW_CALLS = 15
NO_NCCL_MULTICAST = {"NCCL_NVLS_ENABLE": os.environ.get("NCCL_NVLS_ENABLE", "0")}


@dataclass
class Opponent:
    """A peer, the command line of the launcher, and options of tutti bench."""
    peer: str
    options: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)
    bench: list = field(default_factory=list)
    launcher: str = "mpirun"
    build: str = "TUTTI_BUILD"  # the variable with the build that links its MPI
    asked_for: bool = False  # only if named by --opponents
    spins: bool = False  # busy-waits without yielding: a call takes some time slices if there are more ranks than cores
    most_bytes_where_it_spins: int = 0  # above, such a call takes seconds; 0: it does not

    def conditions(self):
        words = [f"{name}={value}" for name, value in self.environment.items()] + self.options + self.bench
        return " ".join(words) or "default settings"


def open_mpi(component=None):
    """With the heap kept and yielding, and a component for collectives above the others."""
    chosen = ["--mca", f"coll_{component}_priority", "90"] if component else []
    return Opponent("mpi", options=[*YIELD, *chosen], environment=HEAP)


OPPONENTS = {
    "openmpi": Opponent("mpi"),
    "openmpi-best": open_mpi(),
    "openmpi-sm": open_mpi("sm"),
    "openmpi-han": open_mpi("han"),
    "openmpi-adapt": open_mpi("adapt"),
    "openmpi5": Opponent("mpi", launcher=f"{PEERS}/openmpi/bin/mpirun", build="TUTTI_OPENMPI5_BUILD"),
    "openmpi5-best": Opponent("mpi", options=YIELD, environment=HEAP, launcher=f"{PEERS}/openmpi/bin/mpirun", build="TUTTI_OPENMPI5_BUILD"),
    "mpich": Opponent("mpi", launcher="mpirun.mpich", build="TUTTI_MPICH_BUILD", spins=True),
    "mpich5": Opponent("mpi", launcher=f"{PEERS}/mpich/bin/mpirun", build="TUTTI_MPICH5_BUILD", spins=True,
                       most_bytes_where_it_spins=64 << 10),
    "gloo": Opponent("gloo"),
    "nccl": Opponent("nccl", environment=NO_NCCL_MULTICAST, bench=["--backend", "nccl"], asked_for=True),
    "nccl-graph": Opponent("nccl", environment=NO_NCCL_MULTICAST, bench=["--backend", "nccl", "--graph"], asked_for=True),
    "nccl-serial": Opponent("nccl-serial", environment=NO_NCCL_MULTICAST, bench=["--backend", "nccl"], asked_for=True),
}


def fail(sentence):
    print(f"bench: {sentence}", file=sys.stderr)
    sys.exit(2)


def tutti_for(opponent):
    build = os.environ.get(opponent.build, "")
    return Path(build) / "apps" / "tutti" if build else None


def why_not(opponent):
    """Why it can't be run here; None if it can."""
    tutti = tutti_for(opponent)
    if tutti is None or not shutil.which(opponent.launcher):
        if opponent.launcher == "mpirun":
            return "there is no mpirun"
        return f"{opponent.launcher} or a build for it is missing (apt install mpich libmpich-dev; scripts/peers openmpi mpich)"
    if opponent.peer == "gloo":
        version = subprocess.run([tutti, "--version"], capture_output=True, text=True, check=True).stdout
        if "Gloo (bench --vs gloo): not" in version:
            return "Gloo was not found when tutti was built (apt install libgloo-dev)"
    return None


def placement(launcher, ranks):
    """A core a rank where there are enough; else as the launcher calls it."""
    if "mpich" in launcher:
        return []
    if "/" in launcher and ranks > len(os.sched_getaffinity(0)):
        return ["--map-by", ":oversubscribe", "--bind-to", "none"]
    return ["--bind-to", "core"] if ranks <= len(os.sched_getaffinity(0)) else ["--oversubscribe", "--bind-to", "none"]


def is_slow(opponent, ranks):
    return opponent.spins and ranks > len(os.sched_getaffinity(0))


def how_often(opponent, ranks, options):
    """As many calls as were asked for; else for how long, but for calls that last for some time slices."""
    iterations = options.iterations or (ITERATIONS_OF_SLOW_CALLS if is_slow(opponent, ranks) else 0)
    return ["--iterations", str(iterations)] if iterations else ["--min-time", options.min_time]


def sizes_for(name, ranks, options):
    """Those that end in some minutes; and says which are left out."""
    opponent = OPPONENTS[name]
    sizes = options.sizes.split(",")
    most = opponent.most_bytes_where_it_spins
    if not most or not is_slow(opponent, ranks):
        return sizes
    kept = [size for size in sizes if bytes_of(size) <= most]
    if left_out := [size for size in sizes if size not in kept]:
        print(f"{name}: {', '.join(left_out)} with {ranks} ranks: left out: a call takes seconds if there are more ranks than cores", flush=True)
    return kept


def run(opponent, ranks, sizes, options):
    """The report of one run and the command that it came from. What slows the peer down stays behind (peer_variables.py)."""
    command = [opponent.launcher, *placement(opponent.launcher, ranks), *options.mpirun, *opponent.options, "-np", str(ranks),
               str(tutti_for(opponent)), "bench", *options.ops.split(","), "--sizes", ",".join(sizes), "--type", options.type,
               "--vs", opponent.peer, *how_often(opponent, ranks, options), "--json", "-", *opponent.bench]
    environment, _ = without(os.environ, [opponent.peer])
    done = subprocess.run(command, capture_output=True, text=True, env={**environment, **opponent.environment}, check=False)
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        return None, command, (done.stderr or done.stdout).strip()
    return report, command, "results were wrong" if done.returncode else ""


def release(report, opponent):
    version = report["job"]["peers"][opponent.peer]
    return version if opponent.peer == "mpi" else f"{opponent.peer} {version}"


def key_of(entry, ranks):
    return (entry["op"], ranks, entry["bytes"])


def join(runs):
    """One row for each operation, job size and bytes, with the ratio against each opponent and the lowest of them."""
    rows = {}
    for entry in runs:
        for ratio in entry["report"]["ratios"]:
            row = rows.setdefault(key_of(ratio, entry["ranks"]), {"op": ratio["op"], "type": ratio["type"], "ranks": entry["ranks"],
                                                                  "bytes": ratio["bytes"], "ratios": {}})
            row["ratios"][entry["opponent"]] = {name: ratio[name] for name in ("ratio", "low", "high", "back_to_back_ratio")}
    for row in rows.values():
        row["lowest"] = min(row["ratios"], key=lambda name: row["ratios"][name]["ratio"])
    return list(rows.values())


def table(rows, runs):
    """Markdown: a row a size, a column an opponent."""
    lines = []
    for ranks in dict.fromkeys(row["ranks"] for row in rows):
        names = list(dict.fromkeys(entry["opponent"] for entry in runs if entry["ranks"] == ranks))
        lines += ["", f"{ranks} ranks: speed-up of tutti, the opponent's time over tutti's (quartiles); above 1 tutti is faster", "",
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
             + (f", {job['device']}" if job["device"] else "")]
    seen = {}
    for entry in runs:
        dropped = ", ".join(f"{name}={value}" for name, value in entry.get("dropped", {}).items())
        seen.setdefault(entry["opponent"], f"- {entry['opponent']}: {entry['release']}, {entry['conditions']}"
                        + (f", without {dropped}, which the environment had" if dropped else ""))
    return lines + list(seen.values())


def arguments():
    words = sys.argv[1:]
    mpirun = words[words.index("--") + 1:] if "--" in words else []
    parser = argparse.ArgumentParser(prog="scripts/bench", add_help=False)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--ops", default=ALL)
    parser.add_argument("--sizes", default="4,1KiB,64KiB,1MiB,16MiB,64MiB")
    parser.add_argument("--type", default="f32")
    parser.add_argument("--min-time", default="300ms")
    parser.add_argument("--iterations", type=int, default=0)
    parser.add_argument("--opponents", default=",".join(name for name, one in OPPONENTS.items() if not one.asked_for))
    parser.add_argument("--out", default=str(Path(os.environ.get("TUTTI_BUILD", "build")) / "bench"))
    options = parser.parse_args(words[:words.index("--")] if "--" in words else words)
    options.mpirun = mpirun
    unknown = [name for name in options.opponents.split(",") if name not in OPPONENTS]
    if unknown:
        fail(f"unknown opponent '{unknown[0]}': expected {', '.join(OPPONENTS)}")
    if not all(part.isdigit() and int(part) > 0 for part in options.ranks.split(",")):
        fail(f"invalid --ranks '{options.ranks}': expected comma-separated numbers, such as 2,4")
    return options


def measure(options):
    runs = []
    for name in options.opponents.split(","):
        opponent = OPPONENTS[name]
        if reason := why_not(opponent):
            print(f"{name} is left out: {reason}", flush=True)
            continue
        _, dropped = without(os.environ, [opponent.peer])
        for line in notes(name, dropped):
            print(line, flush=True)
        for ranks in map(int, options.ranks.split(",")):
            if not (sizes := sizes_for(name, ranks, options)):
                continue
            report, command, trouble = run(opponent, ranks, sizes, options)
            print(f"{name}, {ranks} ranks: {trouble or 'done'}", flush=True)
            if report is not None:
                runs.append({"opponent": name, "release": release(report, opponent), "conditions": opponent.conditions(),
                             "ranks": ranks, "command": command, "environment": opponent.environment, "dropped": dropped,
                             "good": not trouble, "report": report})
    return runs


def main():
    options = arguments()
    if options.list:
        for name, opponent in OPPONENTS.items():
            print(f"{name:<14} {opponent.launcher:<13} --vs {opponent.peer:<12} {opponent.conditions()}")
        return 0
    runs = measure(options)
    if not runs:
        fail("no opponent could be measured")
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
