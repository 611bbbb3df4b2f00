# Shared by the scripts: required packages, the build, and progress output. Sourced, not run.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${TUTTI_BUILD:-$root/build}

# Open MPI refuses to run as root without these two variables, and by default requires one core per rank.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PATH=$PATH:/usr/sbin:/sbin

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$1" >&2
  exit "${2:-1}"
}

# step NAME COMMAND…: runs the command quietly and prints its duration. Prints all output only if it failed.
step() {
  local name=$1 log started status=0
  shift
  log=$(mktemp)
  started=$(date +%s.%N)
  "$@" >"$log" 2>&1 || status=$?
  if [ "$status" -ne 0 ]; then
    cat "$log" >&2
    rm -f "$log"
    fail "$name failed (exit $status)" 1
  fi
  rm -f "$log"
  printf '%-24s %6.1f s\n' "$name" "$(echo "$(date +%s.%N) $started" | awk '{print $1 - $2}')"
}

has_command() { command -v "$1" >/dev/null 2>&1; }
has_library() { pkg-config --exists "$1" 2>/dev/null; }
has_header() { echo "#include <$1>" | c++ -std=c++20 -E -x c++ - >/dev/null 2>&1; }

# missing_packages [test]: prints the Debian and Ubuntu names of missing packages. Checks for the tools themselves, not in the package
# manager, so other installations count too.
missing_packages() {
  has_command c++ || echo g++
  has_command meson || echo meson
  has_command ninja || echo ninja-build
  has_command pkg-config || echo pkg-config
  has_library fmt || echo libfmt-dev
  has_library libcrypto || echo libssl-dev
  has_header CLI/CLI.hpp || echo libcli11-dev
  has_header nlohmann/json.hpp || echo nlohmann-json3-dev
  if ! has_command mpirun || ! has_command mpicxx; then echo openmpi-bin libopenmpi-dev; fi
  [ "${1:-}" = test ] || return 0
  has_command python3 || echo python3
  if ! has_header catch2/catch.hpp && ! has_header catch2/catch_all.hpp; then echo catch2; fi
}

# install_named STEP PACKAGE…
install_named() {
  local name=$1 missing="${*:2}" as_root=()
  [ -n "${missing// /}" ] || return 0
  has_command apt-get || fail "these are missing and there is no apt-get to install them: $missing" 2
  if [ "$(id -u)" -ne 0 ]; then
    has_command sudo || fail "these are missing, and installing them needs root or sudo: $missing" 2
    as_root=(sudo)
  fi
  printf 'installing %s …\n' "$missing"
  step "$name" "${as_root[@]+"${as_root[@]}"}" sh -c \
    "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing"
}

install_packages() { install_named "install packages" "$(missing_packages "${1:-}" | tr '\n' ' ')"; }

# optional_packages: packages that only some tests need, one line per group. Without them these tests are skipped, with a reason.
optional_packages() {
  has_command ip || echo iproute2
  has_command cmake || echo cmake
  has_command nft || echo nftables
  # For the virtual environments of scripts/launchers.
  python3 -c 'import ensurepip' 2>/dev/null || echo python3-venv
  # For the tests of scripts/plot.
  python3 -c 'import matplotlib' 2>/dev/null || /usr/bin/python3 -c 'import matplotlib' 2>/dev/null || echo python3-matplotlib
  # Launchers for tests: torchrun, and Slurm's srun.
  python3 -c 'import torch' 2>/dev/null || /usr/bin/python3 -c 'import torch' 2>/dev/null || echo python3-torch
  if ! has_command slurmctld || ! has_command munged; then echo slurm-wlm munge; fi
}

# install_optional_packages: installs each group separately, so that one missing group does not prevent the others.
install_optional_packages() {
  local wanted packages log status as_root=()
  wanted=$(optional_packages)
  [ -n "$wanted" ] || return 0
  [ "$(id -u)" -eq 0 ] || ! has_command sudo || as_root=(sudo -n)
  if has_command apt-get; then
    log=$(mktemp)
    "${as_root[@]+"${as_root[@]}"}" timeout 120 apt-get update -qq >"$log" 2>&1 </dev/null || true
    while read -r packages; do
      status=0
      # shellcheck disable=SC2086  # a list of words
      "${as_root[@]+"${as_root[@]}"}" timeout 600 env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends $packages >>"$log" 2>&1 </dev/null || status=$?
      [ "$status" -eq 0 ] || printf 'apt-get install %s failed (exit %s): %s\n' "$packages" "$status" "$(tail -n 1 "$log")"
    done <<<"$wanted"
    rm -f "$log"
  fi
  wanted=$(optional_packages)
  [ -z "$wanted" ] || printf 'not installed, so tests that need it are skipped: %s\n' "$(paste -sd ' ' <<<"$wanted")"
}

# install_launchers: installs other MPIs with their launchers, also separately.
install_launchers() {
  local name
  for name in openmpi mpich impi; do
    timeout 240 "$root/scripts/launchers" "$name" ||
      printf 'not installed, so tests that need it are skipped: %s (the reason is above, or it took more than 240 s)\n' "$name"
  done
}

# configure_for_quickstart: creates the build folder, if there is none, as a unity build, which takes a third of the time
# (docs/decisions/0024-unity-build.md). The next script that calls configure turns that off.
unity_mark=unity-by-quickstart
configure_for_quickstart() {
  [ ! -f "$build/build.ninja" ] || return 0
  # Without a GPU there is no use for kernels, which take half a minute.
  local cuda=auto
  has_command nvidia-smi || cuda=disabled
  # One unit per library: meson 1.0 loses a unit if the number of sources is a multiple of the size.
  configure --unity on --unity-size 1000 -Dcuda=$cuda
  touch "$build/$unity_mark"
}

# configure [OPTION…]: creates the build folder, or changes the options of an existing one.
configure() {
  if [ ! -f "$build/build.ninja" ]; then
    step configure meson setup "$build" "$root" "$@"
  elif [ -f "$build/$unity_mark" ]; then
    # In a unity build an edit recompiles twenty sources, clang-tidy does not find them, and bench would measure another binary than a plain
    # `meson setup` builds.
    step configure meson setup --reconfigure "$build" "$root" -Dunity=off -Dcuda=auto "$@"
    rm "$build/$unity_mark"
  elif [ $# -gt 0 ]; then
    # Reconfigures a folder that was created without a package that is installed now.
    step configure meson setup --reconfigure "$build" "$root" "$@"
  fi
}

# compile TARGET…: $build_time is printed as the expected duration.
compile() {
  printf 'building (%s) …\n' "${build_time:-minutes, the first time}"
  step build ninja -C "$build" "$@"
}
