#!/usr/bin/env bash
# Trains a model on a rented GPU, where a command may take minutes only and RDKit may be missing.
#
# usage: bench/gpu/train.sh PACK CONFIG OUT [SECONDS]
#   PACK     prepared data (bench/gpu/pack.py)
#   CONFIG   JSON of settings of `molspec train`, with "decoded_pairs": 0
#   OUT      a folder for what there is by then: see bench/gpu/home.py; and log.txt
#   SECONDS  of this call, 540 if not given
# The first call starts the training in a process of its own, later ones watch it, or resume it if it
# has died. The last line says whether it is done.
set -uo pipefail
cd "$(dirname "$0")/../.."
pack=$1 config=$2 out=$(mkdir -p "$3" && cd "$3" && pwd) seconds=${4:-540}
work=${WORK:-/var/tmp/molspec-training} python=${PYTHON:-python3}
if [[ ! -d $work/site ]]; then # later calls may bring another checkout
  mkdir -p "$work/new" && cp -rL python/molspec bench/gpu/pack.py bench/gpu/home.py "$work/new"
  cp -L "$pack" "$work/data.pack" && cp -L "$config" "$work/config.json" && mv "$work/new" "$work/site"
fi
export PYTHONPATH=$work/site PYTHONUNBUFFERED=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}
"$python" "$work/site/home.py" "$work/config.json" || exit 1

start() {
  rm -f "$work/status"
  setsid nohup bash -c '
    cd "$1" && echo $$ > pid
    [[ -f data/prepared.json ]] || { rm -rf data && "$2" site/pack.py unpack data.pack data; } &&
      "$2" -m molspec train --data data --output run --config config.json --no-ngram
    echo $? > status' - "$work" "$python" >> "$work/log.txt" 2>&1 < /dev/null &
}
is_alive() { [[ -f $work/pid ]] && grep -qs '^State:.[^ZX]' "/proc/$(cat "$work/pid")/status"; }
is_done() { [[ -f $work/status && $(cat "$work/status") == 0 ]]; }
say() { echo "$(date +%T) $*" | tee -a "$work/log.txt"; }

end=$((SECONDS + seconds)) last=
is_done || is_alive || { say "starts" && start; }
while ((SECONDS < end)); do
  sleep 3
  line=$(tail -n 1 "$work/log.txt")
  [[ $line == "$last" ]] || echo "$line"
  last=$line
  is_done && break
  is_alive || break # a later call resumes it
done
"$python" "$work/site/home.py" "$work/run" "$out"
tail -n 3 "$work/run/log.csv" "$work/run/validation.csv"
cp "$work/log.txt" "$out/log.txt" && tail -n 25 "$work/log.txt"
if is_done; then echo "DONE"; elif is_alive; then echo "RUNNING"; else echo "DEAD: repeat the command"; fi
