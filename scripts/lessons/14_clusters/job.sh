#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=2
#SBATCH --time=00:30:00
#SBATCH --output=%x-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue

# All ranks meet on the first node of the list. The port differs from job to job.
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
# One rank a node, so it has all cores of the task.
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK

# In single quotes: every node fills in its own SLURM_NODEID.
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" bash -c 'exec torchrun \
    --nnodes=$SLURM_NNODES --node-rank=$SLURM_NODEID --nproc-per-node=1 \
    --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT \
    lives.py --folder run-$SLURM_JOB_ID'
