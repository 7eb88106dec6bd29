#!/usr/bin/env bash
# Everything that needs a GPU, without a network: build, check all kernels against their references, the
# laws on real queries (with rounds on the host and on the device), compute-sanitizer, and times of
# steps, queries and kernels as JSON.
#
# usage: bench/gpu.sh [FOLDER]     results go there; build/gpu if not given
# PYTHON names the interpreter (torch, scikit-build-core, pybind11, cmake and ninja beside it).
set -uo pipefail
cd "$(dirname "$0")/.."
out=$(mkdir -p "${1:-build/gpu}" && cd "${1:-build/gpu}" && pwd)
python=${PYTHON:-python3}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
status=0

# step NAME LIMIT COMMAND...: runs it for at most LIMIT seconds; its output goes to a file.
step() {
  local name=$1 limit=$2 begin=$SECONDS
  shift 2
  if timeout "$limit" "$@" > "$out/$name.txt" 2>&1; then
    echo "ok    $name ($((SECONDS - begin)) s)"
  else
    echo "FAIL  $name ($((SECONDS - begin)) s)"
    tail -n 15 "$out/$name.txt"
    status=1
  fi
}

step machine 10 bash -c "nvidia-smi; nvcc --version; '$python' -c 'import torch; print(torch.__version__)'"
step build 130 env MOLSPEC_CUDA=ON "$python" -m pip install --no-index --no-build-isolation \
  --no-deps --target "$site" .
export PYTHONPATH="$site" OMP_NUM_THREADS=4
step checks 70 "$python" bench/gpu checks --json "$out/checks.json"
step laws 70 "$python" bench/gpu laws --json "$out/laws.json"
if command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck; do
    step "$tool" 45 compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "$python" bench/gpu small
  done
else
  echo "skip  memcheck, racecheck: no compute-sanitizer"
fi
step costs 40 bash -c "nvcc -O3 -std=c++17 -gencode arch=compute_80,code=sm_80 \
  -gencode arch=compute_90a,code=sm_90a bench/gpu/costs.cu -o '$site/costs' &&
  '$site/costs' > '$out/costs.json'"
step times 130 "$python" bench/gpu times --json "$out/times.json"
step kernels 40 "$python" bench/gpu kernels --json "$out/kernels.json"
cat "$out"/checks.json "$out"/laws.json "$out"/costs.json "$out"/times.json "$out"/kernels.json 2> /dev/null
exit "$status"
