"""One run of a study in this process, without Tune: for job arrays, and for looking closely at one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from interreplay.rllib import ray_session
from interreplay.rllib.tune.study_run import PermanentFailure, StudyRun, described
from interreplay.runs.progress import Clock, shown
from interreplay.runs.signals import Interrupts
from interreplay.studies.study import Execution
from interreplay.studies.trial_folder import FAILED, OVER, TrialFolder


def run_single(
    folder: TrialFolder, settings: dict[str, Any], how: Execution, say: Callable[[str], Any], uri: str = ""
) -> int:
    """Start a run or resume it, to its end or to a signal; try again from its checkpoint when it fails.

    Args:
        folder: The run's.
        settings: What ``argument_parser.settings_for`` returned.
        how: Of it, ``max_failures`` and ``hang_timeout``.
        say: Takes a line.
        uri: The study's folder elsewhere, of which the folder's parent is the copy.

    Returns:
        The exit code: 0 finished, 1 failed for good, 75 after SIGTERM, 130 after Ctrl-C.
    """
    ray_session.prepare_host(settings["threads"], settings["num_workers"])
    for attempt in range(how.max_failures + 1):
        try:
            return _attempt(StudyRun(folder.path, settings, how.hang_timeout, uri), say)
        except PermanentFailure as error:
            say(f"failed for good: {error}")
            return 1
        except Exception as error:
            last = attempt == how.max_failures
            say(f"failed, {'for good' if last else 'trying again from its last checkpoint'}: {described(error)}")
    with contextlib.suppress(OSError):  # where the disk is full
        folder.note(state=FAILED)
    return 1


def _attempt(run: StudyRun, say: Callable[[str], Any]) -> int:
    with Interrupts(lambda: run.ask("stop"), lambda: run.ask("save")) as interrupts, run:
        if run.over:
            say(f"{run.over} before")
        clock, total = Clock(getattr(run.settings, "learning_starts", 0)), run.settings.total_env_steps
        for figures in run.results():
            message = f"return {shown(figures['return'])}, evaluation {shown(figures['evaluation_return'])}"
            say(f"{figures['env_steps']:>9,} / {total:,} steps, {message}{clock.left(figures['env_steps'], total)}")
        if run.over in OVER:
            return 0
    say(f"{run.over} at {run.folder.status()['env_steps']:,} steps; the same command goes on")
    return interrupts.exit_code
