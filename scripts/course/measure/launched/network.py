"""The network that beginner tutorials train on CIFAR-10: two convolutions, three linear layers.

The bench copies this file as model.py beside ddp.py, which then trains it in place of the course's.
"""

from torch import nn


class ResNet(nn.Sequential):
    """Pictures (N, 3, 32, 32) → ten scores each (N, 10); of this name, since ddp.py asks for it."""

    def __init__(self):
        convolutions = [
            nn.Conv2d(3, 6, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
        linear = [
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
        ]
        super().__init__(*convolutions, *linear)
        self.head = nn.Linear(84, 10)
