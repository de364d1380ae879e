"""Size of an algorithm: its networks, update, settings and a row of the table."""

import ast
import io
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3] / "interreplay"
MOST = 165
NOT_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(source: str) -> set[int]:
    """Return the lines that contain more than a comment or a docstring."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {line for t in tokens if t.type not in NOT_CODE for line in range(t.start[0], t.end[0] + 1)}
    texts = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr) and literal(node.value)]
    return lines - {line for node in texts for line in range(node.lineno, (node.end_lineno or 0) + 1)}


def literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def class_lines(trainer: str) -> int:
    """Return the lines of an algorithm's settings, RLModule, configuration and Algorithm, in any file."""
    names = {f"{trainer}Settings", trainer, f"{trainer}Config", f"{trainer}Module"}
    count = 0
    for path in (*(ROOT / "learning").rglob("*settings.py"), *(ROOT / "rllib" / "algorithms").glob("*.py")):
        source = path.read_text()
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and node.name in names:
                first = min(part.lineno for part in (node, *node.decorator_list))
                count += len(code_lines(source) & set(range(first, (node.end_lineno or 0) + 1)))
    assert count, trainer
    return count


@pytest.mark.parametrize("trainer", ["TQC", "CrossQ", "TD3"])
def test_an_algorithm_is_short(trainer):
    update = len(code_lines((ROOT / f"learning/actor_critic/{trainer.lower()}.py").read_text()))
    row = (ROOT / "learning" / "algorithms_table.py").read_text().count(f'    "{trainer}": Algorithm(')
    assert row == 1 and update + class_lines(trainer) + row <= MOST


def test_ddpg_is_settings_of_td3():
    assert class_lines("DDPG") <= 40
