"""The cost of a study, from finished runs of the same kind or the most similar one."""

from __future__ import annotations

import json

from interreplay.experiments.studies.cost_estimate import describe_cost, earlier, kinds
from interreplay.experiments.studies.study import Execution, PlannedRun, Study
from interreplay.experiments.studies.study_folder import StudyFolder

SETTINGS = {"trainer": "SAC", "env": "A", "buffer": "Uniform", "updates_per_step": 20.0, "policy_delay": 1}
SETTINGS |= {"n_critics": 2, "hiddens": [256, 256], "train_batch_size": 256}


def test_costs_follow_the_most_similar_finished_runs(tmp_path):
    for name, value in {"policy_delay": 20, "n_critics": 10, "critic_dropout": 0.1, "hiddens": [64, 64]}.items():
        assert not set(kinds(SETTINGS)) & set(kinds(SETTINGS | {name: value})), name
    for number, speed in enumerate((500, 700)):
        run = tmp_path / "earlier" / f"run{number}"
        run.mkdir(parents=True)
        (run / "status.json").write_text(json.dumps({"state": "finished", "seconds": 10.0, "env_steps": speed}))
        (run / "params.json").write_text(json.dumps(SETTINGS))
    assert earlier(tmp_path) == {kind: [50.0, 70.0] for kind in kinds(SETTINGS)}
    study = Study([PlannedRun("SAC", env, "Uniform", 0, {}) for env in "AB"], Execution(max_concurrent=1))
    how = [SETTINGS | {"total_env_steps": 216_000}, SETTINGS | {"total_env_steps": 7, "n_critics": 9}]
    text = describe_cost(study, StudyFolder.at(str(tmp_path / "new")), how)
    lines = [line.split() for line in text.splitlines()]
    assert lines[1][1:4] == ["SAC_A_Uniform_s0", "216,000", "60"] and lines[2][3] == "-"
    assert text.splitlines()[-1].startswith("2 runs: 1.0 CPU hours, 60 min with 1 at a time here, and 1 run without")
