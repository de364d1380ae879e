"""One report for all tests that only read it."""

import pytest
from run_folders import study

from interreplay.experiments.report.report import main


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    """Return the folder of a report about the runs in the folder `runs` next to it."""
    top = tmp_path_factory.mktemp("report")
    assert main([str(study(top / "runs")), "--output", str(top / "out"), "--title", "Two <methods>"]) == 0
    return top / "out"
