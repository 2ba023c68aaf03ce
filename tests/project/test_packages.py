"""Large packages have a map: their docstring says what each of their modules is for."""

import ast
import re

from tests.project.documents import ROOT

MODULES_MAX = 9  # of a package without a map


def test_a_large_package_lists_its_modules() -> None:
    """The map names all modules, each once, and no others."""
    large = 0
    for package in (ROOT / "src" / "ousel").iterdir():
        modules = sorted(path.stem for path in package.glob("*.py") if path.stem != "__init__")
        if len(modules) <= MODULES_MAX:
            continue
        large += 1
        text = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
        assert sorted(re.findall(r"`(\w+)`", text)) == modules, package.name
    assert large
