"""Lesson 05's torchrunned.py, with plain SGD in place of Adam; see average_by_sgd.py."""

import torch

import torchrunned

torch.optim.Adam = torch.optim.SGD
torchrunned.main()
