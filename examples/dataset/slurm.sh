#!/bin/bash
# sbatch examples/dataset/slurm.sh SET, after: refrun dataset plan SPEC -o SET --shards 16
# A time limit or a node that fails costs nothing: submit it again, and what is left is made.
#SBATCH --job-name=refrun-dataset
#SBATCH --array=0-15%8
#SBATCH --cpus-per-task=4
#SBATCH --mem=4G
#SBATCH --time=12:00:00
#SBATCH --signal=B:TERM@60
#SBATCH --requeue
#SBATCH --output=%x-%A_%a.log
exec refrun dataset run "$1" --shard auto --threads "${SLURM_CPUS_PER_TASK:-4}"
