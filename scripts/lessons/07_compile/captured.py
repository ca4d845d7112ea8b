"""What does torch.compile make of three lines of Python? From the graph to the code that it writes.

Run:  python captured.py
"""

import re
from collections.abc import Callable

import torch
from functorch.compile import make_boxed_func
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.utils import run_and_get_code
from torch.distributed.elastic.multiprocessing.errors import record
from torch.fx import GraphModule

from devices import here, report
from speed import BACKEND, Counting
from yardstick import apart


def layer(x: Tensor, weight: Tensor) -> Tensor:
    """x (N, D), weight (D, D) → (N, D): a matrix product, then three pointwise operations."""
    h = x @ weight
    gate = torch.sigmoid(h)
    return x + gate * h


def dynamo(x: Tensor, weight: Tensor) -> list[str]:
    """The code of each graph that TorchDynamo captures of `layer`."""
    backend = Counting("eager")
    compiled = torch.compile(layer, backend=backend)
    compiled(x, weight)
    return backend.graphs


def operations(x: Tensor, weight: Tensor) -> dict[str, list[str]]:
    """The operations in the `forward` and `backward` graph that AOTAutograd makes of `layer`."""
    names: dict[str, list[str]] = {}

    def keep(direction: str) -> Callable:
        """A compiler that notes the operations of a graph, and then runs the graph as it is."""

        def compiler(graph: GraphModule, inputs: list[Tensor]) -> Callable:
            names[direction] = []
            for node in graph.graph.nodes:
                if node.op == "call_function":
                    name = str(node.target).removeprefix("aten.")
                    names[direction].append(name)
            return make_boxed_func(graph.forward)

        return compiler

    backend = aot_autograd(fw_compiler=keep("forward"), bw_compiler=keep("backward"))
    compiled = torch.compile(layer, backend=backend)
    output = compiled(x, weight)
    output.sum().backward()
    return names


def inductor(x: Tensor, weight: Tensor) -> tuple[str, float]:
    """The code that TorchInductor writes for `layer`, and how far its output is from eager mode."""
    with torch.no_grad():
        compiled = torch.compile(layer, backend=BACKEND)
        output, modules = run_and_get_code(compiled, x, weight)
        difference = apart(output, layer(x, weight), wrong=x)
    return "".join(modules), difference


def kernels(code: str) -> list[str]:
    """The kernels in a module of Inductor's, each from its signature on, in C++ or in Triton."""
    begin = r"(?:extern \"C\" +|(?=def triton_))"
    return re.findall(rf"^{begin}(.*?)^'''", code, re.DOTALL | re.MULTILINE)


def touched(kernel: str) -> int:
    """How many tensors a kernel reads or writes; one that it updates counts twice."""
    signature = kernel.partition(")")[0]
    pointers = re.findall(r"\b(in|out|in_out)_ptr\d+\b", signature)
    return len(pointers) + pointers.count("in_out")


def readable(kernel: str) -> str:
    """C++ without casts, checks of integer divisions, and lines that hold only a bracket."""
    text = re.sub(r"static_cast<int64_t>\((\w+?)L?\)", r"\1", kernel)
    lines = []
    for line in text.splitlines():
        nearly_empty = line.strip() in "{}"
        if "integer_div_error" not in line and not nearly_empty:
            lines.append(line)
    return "\n".join(lines)


def language(code: str) -> str:
    """What a module's kernels are written in."""
    if "def triton_" in code:
        return "Triton"
    if kernels(code):
        return "C++"
    return "no language: there is no C++ compiler"


@record
def main() -> None:
    place = here()
    torch.manual_seed(0)
    x = torch.randn(512, 512, device=place.device)
    weight = torch.randn(512, 512, device=place.device, requires_grad=True)

    # Stage by stage: what Dynamo captures, and what AOTAutograd and Inductor make of it.
    graphs = dynamo(x, weight)
    stages = operations(x, weight)
    code, difference = inductor(x, weight)

    # For the notebook: the graph without its notes on what to forget, and the parts of the module.
    notes = r"; +\w+(?: = \w+)* = None"
    graph = re.sub(notes, "", graphs[0]).strip()
    call = r"^ +((?:extern_kernels\.|cpp_fused_|triton_\w+\.run).*?) *$"
    calls = re.findall(call, code, re.MULTILINE)
    generated = kernels(code)
    written = [readable(kernel) for kernel in generated]
    trips = sum(touched(kernel) for kernel in generated)

    print(f"{len(graphs)} graph captured; kernels generated: {len(written)}, in {language(code)}")
    code_parts = {"calls": calls, "kernels": written, "touched": trips}
    report("captured", place, graph=graph, **stages, **code_parts, difference=difference)


if __name__ == "__main__":
    main()
