"""What lesson 22 shows in place of a framework that cannot be had: results of a run of its own.

torch 2.15, Accelerate 1.15.0, Lightning 2.6.6, DeepSpeed 0.19.8, two cores.

Run:  python keptruns.py
"""

DDP = {
    "broadcast_buffers": True,
    "bucket_bytes_cap": 26214400,
    "find_unused_parameters": False,
    "gradient_as_bucket_view": False,
    "static_graph": False,
}
# The first rows of the first batches, on rank 0 and on rank 1.
IN_ORDER = [[0, 32, 64, 96, 128, 160], [16, 48, 80, 112, 144, 176]]
SHUFFLED = [[684, 307, 951, 48, 297, 610], [971, 329, 340, 473, 113, 706]]
WHOLE = 85002


def kept(
    weights: int = WHOLE,
    momentum: int = WHOLE,
    first: list[list[int]] = IN_ORDER,
    ddp: dict | None = None,
    moved: float = 0.1400147,
    gap: float = 0.0,
) -> dict:
    """What fourways.py reports of one way; the first rows of both ranks."""
    run = {"weights held": weights, "momentum held": momentum, "steps": 40, "first": first}
    return run | {"ddp": ddp or {}, "moved": moved, "same": gap == 0.0, "gap": gap}


def rounds(seconds: list[float], modules: int) -> list[dict]:
    """What importcost.py reports of one package."""
    return [{"seconds": each, "modules": modules} for each in seconds]


KEPT = {
    "defaults": {
        "accelerate": kept(ddp=DDP),
        "lightning": kept(first=SHUFFLED, ddp=DDP, moved=0.1342108, gap=0.6216000),
        "zero1": kept(momentum=42502, moved=0.0999999, gap=0.4330768),
        "zero2": kept(momentum=42502, moved=0.0999999, gap=0.4330768),
        "zero3": kept(weights=42501, momentum=42501, moved=0.0, gap=0.4330768),
    },
    "switched": {
        "accelerate": kept(ddp=DDP),
        "lightning": kept(ddp=DDP),
        "zero1": kept(momentum=42502),
        "zero2": kept(momentum=42502),
        "zero3": kept(weights=42501, momentum=42501, moved=0.0),
    },
    # With these settings the second runs were made.
    "switches": {
        "lightning": {"use_distributed_sampler": False},
        "deepspeed": {"gradient_clipping": 0.0},
    },
    "imports": {
        "accelerate": rounds([0.07, 0.06, 0.06], 78),
        "lightning": rounds([1.70, 1.63, 1.63], 1845),
        "deepspeed": rounds([0.25, 0.21, 0.22], 545),
    },
    "logged": [{"plain": 10.0 * (rank + 1), "synced": 20.0} for rank in range(3)],
    "log": [
        """Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/3
distributed_backend=gloo
All distributed processes registered. Starting with 3 processes
1.2 M     Trainable params
4.800     Total estimated model params size (MB)
(kept, not run here)""",
        "Initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/3\n(kept, not run here)",
        "Initializing distributed: GLOBAL_RANK: 2, MEMBER: 3/3\n(kept, not run here)",
    ],
    "refused": [
        "Trainer.__init__() got an unexpected keyword argument 'gpus'",
        "You selected an invalid accelerator name: `accelerator='ddp'`.",
        "You selected an invalid strategy name: `strategy='dp'`.",
    ],
    "starters": {
        "accelerate": {
            "world_size": 1,
            "told": {"RANK": "", "LOCAL_WORLD_SIZE": ""},
            "own": ["ACCELERATE_DYNAMO_BACKEND", "ACCELERATE_DYNAMO_MODE"],
            "arguments": [],
        },
        "deepspeed": {
            "world_size": 2,
            "told": {"RANK": "0", "LOCAL_WORLD_SIZE": ""},
            "own": ["CROSS_RANK", "CROSS_SIZE"],
            "arguments": ["--local_rank=0"],
        },
    },
}


def main() -> None:
    for way, run in KEPT["defaults"].items():
        print(f"{way:10} {run}")


if __name__ == "__main__":
    main()
