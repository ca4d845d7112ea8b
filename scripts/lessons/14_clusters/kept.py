"""Kept from real runs that a notebook cannot repeat: a slow link, and a node that died under Slurm.

`LINKS`: two processes, each in a network namespace of its own, that is, with a network interface of
its own; between them a virtual cable, whose speed the kernel limits (tbf). `REQUEUE`: two nodes of
a real Slurm 22.05 on one machine. `make cluster` in the course's repository repeats both.
"""

DEVICE = "CPU, 2 cores, Intel(R) Xeon(R) Processor"
DATE = "2026-11-23"

# Milliseconds (the median of 11) of an all-reduce of so many bytes by two ranks over gloo.
LINKS = {
    "1 Gbit/s": {262144: 1.956, 1048576: 8.485, 4194304: 34.4, 16777216: 143.992},
    "0.1 Gbit/s": {262144: 15.437, 1048576: 87.338, 4194304: 350.488, 16777216: 1406.835},
}

REQUEUE = """\
start number 1, 2 ranks, at step 0
step 5 is saved, loss 0.8340
step 10 is saved, loss 1.2530
start number 2, 2 ranks, at step 10
"""
