"""The code in docs/unrolls.md runs, and its tables list all settings."""

import re
from pathlib import Path

import numpy as np
import yaml

from interreplay.unrolls.mix_settings import TYPES, SourceSettings, make_mix
from interreplay.unrolls.schema import CUSTOM, ORIGINAL, read
from tests.unrolls.unroll_builders import unrolls

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "unrolls.md").read_text()


def test_the_code_runs():
    (listed,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert list(make_mix(yaml.safe_load(listed)).sources) == ["queue", "elite", "uniform"]
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {"unrolls": unrolls(40), "rng": np.random.default_rng(0), "logits": unrolls(32, seed=1).policy}
    exec(code, names)
    assert names["mix"].batches == 2 and names["batch"].size == 32
    (text,) = re.findall(r"`'(\[\{\"type\".*?)'`", PAGE)
    assert [entry["type"] for entry in read(text, 32)] == ["queue", "uniform"]


def test_the_tables_are_complete():
    first, second = (set(re.findall(r"`([a-z_]+)`", part)) for part in PAGE.split("## `--replay_parameters`"))
    assert {*SourceSettings.__annotations__, *TYPES} <= first
    assert {*CUSTOM, *ORIGINAL} - {"custom", "standard", "queue", "p"} <= second
