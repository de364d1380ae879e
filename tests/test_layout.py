"""The repository's shape: which way imports run, how long files get, and what must not be in them."""

from __future__ import annotations

import ast
import functools
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


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: Path) -> set[str]:
    """The modules that a file imports anywhere, as dotted names."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
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


# Rooms from the ground up: a file imports from its own room and from rooms named before it. A folder within a folder
# is a room of its own where it is named here.
LAYERS = """
errors runs.state_files runs.results cluster_checks runs transitions unrolls.unrolls storage environments learning
part selection credit neighborhood synthesis buffer experience unrolls diagnostics flags studies analysis.reading
analysis.drawing analysis rllib.ray_session rllib.stock rllib.checkpoints rllib.env_runner rllib.algorithms
rllib.actor_learner rllib rllib.evaluation rllib.run rllib.command rllib.tune commandline __main__
""".split()
FILES_PER_FOLDER = 12
MORE_FILES = {
    "replay_buffers": "the catalogue: one file per method",
    "interreplay/selection": "one way to draw rows per file, and what they share",
    "interreplay/learning": "one file per algorithm",
    "interreplay/rllib/algorithms": "one file per algorithm, and what they share",
}


def runtime_imports(path: Path) -> set[str]:
    """Modules of ours that a file imports when it runs, in functions too; those for type checkers alone left out."""
    tree, found = tree_of(path), set()
    typing_only = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    ]
    skipped = {id(child) for block in typing_only for child in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in skipped:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if names <= MODULES else {*names, node.module or ""}
    return found & MODULES - {module_of(path)}


def module_of(path: Path) -> str:
    return str(path.relative_to(ROOT).with_suffix("")).replace("/", ".").removesuffix(".__init__")


def room_of(module: str) -> str:
    """The layer that a module of the package lies in; the longest name counts."""
    name = module.removeprefix("interreplay.")
    return max((layer for layer in LAYERS if f"{name}.".startswith(f"{layer}.")), key=len, default="")


MODULES = {module_of(path) for path in PACKAGED}
GRAPH = {module_of(path): runtime_imports(path) for path in PACKAGED}
OWN = [module for module in GRAPH if module.startswith("interreplay.")]


@pytest.mark.parametrize("module", OWN)
def test_a_room_imports_from_rooms_below_it(module):
    assert room_of(module), f"{module} lies in no layer"
    mine = LAYERS.index(room_of(module))
    above = {other for other in GRAPH[module] if room_of(other) and LAYERS.index(room_of(other)) > mine}
    assert not above


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The nodes that lie in circles or between them, [] where there are none."""
    left = {node: targets - {node} for node, targets in graph.items()}
    while True:
        reached = set().union(*left.values()) if left else set()
        inside = {
            node: targets & left.keys() for node, targets in left.items() if targets & left.keys() and node in reached
        }
        if inside.keys() == left.keys():
            return sorted(left)
        left = inside


def test_files_import_each_other_in_no_circle():
    assert circle(GRAPH) == []


def test_rooms_import_each_other_in_no_circle():
    rooms: dict[str, set[str]] = {}
    for module in OWN:
        rooms.setdefault(room_of(module), set()).update(room_of(other) for other in GRAPH[module])
    assert circle(rooms) == []


def test_a_circle_would_be_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"d"}}) == ["a", "b", "c"]
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("folder", sorted({path.parent for path in PACKAGED}), ids=name_of)
def test_a_folder_can_be_looked_over(folder):
    files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= FILES_PER_FOLDER or name_of(folder) in MORE_FILES


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
    for node in ast.walk(tree_of(path)):
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
    if path.parent == ROOT / "interreplay" / "commandline":
        return  # the commands themselves
    calls = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    prints = [node.lineno for node in calls if isinstance(node.func, ast.Name) and node.func.id == "print"]
    assert not prints


@pytest.mark.parametrize("path", CODE, ids=name_of)
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(tree_of(path))


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


BRITISH = re.compile(
    r"(?<![a-z])(neighbo[u]r|behavio[u]r|colo[u]r|cent[r]e|normali[s]|optimi[s]er|synthe[s]ise|factori[s])"
)


@pytest.mark.parametrize("path", [path for path in tracked_texts() if "egg-info" not in name_of(path)], ids=name_of)
def test_spelling_is_american(path):
    assert BRITISH.findall(path.read_text(errors="ignore").lower()) == []


def test_the_catalogue_lists_every_recipe():
    catalogue = importlib.import_module("replay_buffers")
    defined = {getattr(catalogue, name).__module__ for name in catalogue.__all__}
    assert defined == {f"replay_buffers.{path.stem}" for path in RECIPES}
    assert list(catalogue.__all__) == sorted(catalogue.__all__, key=str.lower)


@pytest.mark.parametrize("path", RECIPES, ids=name_of)
def test_a_recipe_names_its_paper(path):
    text = ast.get_docstring(tree_of(path)) or ""
    assert re.search(r"\b(19|20)\d\d\b", text), "the module docstring names the paper with its year"


@pytest.mark.parametrize("path", PACKAGED, ids=name_of)
def test_every_package_folder_can_be_imported(path):
    assert (path.parent / "__init__.py").exists()


def test_test_files_have_names_of_their_own():
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names)), "pytest imports them by these"
