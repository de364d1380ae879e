"""The repository's shape: which way imports run, how long files get, and what must not be in them."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = [path for path in sorted(ROOT.glob("*.py"))]
PACKAGES = ["interreplay", "replay_buffers"]
PACKAGED = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
CODE = [*SCRIPTS, *PACKAGED]
RECIPES = [path for path in sorted((ROOT / "replay_buffers").glob("*.py")) if path.name != "__init__.py"]
# From the top to the bottom: a module imports what stands to its right, never what stands to its left.
ORDER = ["custom_training", "argument_parser", "replay_buffers", "interreplay"]
LINES, FUNCTION_LINES = 260, 40
# Folders in which people's own files live; such a path works on one machine only.
MACHINE_PATH = re.compile(r"""["'\s(](/(home|root|work|Users|tmp|mnt|scratch|data)/)""")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path) -> set[str]:
    """The modules that a file imports anywhere, as dotted names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno} imports relatively"
            found.add(node.module or "")
    return found


def top_level(path: Path) -> set[str]:
    return {module.split(".")[0] for module in imports(path)}


@pytest.mark.parametrize("path", PACKAGED, ids=name_of)
def test_only_the_bridge_imports_ray(path):
    if (ROOT / "interreplay" / "rllib") not in path.parents:
        assert "ray" not in top_level(path)
        assert not any(module.startswith("interreplay.rllib") for module in imports(path))


@pytest.mark.parametrize("path", CODE, ids=name_of)
def test_imports_run_one_way(path):
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if own in ORDER:
        above = set(ORDER[: ORDER.index(own)])
        assert not above & top_level(path)


@pytest.mark.parametrize("path", CODE, ids=name_of)
def test_files_and_functions_are_short(path):
    source = path.read_text()
    assert len(source.splitlines()) <= LINES
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            # A method of the catalogue lists its arguments one to a line; that is not what makes code hard to read.
            length = (node.end_lineno or node.lineno) - node.body[0].lineno + 1 - docstring_lines(node)
            assert length <= FUNCTION_LINES, f"{node.name} at line {node.lineno} has {length} lines"


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or first.lineno) - first.lineno + 1


@pytest.mark.parametrize("path", PACKAGED, ids=name_of)
def test_packages_do_not_print(path):
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    prints = [node.lineno for node in calls if isinstance(node.func, ast.Name) and node.func.id == "print"]
    assert not prints


@pytest.mark.parametrize("path", CODE, ids=name_of)
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


def tracked_texts() -> list[Path]:
    skip = {".git", ".venv", "results", "build", "dist", "__pycache__"}
    kinds = {".py", ".md", ".cfg", ".toml", ".txt", ".yml", ".yaml", ".sh", ".sbatch", ""}
    paths = [path for path in ROOT.rglob("*") if not skip & set(path.relative_to(ROOT).parts)]
    return sorted(path for path in paths if path.is_file() and path.suffix in kinds and "cache" not in name_of(path))


@pytest.mark.parametrize("path", tracked_texts(), ids=name_of)
def test_nothing_names_a_path_of_one_machine(path):
    if path == Path(__file__).resolve():
        return
    found = [match[1] for match in MACHINE_PATH.finditer(path.read_text(errors="ignore"))]
    assert not found


def test_the_catalogue_lists_every_recipe():
    catalogue = importlib.import_module("replay_buffers")
    defined = {getattr(catalogue, name).__module__ for name in catalogue.__all__}
    assert defined == {f"replay_buffers.{path.stem}" for path in RECIPES}
    assert list(catalogue.__all__) == sorted(catalogue.__all__, key=str.lower)


@pytest.mark.parametrize("path", RECIPES, ids=name_of)
def test_a_recipe_names_its_paper(path):
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert re.search(r"\b(19|20)\d\d\b", text), "the module docstring names the paper with its year"


@pytest.mark.parametrize("path", PACKAGED, ids=name_of)
def test_every_package_folder_can_be_imported(path):
    assert (path.parent / "__init__.py").exists()


def test_test_files_have_names_of_their_own():
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names)), "pytest imports them by these"
