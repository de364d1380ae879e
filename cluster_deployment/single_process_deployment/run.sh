#!/bin/bash
# A study as a job array: each task is one run in a process of its own, without a Ray cluster.
#   sbatch --array=0-11 cluster_deployment/single_process_deployment/run.sh STUDY.yaml RESULTS [flags]
# `python cluster_run.py STUDY.yaml --count` prints the number of runs. Submitted again, each run resumes.
#SBATCH --job-name=interreplay --ntasks=1 --cpus-per-task=1 --time=01:00:00
#SBATCH --signal=B:USR1@120 --requeue --open-mode=append --output=%x-%A_%a.out
set -uo pipefail
warned_early=0 # a warning during the preparations would end this script; watch() handles it
trap 'warned_early=1' USR1
export INTERREPLAY_HOME=${INTERREPLAY_HOME:-$SLURM_SUBMIT_DIR}
# shellcheck source=cluster_deployment/common.sh
. "$INTERREPLAY_HOME/cluster_deployment/common.sh" || {
    echo "submit from the repository's folder, or set INTERREPLAY_HOME" >&2 && exit 1
}
[ -n "${SLURM_ARRAY_TASK_ID:-}" ] || die "this is a job array; submit it with --array=0-N"
[ $# -ge 2 ] || die "expected STUDY.yaml RESULTS [flags of cluster_run.py], got: $*"
study=$1 results=$2
shift 2
# Hundreds of tasks that import torch from one file server at the same time slow each other down.
sleep $((SLURM_ARRAY_TASK_ID % 30 * ${INTERREPLAY_STAGGER:-1}))
activate
isolate
run=$((SLURM_ARRAY_TASK_ID + ${INTERREPLAY_FIRST_RUN:-0}))
say "run $run on $(hostname), start $((${SLURM_RESTART_COUNT:-0} + 1))"
watch python "$INTERREPLAY_HOME/cluster_run.py" "$study" --output_dir "$results" --run "$run" "$@"
finish "$code"
