#!/usr/bin/env bash
# False alarms and power, in one go: correct zoo devices, faults, and real software (which needs PyTorch, JAX, ONNX
# Runtime and OpenVINO in $PYTHON). Sizes are seeds; what is done already is not done again (--cache of power.py).
#
#   interop/zoo/campaign.sh OUT [FIRST_SEED [CORRECT [FAULTS [REAL]]]]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1 first=${2:-6000} correct=${3:-4} faults=${4:-1} real=${5:-4}
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
python=${PYTHON:-python3}
mkdir -p "$out"
[ -x "$out/refrun" ] || (cd "$here/../.." && go build -o "$out/refrun" ./cmd/refrun)
cd "$here"
seeds=$first-$((first + 49))
"$python" real.py --binary "$out/refrun" --seeds "$first-$((first + real - 1))" --json "$out/real.json" > "$out/real.txt" || true
"$python" real.py --binary "$out/refrun" --seeds "$first-$((first + real - 1))" --no-excess --json "$out/real-no-excess.json" > "$out/real-no-excess.txt" || true
"$python" power.py --binary "$out/refrun" --seeds "$seeds" --per-correct "$correct" --correct-only --no-baselines --evidence trajectory,layers --jobs 1 --cache "$out/cache" --json "$out/correct.json" > "$out/correct.txt"
"$python" power.py --binary "$out/refrun" --seeds "$seeds" --per "$faults" --per-correct 1 --amplitudes 1 --no-baselines --evidence trajectory,layers --jobs 1 --cache "$out/cache" --json "$out/power.json" > "$out/power.txt"
tail -n 1 "$out/real.txt" "$out/real-no-excess.txt"
grep -h "false alarms\|^caught" "$out/correct.txt" "$out/power.txt"
