#!/bin/bash
# schedulers.sh REFRUN: 200 operators of the example's space, made by one process, in 40 shards
# by GNU parallel and in 7 by an array of Slurm with examples/dataset/slurm.sh, where there is
# one. Fails unless the merged files and the manifests of all are the same.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
cp "$1" "$work/bin/refrun"
export PATH="$work/bin:$PATH"
cd "$work"
sed 's/^operators: .*/operators: 200/; s/num_timesteps: [0-9]*/num_timesteps: 11/' "$here/examples/dataset/spec.yaml" > spec.yaml
for n in 1 7 40; do refrun dataset plan spec.yaml -o "set$n" --shards $n --rate 10 --quiet > /dev/null; done

refrun dataset run set1 --quiet
parallel -j 2 'refrun dataset run set40 --shard auto --threads 1 --quiet #' ::: $(seq 40)
sets="set1 set40"
if command -v sbatch > /dev/null; then
  sbatch --wait --array=0-6%2 --cpus-per-task=1 --mem=500M --time=30 "$here/examples/dataset/slurm.sh" set7
  sets="$sets set7"
fi
for set in $sets; do
  refrun dataset merge $set -o $set.safetensors --quiet > /dev/null
  echo "$(sha256sum < $set.safetensors | cut -c1-64) $(sha256sum < $set/manifest.jsonl | cut -c1-64)" | tee -a sums
done
[ "$(sort -u sums | wc -l)" = 1 ]
