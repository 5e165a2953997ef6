#!/bin/sh
# The command alone: a rollout of a configuration, stopped half way, resumed, verified, compared.
#
#   sh command.sh            # needs refrun on PATH
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

refrun run --config "$here/operator.yaml" --x0 white:7 --steps 40 -o whole.safetensors
refrun verify whole.safetensors

# The same with other threads and groups of realizations has the same bits.
refrun run --config "$here/operator.yaml" --x0 white:7 --steps 40 -o again.npy --threads 1 --batch 1
refrun compare whole.safetensors again.npy --max-ulp 0

# What half precision does to this operator, step by step.
refrun study --config "$here/operator.yaml" --x0 white:7 --steps 20 --svg study.svg --quiet | head -20
