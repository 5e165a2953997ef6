#!/usr/bin/env bash
# Times one step of the same operator in refrun, ONNX Runtime, OpenVINO, JAX and
# PyTorch (eager and compiled), in turns. Makes a virtual environment with pinned
# versions the first time, under $REFRUN_BENCH_ENV or the user's cache; arguments
# go to compare.py. torch.compile needs a C++ compiler.
#
#   interop/bench/run.sh --markdown                     # all: about ten minutes
#   interop/bench/run.sh --only '^32, 3x3' --rounds 9
#   interop/bench/run.sh --systems 'refrun|ONNX'
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
env=${REFRUN_BENCH_ENV:-${XDG_CACHE_HOME:-$HOME/.cache}/refrun-bench}

if ! cmp -s "$here/requirements.txt" "$env/requirements.txt"; then
	echo "making $env: a download of about 3.6 GB, 8 GB on the disk (torch with its GPU libraries)" >&2
	python3 -m venv "$env"
	"$env/bin/pip" install -q -r "$here/requirements.txt"
	cp "$here/requirements.txt" "$env"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$here/../.." && go build -o "$work/refrun" ./cmd/refrun)
"$env/bin/python" "$here/compare.py" --refrun "$work/refrun" "$@"
