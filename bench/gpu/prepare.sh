#!/usr/bin/env bash
# Builds the libraries that bench/gpu.sh takes to a machine with a GPU, and proves them here.
#
# usage: bench/gpu/prepare.sh
# Needs Python 3.12 (PYTHON312 names one), nvcc, and an index with torch 2.11.0. The environment, as
# bare as such a machine (no rdkit, no pybind11-stubgen), stays in build/gpu/python, the libraries in
# build/gpu/libraries: 4 MB, of no use to any other Python.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=build/gpu
python=$PWD/$folder/python/bin/python
if [[ ! -x $python ]] || ! "$python" -c 'import torch, numpy' 2> /dev/null; then
  # A version manager may have a python3.12 that runs nothing.
  for each in ${PYTHON312:-python3.12 $HOME/.pyenv/versions/3.12*/bin/python}; do
    ! "$each" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2> /dev/null || break
    each=
  done
  [[ $each ]] || { echo "no Python 3.12 runs here: name one in PYTHON312" >&2; exit 1; }
  "$each" -m venv "$folder/python"
  "$python" -m pip install --quiet torch==2.11.0 numpy safetensors click tqdm pybind11 \
    scikit-build-core cmake ninja
fi
export PATH="$PWD/$folder/python/bin:$PATH"
cmake -S . -B "$folder/build" -G Ninja -DMOLSPEC_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90a-real \
  -DPython_EXECUTABLE="$python" -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)" > /dev/null
cmake --build "$folder/build" -- --quiet
rm -rf "$folder/libraries"
cmake --install "$folder/build" --strip --prefix "$folder/libraries" > /dev/null

site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
cp -r python/molspec "$site"
cp "$folder"/libraries/molspec/*.so "$site/molspec"
export PYTHONPATH="$site"
"$python" bench/gpu/prove.py
for part in probe dense engine-bfloat16 host-rounds laws-bfloat16 small real processes \
  times times-more kernels; do
  "$python" bench/gpu "$part" --device cpu --few > /dev/null
  echo "ok    $part"
done
du -sh "$folder/libraries"
