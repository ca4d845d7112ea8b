"""What the build asks of Python code, read with `ast`: names, imports, guards."""

import ast


def names(code: ast.AST, defined: bool = False) -> set[str]:
    """The names that code speaks of; or only those that it defines, by targets and imports."""
    spoken = set()
    for node in ast.walk(code):
        if isinstance(node, ast.Name) and (not defined or isinstance(node.ctx, ast.Store)):
            spoken.add(node.id)
        elif isinstance(node, ast.alias):
            spoken.add(node.asname or node.name.split(".")[0])
    return spoken


def imports(code: ast.AST) -> set[str]:
    """The modules that a piece of code imports, anywhere in it."""
    modules = set()
    for node in ast.walk(code):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module.split(".")[0])
    return modules


def guarded(code: ast.Module) -> bool:
    """Whether a program ends with `if __name__ == "__main__":`, so that it can be imported too."""
    last = code.body[-1] if code.body else None
    return isinstance(last, ast.If) and ast.unparse(last.test) == "__name__ == '__main__'"


def straight(code: ast.Module) -> bool:
    """Whether a program defines nothing: it runs from its first line to its last, anywhere."""
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return not any(isinstance(node, defined) for node in ast.walk(code))


def recorded(code: ast.Module) -> bool:
    """Whether `main` has `@record`, for torchrun to tell its error, and the guard calls it."""
    for node in code.body:
        if isinstance(node, ast.FunctionDef) and node.name == "main":
            decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
            return "record" in decorators and guarded(code) and "main" in names(code.body[-1])
    return False
