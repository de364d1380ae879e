"""Run one run of a study in this process, without Tune, such as in a task of a job array."""

from __future__ import annotations

import contextlib
import math
from typing import Any, TextIO

from interreplay.experiments.process.outcome import RED, colored, write_line
from interreplay.experiments.process.progress import Reporter, reporter_of
from interreplay.experiments.process.signals import RESUMABLE, Interrupts
from interreplay.experiments.studies.study import Execution
from interreplay.experiments.studies.trial_folder import FAILED, OVER, TrialFolder
from interreplay.experiments.tune.study_run import PermanentFailure, StudyRun, described
from interreplay.rllib import ray_session
from interreplay.runs.state_files.disk import FolderInUse


def run_single(folder: TrialFolder, settings: dict[str, Any], how: Execution, stream: TextIO) -> int:
    """Start or resume a run, until its end or a signal. Retry from its last checkpoint if it fails.

    Returns:
        The exit code: 0 if finished, 1 if failed, 75 after SIGTERM or ``max_time``, 130 after Ctrl-C.
    """
    ray_session.prepare_host(settings["threads"], settings["num_workers"], settings["device"])
    for attempt in range(how.max_failures + 1):
        try:
            return _attempt(folder, settings, how.hang_timeout, stream)
        except FolderInUse:  # the run does not fail: another process trains it
            raise
        except PermanentFailure as error:
            write_line(colored(f"failed for good: {error}", RED, stream), stream)
            return 1
        except Exception as error:
            outcome = "failed, trying again from its last checkpoint"
            if attempt == how.max_failures:
                outcome = "failed for good"
            write_line(colored(f"{outcome}: {described(error)}", RED, stream), stream)
    with contextlib.suppress(OSError):  # full disk
        folder.note(state=FAILED)
    return 1


def _attempt(folder: TrialFolder, settings: dict[str, Any], hang_timeout: float, stream: TextIO) -> int:
    reporters: list[Reporter] = []

    def progress(steps: int) -> None:
        if not reporters:  # the run is ready
            best = max(folder.returns(evaluations=True), default=math.nan)
            reporters.append(reporter_of(run.settings, steps, stream, best))
        reporters[0].progress(steps)

    run = StudyRun(folder.path, settings, hang_timeout, progress)
    with Interrupts(lambda: run.ask("stop"), lambda: run.ask("save")) as interrupts, run:
        if run.over:
            write_line(f"already {run.over}", stream)
        try:
            for figures in run.results():
                reporters[0].report(figures["env_steps"], figures["return"], figures["evaluation_return"])
        finally:
            for reporter in reporters:
                reporter.close()
        if run.over in OVER:
            return 0
    status = run.folder.status()
    reason = status.get("reason") or "by a signal"
    write_line(f"{run.over} ({reason}) at {status['env_steps']:,} steps; the same command resumes it", stream)
    if interrupts.received:
        return interrupts.exit_code
    return RESUMABLE
