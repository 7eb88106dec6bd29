#!/usr/bin/env bash
# Runs what needs a GPU, without a network, in two calls of about four minutes each.
#
# usage: bench/gpu.sh first [FOLDER]             checks every kernel and the laws, then measures
#        bench/gpu.sh second [FOLDER] [PART...]  repeats failed parts; profiler, sanitizers, more
#        bench/gpu.sh parts FOLDER PART...       parts alone, such as "real" or "racecheck:small"
# FOLDER, build/gpu if not given, gets three files:
#   summary.txt     a line for each part, ok or FAIL with the first wrong element, and a verdict
#   results.jsonl   a line for each result, written at once
#   logs.tar.gz     the output of every part
#
# The libraries are those that bench/gpu/prepare.sh has built; without them they are built here.
# PYTHON names the interpreter (torch and numpy; scikit-build-core, pybind11, cmake and ninja too if
# it has to build). STAND_IN=1 tries the script without a GPU: the CUDA operators as host code, and
# less of everything; molspec must be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
call=${1:?"expected first, second or parts"}
out=$(mkdir -p "${2:-build/gpu/results}" && cd "${2:-build/gpu/results}" && pwd)
python=${PYTHON:-python3}
export OMP_NUM_THREADS=4
if [[ ${STAND_IN:-} ]]; then
  export OMP_NUM_THREADS=1
else
  site=$(mktemp -d)
  trap 'rm -rf "$site"' EXIT
  if compgen -G "build/gpu/libraries/molspec/*.so" > /dev/null; then
    cp -r python/molspec "$site"
    cp build/gpu/libraries/molspec/*.so "$site/molspec"
  else
    begin=$SECONDS
    MOLSPEC_CUDA=ON CUDAARCHS=90a-real "$python" -m pip install --quiet --no-index \
      --no-build-isolation --no-deps --target "$site" -C cmake.define.MOLSPEC_STUB=OFF .
    echo "built in $((SECONDS - begin)) s"
  fi
  export PYTHONPATH="$site"
fi
"$python" bench/gpu/calls.py "$call" "$out" "${@:3}"
