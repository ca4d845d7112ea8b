"""The course's notebooks on Kaggle: `kaggle-metadata.json`, read strictly, and its badges.

Kaggle's client ignores keys that it does not know, and passes on any machine that a file names: one
typo would cost a class its second GPU. So listed.schema.json says what may stand there, and
whatever else does is an error.
"""

import json
from pathlib import Path

from slugify import slugify  # the one that Kaggle's client uses

from course.lesson import WORKSHOP

NAME = "kaggle-metadata.json"
SCHEMA = json.loads(Path(__file__).with_name("listed.schema.json").read_text())


class MetadataError(ValueError):
    """The list of notebooks has mistakes, one a line; each names the place and the remedy."""


def place(path: list, listed: dict) -> str:
    """Where a mistake stands, as `kernel 3 (notebooks/02_autograd.ipynb), title`."""
    if path[:1] == ["kernels"] and len(path) > 1:
        entry = listed["kernels"][path[1]]
        name = (
            f" ({entry['code_file']})" if isinstance(entry, dict) and "code_file" in entry else ""
        )
        path = [f"kernel {path[1] + 1}{name}", *path[2:]]
    return ", ".join(
        [NAME, *(f"item {part + 1}" if isinstance(part, int) else part for part in path)]
    )


def spelled(error, listed: dict) -> str:
    """One line about one ValidationError; the schema's description of the place is the remedy."""
    remedy = error.schema.get("description", "")
    return f"{place(list(error.path), listed)}: {error.message}. {remedy}".rstrip()


def clashes(listed: dict, root: Path, built: bool) -> list[str]:
    """What the schema cannot see: a slug unlike its title, an entry twice, a missing notebook."""
    problems: list[str] = []
    seen: dict[tuple[str, str], int] = {}
    for number, kernel in enumerate(listed["kernels"]):
        where = place(["kernels", number], listed)
        slug = slugify(kernel["title"])
        if kernel["slug"] != slug:
            remedy = "Write that, or change the title."
            problems.append(f"{where}, slug: Kaggle makes “{slug}” of this title. {remedy}")
        for key in ("slug", "code_file"):
            first = seen.setdefault((key, kernel[key]), number + 1)
            if first != number + 1:
                problems.append(
                    f"{where}, {key}: kernel {first} has the same. Remove one of the two."
                )
        if built and not (root / kernel["code_file"]).is_file():
            remedy = "Run `make build`, or correct the name."
            problems.append(f"{where}, code_file: there is no such file. {remedy}")
    return problems


def once(pairs: list[tuple]) -> dict:
    """A JSON object; JSON itself would keep the last of two equal keys, and say nothing."""
    for key, _ in pairs:
        if [name for name, _ in pairs].count(key) > 1:
            raise ValueError(f"“{key}” stands there twice")
    return dict(pairs)


def load(root: Path, built: bool = False) -> dict:
    """The list, with the defaults in every kernel. With `built`, every notebook must be there."""
    from jsonschema import Draft202012Validator

    try:
        listed = json.loads((root / NAME).read_text(), object_pairs_hook=once)
    except OSError as error:
        remedy = "Restore the file from the repository."
        raise MetadataError(f"{NAME}: {error.strerror}. {remedy}") from None
    except ValueError as error:
        problem = f"not the JSON that it should be ({error})"
        raise MetadataError(f"{NAME}: {problem}. Correct it there.") from None
    violations = Draft202012Validator(SCHEMA).iter_errors(listed)
    errors = sorted(violations, key=lambda error: list(map(str, error.path)))
    problems = [spelled(error, listed) for error in errors]
    if not problems:
        problems = clashes(listed, root, built)
    if problems:
        raise MetadataError("\n".join(problems))
    nowhere = {"owner": "", "repository": ""}  # until `make address` says where the course is
    kernels = [listed["defaults"] | kernel for kernel in listed["kernels"]]
    return nowhere | listed | {"kernels": kernels}


def settings(listed: dict, code_file: str) -> dict:
    """The settings of one notebook; the defaults if it is not listed."""
    for kernel in listed["kernels"]:
        if kernel["code_file"] == code_file:
            return kernel
    return listed["defaults"]


def accelerator(kernel: dict) -> str:
    """The machine as notebooks and links name it: nvidiaTeslaT4; "none" without a GPU."""
    shape = kernel["machine_shape"]
    return shape[0].lower() + shape[1:] if kernel["enable_gpu"] else "none"


def notebook_metadata(kernel: dict) -> dict:
    """What a notebook itself says to Kaggle and Colab about the machine that it wants."""
    gpu = kernel["enable_gpu"]
    kaggle = {
        "accelerator": accelerator(kernel),
        "isGpuEnabled": gpu,
        "isInternetEnabled": kernel["enable_internet"],
    }
    colab = {"accelerator": "GPU", "colab": {"gpuType": "T4"}} if gpu else {}
    return colab | {
        "kaggle": kaggle | {"language": kernel["language"], "sourceType": kernel["kernel_type"]}
    }


def source(listed: dict, code_file: str) -> str:
    return f"https://github.com/{listed['repository']}/blob/main/{code_file}"


PICTURES = {
    "kaggle": "https://kaggle.com/static/images/open-in-kaggle.svg",
    "colab": "https://colab.research.google.com/assets/colab-badge.svg",
}


def addresses(listed: dict, code_file: str) -> dict[str, str]:
    """Where a notebook opens: on Kaggle, with its two GPUs chosen, and on Colab.

    Both take it from the course's repository: nowhere, if that is not set.
    """
    if not listed["repository"]:
        return {}
    machine = accelerator(settings(listed, code_file))
    github = source(listed, code_file)
    kaggle = f"https://www.kaggle.com/notebooks/welcome?src={github}&accelerator={machine}"
    colab = f"https://colab.research.google.com/github/{listed['repository']}/blob/main/{code_file}"
    return {"kaggle": kaggle, "colab": colab}


def typed(listed: dict) -> dict[str, str]:
    """Addresses as a class reads them from a slide and types them; "" for what is not set."""
    owner = listed["owner"]
    repository = listed["repository"]
    kernel = settings(listed, f"notebooks/{WORKSHOP}.ipynb")
    return {
        "workshop": f"kaggle.com/code/{owner}/{kernel.get('slug', '')}" if owner else "",
        "course": f"github.com/{repository}" if repository else "",
        "class": listed.get("class_url", "").removeprefix("https://"),
    }


def reminder(listed: dict) -> str:
    """One line for a teacher who has not yet said where the class begins; empty otherwise."""
    if "class_url" in listed:
        return ""
    gain = "with it the slides and the handout show your class's address, large and as a QR code"
    return f"{NAME} has no class_url: {gain}."


def badges(listed: dict, code_file: str) -> str:
    """Links that open a notebook on Kaggle and Colab."""
    links = []
    for place, address in addresses(listed, code_file).items():
        links.append(f"[![Open in {place.capitalize()}]({PICTURES[place]})]({address})")
    return " ".join(links)
