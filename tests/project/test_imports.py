"""Ousel uses only the public parts of its dependencies, which keep their promises."""

import ast
import sys
from collections.abc import Iterator

import pytest

from tests.support.node import ROOT

SOURCES = (ROOT / "src", ROOT / "clients" / "python" / "src")
OWN_PACKAGES = {"ousel", "ousel_client"}
PRIVATE_USES = (
    "import typer._click",
    "from typer._click.exceptions import UsageError",
    "from uvicorn import _subprocess",
    "import uvicorn as server\nserver._ansi.style('x')",
    "from uvicorn import config\nconfig._private()",
)
PUBLIC_USES = (
    "from __future__ import annotations",
    "from ousel.ledger import _anything",
    "import typer\ntyper.Option('--x')",
    "import typer\ntyper.__version__",
    "import os\nos._exit(1)",
)


@pytest.mark.slow
def test_no_module_uses_a_private_part_of_a_dependency() -> None:
    """A private module or name may change with any release, so none is imported or accessed."""
    modules = [path for folder in SOURCES for path in folder.rglob("*.py")]

    assert modules
    assert [f"{path}: {use}" for path in modules for use in _private_uses(path.read_text())] == []


@pytest.mark.parametrize("code", PRIVATE_USES)
def test_a_private_use_is_found(code: str) -> None:
    """The check sees private modules, private names, and attributes of imported modules."""
    assert list(_private_uses(code))


@pytest.mark.parametrize("code", PUBLIC_USES)
def test_a_public_use_is_not_reported(code: str) -> None:
    """Our own modules, the standard library and dunder names are not meant."""
    assert list(_private_uses(code)) == []


def _private_uses(code: str) -> Iterator[str]:
    """Yield each import of a private third-party name, and each access to one."""
    tree = ast.parse(code)
    imported: set[str] = set()
    for node in ast.walk(tree):
        for path, bound_name in _imports(node):
            if path.partition(".")[0] in OWN_PACKAGES | sys.stdlib_module_names:
                continue
            imported.add(bound_name)
            if any(map(_is_private, path.split("."))):
                yield path
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            path = ast.unparse(node)
            if path.partition(".")[0] in imported:
                yield path


def _imports(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the full path of each name that the statement imports, and what it is called here."""
    if isinstance(node, ast.Import):
        for name in node.names:
            yield name.name, name.asname or name.name.partition(".")[0]
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        for name in node.names:
            yield f"{node.module}.{name.name}", name.asname or name.name


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")
