"""Counts the weights of a model that only the notebook has. Meant to fail.

Run:  torchrun --standalone --nproc-per-node=2 borrowed.py
"""

count = sum(weights.numel() for weights in model.parameters())
print(f"the model has {count} weights")
