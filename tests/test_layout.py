"""The repository's structure: directions of imports, and rules for files."""

import ast
import functools
import importlib
import os
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = [path for path in sorted(ROOT.glob("*.py"))]
PACKAGES = ["interreplay", "replay_buffers"]
PACKAGED = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
CODE = [*SCRIPTS, *PACKAGED]
RECIPES = [path for path in sorted((ROOT / "replay_buffers").glob("*.py")) if path.name != "__init__.py"]
# From top to bottom: a module does not import entries to its left.
ORDER = ["custom_training", "argument_parser", "replay_buffers", "interreplay"]
# Folders of users; paths in them exist on one machine only.
MACHINE_PATH = re.compile(r"""["'\s(](/(home|root|work|Users|tmp|mnt|scratch|data)/)""")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: Path) -> set[str]:
    """Return the modules that a file imports anywhere, as dotted names."""
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


# Folders whose files may import Ray. Flags and reports do not require it.
WITH_RAY = ("rllib", *(f"experiments/{name}" for name in ("evaluation", "training", "tune", "rllib_command")))


def test_only_some_folders_import_ray():
    folders = [ROOT / "interreplay" / folder for folder in WITH_RAY]
    outside = [path for path in PACKAGED if not any(folder in path.parents for folder in folders)]
    assert [name_of(path) for path in outside if "ray" in top_level(path)] == []


# Layers from bottom to top: a file imports from its own layer and from earlier layers. A listed folder, or a listed
# file in a folder, is a separate layer.
LAYERS = """
errors runs.state_files runs.results runs transitions storage environments
learning.setting_fields learning.settings learning.networks learning.policies learning.exploration learning.losses
learning.update learning.actor_critic learning.value learning.policy_gradient
learning.listed learning.algorithms_table learning.architectures learning acting
part selection neighborhood synthesis buffer experience unrolls diagnostics
rllib.host rllib.ray_session rllib.stock rllib.checkpoints rllib.env_runner
rllib.algorithms rllib.actor_learner rllib
experiments.process experiments.flags experiments.studies experiments.report.reading
experiments.report analysis experiments.evaluation experiments.training experiments.tune
experiments.commands experiments.rllib_command experiments __main__
""".split()
FILES_PER_FOLDER = 12
MORE_FILES = {
    "interreplay/experiments/commands": "one file per command, and shared parts of the commands for studies",
    "replay_buffers": "the catalog: one file per method",
    "interreplay/environments": "one family of environments per file, and shared parts",
    "interreplay/experiments/flags": "the flags of one subject per file, and their parser",
    "interreplay/selection": "one way to draw rows per file, and shared parts",
    "interreplay/rllib/algorithms": "one file per algorithm, and shared parts",
}


