"""Tables of a study with all seeds."""

import pandas as pd

from benchmarks.studies.study_table import over_tasks


def test_the_probability_of_improvement_has_its_interval():
    key = {"algorithm": "SAC", "measure": "auc"}
    scores = {
        "runs": 15,
        "iqm": 0.6,
        "iqm_low": 0.5,
        "iqm_high": 0.7,
        "ratio": 1.1,
        "ratio_low": 0.9,
        "ratio_high": 1.2,
    }
    found = pd.DataFrame([key | {"method": name} | scores for name in ("Uniform", "NMER")])
    chance = {"probability": 0.53, "probability_low": 0.31, "probability_high": 0.75}
    improved = pd.DataFrame([key | {"method": "NMER", "baseline": "Uniform"} | chance])
    uniform, nmer = over_tasks(found, improved, "Uniform").splitlines()[2:]
    assert uniform == "| SAC Uniform | auc | 15 | 0.6 (0.5 to 0.7) | 1 | – |"
    assert nmer == "| SAC NMER | auc | 15 | 0.6 (0.5 to 0.7) | 1.1 (0.9 to 1.2) | 0.53 (0.31 to 0.75) |"
