"""The table of LCER's flags in docs/migration.md lists all of them and names existing flags of ours."""

import inspect
import re
from pathlib import Path

from interreplay.experiments.flags.run_flags import CATALOGUE, FLAGS

PAGE = (Path(__file__).parents[2] / "docs" / "migration.md").read_text()
SECTION = PAGE.partition("## From LCER's system")[2].partition("\n## ")[0]
# Flags of lcer/train.py at c26d413.
THEIRS = """
algo env-name lr num-steps updates-per-step policy no-eval gamma tau alpha no-automatic-entropy-tuning seed batch-size
hidden-size start-steps target-update-interval replay-size target-entropy eval-episodes cuda eval-timesteps save-agent
keep-best-agents model-based v-ratio update-env-model n-training-samples n-rollout-samples model-retain-epochs
epoch-length rollout-min-epoch rollout-max-epoch rollout-min-length rollout-max-length deterministic-model nmer
k-neighbors per her-replay-strategy her-replay-k her her-normalize n-update-batches lcercc lcerrm n-clusters
"""


def test_every_flag_of_theirs_has_a_row_that_names_flags_of_ours():
    rows = [line.split("|")[1:3] for line in SECTION.splitlines() if line.startswith("| `")]
    theirs = [flag for there, _ in rows for flag in re.findall(r"--([a-z0-9-]+)", there)]
    assert sorted(theirs) == sorted(THEIRS.split())
    ours = {flag for _, here in rows for flag in re.findall(r"--([a-z_]+)", here)}
    assert len(ours) > 20 and ours - FLAGS.keys() == set()
    arguments = {name for _, here in rows for name in re.findall(r"--buffer_arg '?([a-z_]+)=", here)}
    known = {
        name for kind in ("LCER", "HER", "NMER", "ModelBased") for name in inspect.signature(CATALOGUE[kind]).parameters
    }
    assert len(arguments) > 8 and arguments - known == set()
