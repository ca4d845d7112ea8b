"""What does torch.compile make of three lines of Python? Stage by stage, from the graph to the code that it writes.

Run:  python captured.py
"""

import re

import torch
from functorch.compile import make_boxed_func
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.utils import run_and_get_code
from torch.distributed.elastic.multiprocessing.errors import record
from torch.fx import GraphModule

from devices import here, report
from speed import BACKEND, Counting


def layer(x: Tensor, weight: Tensor) -> Tensor:
    """x (N, D), weight (D, D) → (N, D): a matrix product, then three pointwise operations."""
    h = x @ weight
    gate = torch.sigmoid(h)
    return x + gate * h


def operations(x: Tensor, weight: Tensor) -> dict[str, list[str]]:
    """The operations in the forward and in the backward graph that AOTAutograd makes of `layer`."""
    found = {}

    def keep(name: str):
        def compiler(graph: GraphModule, inputs: list[Tensor]):
            nodes = [node for node in graph.graph.nodes if node.op == "call_function"]
            found[name] = [str(node.target).removeprefix("aten.") for node in nodes]
            return make_boxed_func(graph.forward)  # and runs it as it is

        return compiler

    backend = aot_autograd(fw_compiler=keep("forward"), bw_compiler=keep("backward"))
    torch.compile(layer, backend=backend)(x, weight).sum().backward()
    return found


def kernels(code: str) -> list[str]:
    """The kernels in a module that Inductor wrote, each from its signature on, in C++ or in Triton."""
    return re.findall(r"^(?:extern \"C\" +|(?=def triton_))(.*?)^'''", code, re.DOTALL | re.MULTILINE)


def touched(kernel: str) -> int:
    """How many tensors a kernel reads or writes, by the pointers in its signature; one that it updates counts twice."""
    pointers = re.findall(r"\b(in|out|in_out)_ptr\d+\b", kernel.partition(")")[0])
    return sum(2 if pointer == "in_out" else 1 for pointer in pointers)


def readable(kernel: str) -> str:
    """C++ without its casts, its check of integer divisions, and brackets that hold only brackets."""
    text = re.sub(r"static_cast<int64_t>\((\w+?)L?\)", r"\1", kernel)
    lines = [line for line in text.splitlines() if "integer_div_error" not in line and line.strip() not in "{}"]
    return "\n".join(lines)


@record
def main() -> None:
    place = here()
    torch.manual_seed(0)
    x = torch.randn(512, 512, device=place.device)
    weight = torch.randn(512, 512, device=place.device, requires_grad=True)

    seen = Counting("eager")
    torch.compile(layer, backend=seen)(x, weight)
    both = operations(x, weight)
    with torch.no_grad():
        output, modules = run_and_get_code(torch.compile(layer, backend=BACKEND), x, weight)
        difference = (output - layer(x, weight)).abs().max().item()

    code = "".join(modules)
    calls = re.findall(r"^ +((?:extern_kernels\.|cpp_fused_|triton_\w+\.run).*?) *$", code, re.MULTILINE)
    language = (
        "Triton" if "def triton_" in code else "C++" if kernels(code) else "no language: there is no C++ compiler"
    )
    print(f"{len(seen.graphs)} graph captured; kernels generated: {len(kernels(code))}, in {language}")
    graph = re.sub(r"; +\w+(?: = \w+)* = None", "", seen.graphs[0]).strip()  # without its notes on what to forget
    written = {"kernels": [readable(kernel) for kernel in kernels(code)], "touched": sum(map(touched, kernels(code)))}
    report("captured", place, graph=graph, **both, calls=calls, **written, difference=difference)


if __name__ == "__main__":
    main()
