# The part "preload" of scripts/gpu-test: NCCL programs with libtutti_nccl.so in front of libnccl.so.2 and without, in turns. Sourced.
# TUTTI_TORCH_PYTHON: a python with PyTorch (default /opt/torch/.venv/bin/python, else python3). TUTTI_NCCL_FOLDER: where libnccl.so.2 is
# (default: the loader's, else PyTorch's).
preload=$build/preload/libtutti_nccl.so
nccl_check=$build/test/preload/nccl_check
torch_python=${TUTTI_TORCH_PYTHON:-/opt/torch/.venv/bin/python}
[ -x "$torch_python" ] || torch_python=$(command -v python3)
has_torch() { "$torch_python" -c 'import torch' 2>/dev/null; }
nccl_of_loader=$(ldconfig -p | sed -n 's/.*libnccl\.so\.2 .*=> //p' | head -n 1)
nccl_of_torch=$("$torch_python" -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0] + "/lib")' 2>/dev/null || true)
nccl_folder=${TUTTI_NCCL_FOLDER:-${nccl_of_loader:+$(dirname "$nccl_of_loader")}}
nccl_folder=${nccl_folder:-$nccl_of_torch}
if [ "$gpus" -lt 2 ]; then
  skip "preload" "there is one GPU"
  return 0
fi
if [ -z "$nccl_folder" ]; then
  skip "preload" "there is no libnccl.so.2: set TUTTI_NCCL_FOLDER"
  return 0
fi
echo "NCCL: $nccl_folder" | tee -a "$log"
# The folder comes first, so that the stub that the program is linked to is not used.
plainly=(env LD_LIBRARY_PATH="$nccl_folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
preloaded=("${plainly[@]}" LD_PRELOAD="$preload")

show "${preloaded[@]}" TUTTI_LOG=info TUTTI_NCCL_REPORT=1 "$nccl_check" 2 calls || true
for name in calls order groups split graph branches nonblocking; do
  check "$name without the preload" 0 "^passed $name" "${plainly[@]}" "$nccl_check" 2 "$name"
done
# Calls of the direct path: NCCL alone would pass, too.
served=$'\nncclAllReduce +[1-9]'
for name in calls order groups split graph branches nonblocking abort; do
  check "$name" 0 "^passed $name$served" "${preloaded[@]}" TUTTI_NCCL_REPORT=1 "$nccl_check" 2 "$name"
done
# They end without destroying it, so there is no report.
for name in mixed leave-after-graph; do check "$name" 0 "^passed $name" "${preloaded[@]}" "$nccl_check" 2 "$name"; done
check "a served call" 0 "ncclAllReduce +24 +8 " "${preloaded[@]}" TUTTI_NCCL_REPORT=1 "$nccl_check" 2 calls
check "switched off" 0 "ncclAllReduce +0 +32 .*no direct path" \
  "${preloaded[@]}" TUTTI_NCCL_REPORT=1 TUTTI_DEVICE_PATH=nccl "$nccl_check" 2 calls
check "a late rank is named" 0 "has not returned for . s: the latest call of rank 1 .* is call 1" \
  "${preloaded[@]}" TUTTI_TIMEOUT=2s "$nccl_check" 2 late
collect
# By themselves, since they measure how long something takes.
check "leave" 0 "^passed leave" "${preloaded[@]}" "$nccl_check" 2 leave
for name in killed killed-in-graph; do check "$name" 0 "^passed $name" "${preloaded[@]}" "$nccl_check" 2 "$name"; done
collect
random_calls=${TUTTI_TEST_CALLS:-20000}
check "$random_calls random calls" 0 "^passed random$served" \
  "${preloaded[@]}" TUTTI_NCCL_REPORT=1 TUTTI_TEST_CALLS="$random_calls" "$nccl_check" 2 random
collect
[ "$gpus" -eq 2 ] || for name in calls random groups split; do
  check "$name on $gpus GPUs" 0 "^passed $name" "${preloaded[@]}" TUTTI_TEST_CALLS=500 "$nccl_check" "$gpus" "$name"
done
collect

# compare_turns NAME TURNS COMMAND…: the times of the command without and with the preload, so many times each, as a table.
compare_turns() {
  local name=$1 turns=$2 turn status=0 without=() with=()
  shift 2
  for turn in $(seq "$turns"); do
    timeout 60 "${plainly[@]}" "$@" >"$out/$name-plain-$turn.txt" 2>&1 || status=1
    timeout 60 "${preloaded[@]}" "$@" >"$out/$name-preload-$turn.txt" 2>&1 || status=1
    without+=("$out/$name-plain-$turn.txt")
    with+=("$out/$name-preload-$turn.txt")
  done
  if [ "$status" -eq 0 ] &&
    show "$root/scripts/lib/compare_times.py" "$(IFS=, && echo "${without[*]}")" "$(IFS=, && echo "${with[*]}")"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED times of $name"
    tail -n 5 "${without[@]}" "${with[@]}" | tee -a "$log"
  fi
}
compare_turns nccl 3 "$nccl_check" 2 time

if has_torch; then
  torch_check=("$torch_python" "$root/test/preload/torch_check.py")
  jobs=()
  for what in results bound; do
    timeout 120 "${torch_check[@]}" 2 "$what" >"$out/torch-plain-$what.txt" 2>&1 &
    jobs+=("$!")
    timeout 120 env LD_PRELOAD="$preload" TUTTI_NCCL_REPORT=1 "${torch_check[@]}" 2 "$what" >"$out/torch-preload-$what.txt" 2>&1 &
    jobs+=("$!")
  done
  ended=()
  for job in "${jobs[@]}"; do
    status=0
    wait "$job" || status=$?
    ended+=("$status")
  done
  for what in results bound; do
    ended_well=$([ "${ended[0]} ${ended[1]}" = "0 0" ] && echo yes || echo no)
    ended=("${ended[@]:2}")
    grep '^tutti' "$out/torch-preload-$what.txt" | tee -a "$log" || true
    if [ "$ended_well" = yes ] && [ "$(grep -c '^results' "$out/torch-plain-$what.txt")" -eq 2 ] &&
      diff <(grep '^results' "$out/torch-plain-$what.txt" | sort) <(grep '^results' "$out/torch-preload-$what.txt" | sort) >>"$log" &&
      grep -qE 'ncclAllReduce +[1-9]' "$out/torch-preload-$what.txt"; then
      passed=$((passed + 1))
      echo "passed PyTorch, $what: equal with and without the preload" | tee -a "$log"
    else
      failed=$((failed + 1))
      echo "FAILED PyTorch, $what" | tee -a "$log"
      tail -n 20 "$out/torch-plain-$what.txt" "$out/torch-preload-$what.txt" | tee -a "$log"
    fi
  done
  check "PyTorch, a killed rank" 0 $'the others ended after [0-9]\\.\nrank 1 .* has ended' env LD_PRELOAD="$preload" "${torch_check[@]}" 2 killed
  collect
  plainly=(env)
  preloaded=(env LD_PRELOAD="$preload")
  compare_turns torch 2 "${torch_check[@]}" 2 time
else
  skip "PyTorch" "$torch_python has no torch"
fi
