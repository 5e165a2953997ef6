#!/bin/sh
# Runs all that is here on one machine with a GPU, side by side, each part for so many seconds at most.
#
#     REFRUN_BIN=./refrun sh interop/gpu/all.sh OUT [SECONDS]
#
# Leaves OUT/log with what each part printed, the recorded questions, and in OUT/keep what was judged wrongly.
set -u
out=$1 seconds=${2:-300} here=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH=$here/python/src OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 GOMAXPROCS=1 PYTHONUNBUFFERED=1 XLA_PYTHON_CLIENT_PREALLOCATE=false TORCHINDUCTOR_COMPILE_THREADS=2
mkdir -p "$out/log" "$out/keep"
nvidia-smi -L >"$out/machine.txt"
part() { name=$1; shift; timeout -k 5 "$seconds" python3 -W ignore "$@" >"$out/log/$name.txt" 2>&1 & }

for i in 0 1 2 3; do part kernels$i "$here/gpu/kernels.py" --out "$out/kernels" --part $i/4 --jobs 4; done
for i in 0 1 2; do part compiled$i "$here/gpu/kernels.py" --out "$out/compiled" --compiled --part $i/3 --jobs 2; done
for i in 0 1 2 3; do part gradients$i "$here/gpu/kernels.py" --out "$out/gradients" --gradients --part $i/4; done
part others "$here/gpu/others.py" --out "$out/others" --jobs 2
for mode in eager channels-last compile-float compile-bfloat compile-own compile-max benchmark 'fault: triton' triton- stream; do
	part "validate-$(echo "$mode" | tr -c 'a-z\n' -)" "$here/gpu/validate.py" --binary "$REFRUN_BIN" --out "$out/validate/$(echo "$mode" | tr -c 'a-z\n' -)" --base 16 --grid 32 --only "$mode"
done
part networks "$here/networks/devices.py" --right --device cuda --keep "$out/keep"
part rollouts "$here/networks/rollouts.py" --device cuda --precisions float32,tf32,bfloat16,float16 --steps 4 --size 32 --keep "$out/keep"
part rollouts-compiled "$here/networks/rollouts.py" --device cuda --compiled --precisions float32,tf32,bfloat16,float16 --steps 4 --size 32 --keep "$out/keep"
part steps "$here/networks/steps.py" --device cuda --precisions float32,tf32,bfloat16,float16 --steps 5 --keep "$out/keep"
for seed in 1 2 3 4; do part zoo$seed "$here/zoo/kernels.py" --device cuda --right 1000 --wrong 0 --seed $seed --results "$out/zoo$seed.jsonl" --keep "$out/keep"; done
part zoo-kinds "$here/zoo/kernels.py" --device cuda --right 400 --wrong 0 --seed 5 --only scatter scalars powers resize antialias one_sign infinite subnormal --results "$out/kinds.jsonl" --keep "$out/keep"
part zoo-chains "$here/zoo/kernels.py" --device cuda --right 400 --wrong 0 --seed 6 --only level2 deep experts tiny compiled --results "$out/chains.jsonl" --keep "$out/keep"
wait
tail -n 2 "$out"/log/*.txt
