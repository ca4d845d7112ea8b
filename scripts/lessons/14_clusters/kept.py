"""Kept from runs that a notebook cannot repeat: a slow link, and a node that died under Slurm.

`make cluster` in the course's repository repeats both.
"""

DEVICE = "CPU, 2 cores, Intel(R) Xeon(R) Processor"
DATE = "2026-11-23"

# Two ranks on gloo, each in a network namespace of its own, that is, with a network interface of
# its own. Between them is a virtual cable, whose speed the kernel limits (tbf, burst 256 KiB).
# Bytes of an all-reduce → milliseconds, the median of 9.
LINKS = {
    "1 Gbit/s": {262144: 1.960, 1048576: 8.342, 4194304: 34.506, 16777216: 140.071},
    "0.1 Gbit/s": {262144: 21.434, 1048576: 87.118, 4194304: 350.537, 16777216: 1405.426},
}

# job.sh on two nodes of Slurm 22.05.8, with longer pauses in lives.py. All that ran on node2 was
# killed, slurmd included. Two settings make Slurm quicker than usual: SlurmdTimeout=5, and
# cred_expire=5, which is how long a requeued job waits at least. Seconds since sbatch → event.
TIMELINE = {
    2.3: "both nodes are free: the job runs",
    20.7: "everything on node2 is killed",
    45.8: "requeue job due to failure of node node2",
    46.1: "node2 is back",
    59.0: "the job runs again",
    99.1: "completed",
}

# The job's log, from both lives; […] is left out, as are warnings that a host has no name.
LOG = """\
start number 1, 2 ranks, at step 0
step 5 is saved, loss 0.8340
step 10 is saved, loss 1.2530
step 15 is saved, loss 1.0703
step 20 is saved, loss 0.8225
step 25 is saved, loss 0.5189
step 30 is saved, loss 0.5169
[rank0]: Traceback (most recent call last):
[…]
[rank0]: RuntimeError: […] Connection closed by peer [127.0.0.1]:12172. […]
[…]
srun: error: node1: task 0: Exited with exit code 1
srun: error: Node failure on node2
slurmstepd-node1: error: *** JOB 1 ON node1 CANCELLED AT 2026-11-23T11:54:32 DUE TO NODE FAILURE […]
start number 2, 2 ranks, at step 30
step 35 is saved, loss 0.5262
step 40 is saved, loss 0.5506
step 45 is saved, loss 0.4503
step 50 is saved, loss 0.4581
step 55 is saved, loss 0.4258
step 60 is saved, loss 0.2247
"""
