"""The loops without Ray run unchanged where Ray is not installed, and learn."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "without_rllib"
PATIENCE = 500
FEW = {
    "sac_nmer": "--total-steps 150 --learning-starts 60 --batch-size 16 --hiddens 16 --evaluate-every 100",
    "ddqn_per": "--buffer NMER --total-steps 300 --learning-starts 60 --batch-size 16 --evaluate-every 150",
}


def module(name: str):
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found  # dataclasses look up their module
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("name", sorted(FEW))
def test_a_loop_is_short_and_imports_no_ray(name):
    text = (FOLDER / f"{name}.py").read_text()
    code = [line for line in text.splitlines() if line.strip() and not line.strip().startswith(("#", '"""'))]
    assert len(code) <= 125
    names = {alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for alias in node.names}
    assert "ray" not in names


@pytest.mark.slow
def test_the_loops_run_with_few_steps(tmp_path):
    run = "import runpy, sys\nsys.modules['ray'] = None  # as if it were not installed\n"
    for name, flags in FEW.items():
        script = str(FOLDER / f"{name}.py")
        run += f"sys.argv = {[script, *flags.split()]}\nrunpy.run_path({script!r}, run_name='__main__')\n"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", run], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^[\d,]+ steps, .*return -?[\d.]+", done.stdout, re.MULTILINE)) == 4
    assert done.stderr == ""


@pytest.mark.slow
def test_plain_double_dqn_learns():
    example = module("ddqn_per")
    args = example.Args(buffer="PER", total_steps=4_000, evaluate_every=1_000, epsilon_steps=2_000, seed=1)
    assert max(example.main(args)) > 60  # a random policy gets 22