def runtime_imports(path: Path) -> set[str]:
    """Return our modules that a file imports at runtime, also in functions, without imports for type checkers."""
    tree = tree_of(path)
    found: set[str] = set()
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    typing_only = [node for node in tests if "TYPE_CHECKING" in ast.dump(node.test)]
    skipped = {id(child) for block in typing_only for child in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in skipped:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if names <= MODULES else {*names, node.module or ""}
    return found & MODULES - {module_of(path)}


def module_of(path: Path) -> str:
    return str(path.relative_to(ROOT).with_suffix("")).replace("/", ".").removesuffix(".__init__")


def layer_of(module: str) -> str:
    """Return the layer of a module of the package: the longest matching name."""
    name = module.removeprefix("interreplay.")
    return max((layer for layer in LAYERS if f"{name}.".startswith(f"{layer}.")), key=len, default="")


MODULES = {module_of(path) for path in PACKAGED}
OWN = sorted(module for module in MODULES if module.startswith("interreplay."))


@functools.cache
def graph() -> dict[str, set[str]]:
    """Return, for each of our modules, our modules that it imports."""
    return {module_of(path): runtime_imports(path) for path in PACKAGED}


def test_every_module_belongs_to_a_layer():
    assert [module for module in OWN if not layer_of(module)] == []


def test_a_layer_imports_from_layers_below_it():
    height = {module: LAYERS.index(layer_of(module)) for module in MODULES if layer_of(module)}
    above = [(one, other) for one in OWN for other in graph()[one] if height.get(other, -1) > height[one]]
    assert above == []


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return the nodes in cycles or between them."""
    left = {node: targets - {node} for node, targets in graph.items()}
    while True:
        reached = set().union(*left.values()) if left else set()
        inside = {
            node: targets & left.keys() for node, targets in left.items() if targets & left.keys() and node in reached
        }
        if inside.keys() == left.keys():
            return sorted(left)
        left = inside


def test_imports_of_files_have_no_cycle():
    assert cycle(graph()) == []


def test_cycles_are_found():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"d"}}) == ["a", "b", "c"]
    assert cycle({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_folders_have_few_files():
    folders = Counter(path.parent for path in PACKAGED if path.name != "__init__.py")
    full = {name_of(folder) for folder, files in folders.items() if files > FILES_PER_FOLDER}
    assert full - MORE_FILES.keys() == set()


def test_imports_run_one_way():
    wrong = []
    for path in CODE:
        own = path.relative_to(ROOT).parts[0].removesuffix(".py")
        above = set(ORDER[: ORDER.index(own)]) if own in ORDER else set()
        wrong += [(name_of(path), module) for module in above & top_level(path)]
    assert wrong == []


@functools.cache
def tracked_texts() -> dict[Path, str]:
    """Return the text files of the repository, without installed and built files."""
    skip = {".git", ".venv", "results", "build", "dist", "__pycache__"}
    kinds = {".py", ".md", ".cfg", ".toml", ".txt", ".yml", ".yaml", ".sh", ".sbatch", ""}
    paths = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in skip and "cache" not in name]
        paths += [Path(folder, name) for name in names if name not in skip and "cache" not in name]
    texts = [path for path in sorted(paths) if path.is_file() and path.suffix in kinds]
    return {path: path.read_text(errors="ignore") for path in texts}


def test_nothing_names_a_path_of_one_machine():
    others = {path: text for path, text in tracked_texts().items() if path != Path(__file__).resolve()}
    assert len(others) > 500 and Path(ROOT / "README.md") in others
    found = [(name_of(path), match[1]) for path, text in others.items() for match in MACHINE_PATH.finditer(text)]
    assert found == []


BRITISH = re.compile(
    r"(?<![a-z])(neighbo[u]r|behavio[u]r|colo[u]r|cent[r]e|normali[s]|optimi[s]er|synthe[s]ise|factori[s])"
)


def test_spelling_is_american():
    ours = {path: text for path, text in tracked_texts().items() if "egg-info" not in name_of(path)}
    found = [(name_of(path), word) for path, text in ours.items() for word in BRITISH.findall(text.lower())]
    assert found == []


RETIRED = re.compile(
    r"(?<!\.)\b(told|tells|says|said|anew|of now|of today|go on|goes on|gone on|going on|dear|dearer|mend|mends|mended|"
    r"beside|nobody|somebody|wherein|thereof|likewise|by hand|take leave|none for none)\b",
    re.IGNORECASE,
)
"""Words of early texts of this project that the documentation of other libraries does not use."""
OURS = "interreplay replay_buffers benchmarks docs examples studies configs cluster_deployment tests .github".split()


def test_texts_are_in_plain_english():
    found = []
    for path, text in tracked_texts().items():
        first = name_of(path).split("/")[0]
        at_the_top = "/" not in name_of(path) and path.suffix in (".md", ".py", ".cfg", ".toml")
        if path != Path(__file__).resolve() and (first in OURS or at_the_top):
            found += [(name_of(path), line) for line in text.splitlines() if RETIRED.search(line)]
    assert found == []


UNBREAKABLE = re.compile(r"!?\[[^\]]*\]\([^)]*\)|`[^`]*`")
"""Links and code, which may be longer than a line of Markdown."""


def test_lines_of_markdown_are_short():
    found = []
    for path, text in tracked_texts().items():
        if path.suffix != ".md":
            continue
        without_code = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
        for line in without_code.splitlines():
            breakable = " " in UNBREAKABLE.sub("", line).strip()
            if len(line) > 100 and breakable and not line.startswith(("|", "![")):
                found.append((name_of(path), line))
    assert found == []


def test_names_of_tests_are_in_plain_english():
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for name in re.findall(r"^ *(?:def|class) (\w+)", path.read_text(), re.MULTILINE):
            if RETIRED.search(name.replace("_", " ")):
                found.append((name_of(path), name))
    assert found == []


PREPOSITIONS = re.compile(r"(^|_)of$|^_?of_|_(for|in)$")
PHRASES = {"errors_of", "get_built_in", "replace_built_in"}
"""A method that users' selectors override, and names with a word that ends like a preposition."""


def test_functions_are_named_by_verbs():
    found = []
    for path in CODE:
        names = {node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef)}
        found += [(name_of(path), name) for name in names - PHRASES if PREPOSITIONS.search(name)]
    assert found == []


def test_the_catalogue_lists_every_recipe():
    catalogue = importlib.import_module("replay_buffers")
    defined = {getattr(catalogue, name).__module__ for name in catalogue.__all__}
    assert defined == {f"replay_buffers.{path.stem}" for path in RECIPES}
    assert list(catalogue.__all__) == sorted(catalogue.__all__, key=str.lower)


@pytest.mark.parametrize("path", RECIPES, ids=name_of)
def test_a_recipe_names_its_paper(path):
    text = ast.get_docstring(tree_of(path)) or ""
    assert re.search(r"\b(19|20)\d\d\b", text), "the module docstring names the paper with its year"


def test_every_package_folder_can_be_imported():
    assert [name_of(path) for path in PACKAGED if not (path.parent / "__init__.py").exists()] == []


def test_test_files_have_different_names():
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names)), "pytest imports them by name"
