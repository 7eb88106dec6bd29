#!/usr/bin/env bash
# Runs everything that needs a GPU, without a network and within ten minutes: builds, checks all
# kernels against their references and the laws on real queries (with rounds on the host and on the
# device), measures graphs, barriers, steps, queries and kernels, and finally runs the sanitizers.
#
# usage: bench/gpu.sh [FOLDER]     folder for results; build/gpu if not given. Three files:
#   summary.txt     a line for each part, ok or FAIL, and the end of a failed part's log
#   results.jsonl   a line for each result, written at once
#   logs.tar.gz     the output of every part
# PYTHON names the interpreter (torch, scikit-build-core, pybind11, cmake and ninja beside it),
# SECONDS_IN_ALL limits the time of all parts together (560). STAND_IN=1 tries the script without a
# GPU: the CUDA operators as host code, and less of everything; molspec must be installed.
set -uo pipefail
cd "$(dirname "$0")/.."
out=$(mkdir -p "${1:-build/gpu}" && cd "${1:-build/gpu}" && pwd)
python=${PYTHON:-python3}
stand_in=${STAND_IN:-}
slower=${stand_in:+20} # factor of the limits, which are for a device
deadline=$((SECONDS + ${SECONDS_IN_ALL:-560}))
site=$(mktemp -d)
logs=$site/logs
mkdir "$logs"
trap 'rm -rf "$site"' EXIT
: > "$out/summary.txt"
: > "$out/results.jsonl"
status=0

# step NAME LIMIT COMMAND...: runs a command for at most LIMIT seconds, or the time left.
step() {
  local name=$1 limit=$(($2 * ${slower:-1})) begin=$SECONDS left=$((deadline - SECONDS))
  shift 2
  if ((left < 5)); then
    echo "skip  $name: no time is left" >> "$out/summary.txt"
    status=1
    return
  fi
  if timeout --kill-after=5 "$((limit < left ? limit : left))" "$@" > "$logs/$name.txt" 2>&1; then
    echo "ok    $name ($((SECONDS - begin)) s)" >> "$out/summary.txt"
  else
    echo "FAIL  $name (status $?, $((SECONDS - begin)) s)" >> "$out/summary.txt"
    tail -n 6 "$logs/$name.txt" | cut -c 1-300 | sed 's/^/      /' >> "$out/summary.txt"
    status=1
  fi
}

# part NAME LIMIT [COMMAND...]: runs a part of bench/gpu, through a command if one is given.
part() {
  local name=$1 limit=$2
  shift 2
  step "$name" "$limit" "$@" "$python" bench/gpu "$name" --lines "$out/results.jsonl" $options
}

# sanitize TOOL LIMIT: checks our kernels only, without torch's cached memory. The import of torch
# takes most of the limit; torch queries features that a device may lack, which is not an error.
sanitize() {
  step "$1" "$2" env PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool "$1" \
    --report-api-errors no --kernel-regex kns=molspec --error-exitcode 1 "$python" bench/gpu small
}

export OMP_NUM_THREADS=4
if [[ $stand_in ]]; then
  options="--device emulation --few"
  export OMP_NUM_THREADS=1
else
  options=""
  step machine 20 bash -c "nvidia-smi; nvcc --version; '$python' -c 'import torch; print(torch.__version__)'"
  step build 130 env MOLSPEC_CUDA=ON "$python" -m pip install --no-index --no-build-isolation \
    --no-deps --target "$site" .
  export PYTHONPATH="$site"
fi
part checks 70
part laws 70
if command -v nvidia-smi > /dev/null; then
  step costs 40 bash -o pipefail -c "nvcc -O3 -std=c++17 -arch=native \
    bench/gpu/costs.cu -o '$site/costs' && '$site/costs' | tee -a '$out/results.jsonl'"
else
  echo "skip  costs: no GPU" >> "$out/summary.txt"
fi
part times 110
part kernels 40
if command -v ncu > /dev/null; then
  for kernel in linear_narrow linear_wide attention_kernel propose_tree look_ahead; do
    step "ncu $kernel" 20 ncu --set full --launch-count 1 --csv --clock-control none \
      --kernel-name-base function --kernel-name "regex:$kernel" "$python" bench/gpu small
  done
else
  echo "skip  ncu: not installed" >> "$out/summary.txt"
fi
if command -v compute-sanitizer > /dev/null; then
  sanitize memcheck 100
  sanitize racecheck 100
  sanitize synccheck 80
else
  echo "skip  memcheck, racecheck, synccheck: no compute-sanitizer" >> "$out/summary.txt"
fi
tar -czf "$out/logs.tar.gz" -C "$logs" .
echo "$(wc -l < "$out/results.jsonl") lines of results in $out/results.jsonl" >> "$out/summary.txt"
failed=$(grep --count "^FAIL" "$out/summary.txt")
skipped=$(grep --count "^skip" "$out/summary.txt")
echo "VERDICT: $(grep --count "^ok" "$out/summary.txt") parts passed, $failed failed, $skipped left out" \
  >> "$out/summary.txt"
cat "$out/summary.txt"
exit "$status"
