# shellcheck shell=bash
# Shared by both batch scripts: the environment, a scratch folder per job, signals, requeueing.
# Sourced, never run. Settings are environment variables, which submit.py sets:
#   INTERREPLAY_HOME         this repository; by default the folder that sbatch was called in
#   INTERREPLAY_VENV         folder of a virtual environment, or
#   INTERREPLAY_CONDA        name or folder of a conda environment; default: .venv of the repository, or python in PATH
#   INTERREPLAY_MODULES      modules to load first, such as "python/3.11 cuda/12.4"
#   INTERREPLAY_SCRATCH      node-local folder with a short path; by default the first suitable one
#   INTERREPLAY_STOP_BEFORE  seconds before the job's end at which it saves and stops (default 60)
#   INTERREPLAY_MAX_REQUEUES how often a job may put itself back into the queue (default 100)
#   INTERREPLAY_STAGGER      seconds between the starts of neighboring array tasks (default 1)

say() { printf '%s %s\n' "$(date '+%F %T')" "$*"; }
die() {
    say "error: $*" >&2
    exit 1
}

# The id of the job for scontrol. An array's task needs its number: the id alone means all tasks of the array.
job_name() { echo "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"; }

# -- the environment ------------------------------------------------------------------------------------------

load_modules() {
    [ -n "${INTERREPLAY_MODULES:-}" ] || return 0
    # shellcheck source=/dev/null
    type module >/dev/null 2>&1 || . /etc/profile
    local name
    for name in $INTERREPLAY_MODULES; do module load "$name" || die "module load $name failed; see: module avail"; done
}

activate_conda() {
    local hook exe
    for exe in "${INTERREPLAY_CONDA_EXE:-}" conda "${CONDA_EXE:-}" micromamba "${MAMBA_EXE:-}"; do
        exe=$(command -v "${exe:-none}") && break
    done
    [ -n "$exe" ] || die "conda not found; name its program: submit.py --conda-exe, or INTERREPLAY_CONDA_EXE"
    case $(basename "$exe") in
        conda) hook=$("$exe" shell.bash hook) ;;
        *) hook=$("$exe" shell hook --shell bash) ;;
    esac || die "$exe does not print its shell hook"
    eval "$hook"
    "$(basename "$exe")" activate "$1" || die "conda environment $1 cannot be activated; see: conda env list"
}

activate() {
    set +u # scripts of modules and environments read unset variables
    load_modules
    local venv=${INTERREPLAY_VENV:-}
    if [ -n "${INTERREPLAY_CONDA:-}" ]; then
        activate_conda "$INTERREPLAY_CONDA"
    else
        [ -z "$venv" ] && [ -r "$INTERREPLAY_HOME/.venv/bin/activate" ] && venv=$INTERREPLAY_HOME/.venv
        if [ -n "$venv" ]; then
            [ -r "$venv/bin/activate" ] || die "$venv is not a virtual environment; expected $venv/bin/activate"
            # shellcheck source=/dev/null
            . "$venv/bin/activate" || die "$venv/bin/activate failed, see above"
        fi
    fi
    set -u
    python -c 'import ray' 2>/dev/null || die "$(command -v python || echo 'no python') cannot import ray;" \
        "name an environment: submit.py --venv or --conda (INTERREPLAY_VENV, INTERREPLAY_CONDA)"
    export PYTHONPATH=$INTERREPLAY_HOME${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
}

# -- isolation from other jobs --------------------------------------------------------------------------------

is_network() {
    case $(stat -f -c %T "$1" 2>/dev/null) in
        nfs* | lustre | gpfs | fhgfs | beegfs | ceph | smb* | cifs | afs | panfs | pvfs2 | fuse*) return 0 ;;
    esac
    return 1
}

# A mktemp template for the folder of this job, so that no other user can create it first. Ray keeps sockets and spilled
# objects there, so it is on the node's own disk and short: a socket's path has at most 107 bytes, of which Ray takes
# up to 69.
choose_scratch() {
    local base path why
    for base in "${INTERREPLAY_SCRATCH:-}" "${SLURM_TMPDIR:-}" "${TMPDIR:-}" /tmp /dev/shm; do
        [ -n "$base" ] || continue
        path=${base%/}/ir$(job_name).XXXX why=
        if [ ${#path} -gt 38 ]; then why="$path is longer than 38 characters"
        elif ! [ -w "$base" ]; then why="$base cannot be written to"
        elif is_network "$base"; then why="$base is on a network file system"; fi
        [ -n "$why" ] || { echo "$path" && return; }
        [ "$base" != "${INTERREPLAY_SCRATCH:-}" ] || die "scratch folder: $why; name another: submit.py --scratch"
    done
    die "no scratch folder: $why; name a short folder on the node's own disk: submit.py --scratch"
}

cache_in() { # cache_in FOLDER: caches lock their files, which can hang forever in a home folder without locks
    export MPLCONFIGDIR=$1/mpl TRITON_CACHE_DIR=$1/triton TORCHINDUCTOR_CACHE_DIR=$1/inductor
}

isolate() {
    # A token per job: other users cannot reach its Ray, and tokens in the home folder are ignored.
    local token
    token=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
    export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$token
    # Remove the address of another cluster. After `sbatch --export=NONE`, srun would pass on none of these variables.
    unset RAY_ADDRESS RAY_AUTH_TOKEN_PATH
    export SLURM_EXPORT_ENV=ALL
    local template
    template=$(choose_scratch) || exit 1
    # Remove folders of earlier starts of this job.
    find "${template%/*}" -maxdepth 1 -user "$(id -u)" -name "ir$(job_name).????" -exec rm -rf {} + 2>/dev/null
    RAY_TMPDIR=$(mktemp -d "$template") || die "$template cannot be created on $(hostname)"
    export RAY_TMPDIR RAY_USAGE_STATS_ENABLED=0
    cache_in "$RAY_TMPDIR"
    # Shared nodes limit the threads and files of one user.
    export RAY_worker_num_grpc_internal_threads=1
    ulimit -S -n "$(ulimit -H -n)" 2>/dev/null || true
}

# -- the driver and the scheduler's signals ---------------------------------------------------------------------

seconds_left() { # until the scheduler ends the job; asks each time, because preemption changes the end
    local end
    end=$(SLURM_TIME_FORMAT=standard timeout 5 squeue -h -j "$(job_name)" -o %e 2>/dev/null | head -n 1)
    # date would turn an empty answer into midnight.
    end=$([ -n "$end" ] && date -d "$end" +%s 2>/dev/null) || end=${SLURM_JOB_END_TIME:-}
    if [ -n "$end" ]; then echo $((end - $(date +%s))); else echo 120; fi
}

after() { # after SECONDS COMMAND...: runs the command later, unless the driver has ended
    (
        trap 'kill $!; exit' TERM
        sleep "$1" &
        wait $! && shift && "$@"
    ) 2>/dev/null &
    timers+=($!)
}

warned() { # the scheduler may warn a minute early: save, and continue while there is time
    signalled=1
    kill -USR1 "$driver" 2>/dev/null # first, because a busy scheduler answers late
    stop_in_time
}

stop_in_time() {
    local left
    left=$(seconds_left)
    say "warning of the scheduler: $left s left"
    left=$((left - ${INTERREPLAY_STOP_BEFORE:-60}))
    if [ $left -gt 0 ]; then
        after $left kill -TERM $$
    else
        stop
    fi
}

stop() {
    signalled=1
    [ "$stopping" = 0 ] || return
    stopping=1
    say "saving and stopping"
    kill -TERM "$driver" 2>/dev/null
    # Kill a driver that hangs before the job ends, after which requeueing is impossible.
    local left
    left=$(($(seconds_left) - 15))
    after $((left > 10 ? left : 10)) kill -KILL "$driver"
}

watch() { # watch COMMAND...: runs the command with the signals above; sets $code, and $own_limit if it stopped by itself
    signalled=0 stopping=0 own_limit=0 timers=()
    local stopped_early=0
    trap 'stopped_early=1' TERM INT # until the driver's id is known
    # SIGUSR1 would end Python before it installs its handler.
    (
        trap '' USR1
        exec "$@"
    ) </dev/null &
    driver=$!
    trap warned USR1
    trap stop TERM INT
    [ $stopped_early = 0 ] || stop
    [ "${warned_early:-0}" = 0 ] || stop_in_time
    while :; do
        wait "$driver"
        code=$?
        [ $signalled = 1 ] || break
        signalled=0
    done
    trap - TERM INT
    trap '' USR1 # a late warning must not prevent requeueing
    [ ${#timers[@]} = 0 ] || kill "${timers[@]}" 2>/dev/null
    # Ended before it could save: the next start resumes from the last checkpoint.
    case $stopping$code in 1143 | 1137) code=75 ;; 075) own_limit=1 ;; esac
}

# The state of the job, or nothing: squeue may be missing on nodes, and a busy scheduler may not answer while the tasks
# of an array end together.
job_state() {
    local attempt state
    for attempt in 1 2 3; do
        state=$(timeout 5 squeue -h -j "$(job_name)" -o %T | head -n 1)
        [ -z "$state" ] || { echo "$state" && return; }
        [ "$attempt" = 3 ] || sleep 1
    done
}

requeue() { # three attempts, for the same reason; after a successful one, the scheduler ends this script
    local attempt
    for attempt in 1 2 3; do
        scontrol requeue "$(job_name)" && sleep 120 && return
        [ "$attempt" = 3 ] || sleep 1
    done
    say "cannot be requeued here; submit the same command again to resume" >&2
}

finish() { # finish CODE: ends the job; 75 means that runs are left
    local state
    rm -rf "$RAY_TMPDIR"
    if [ "$own_limit" = 1 ]; then
        say "stopped without a signal of the scheduler (max_time): not requeued; submit the same command again to continue"
    elif [ "$1" = 75 ]; then
        if [ "${SLURM_RESTART_COUNT:-0}" -ge "${INTERREPLAY_MAX_REQUEUES:-100}" ]; then
            say "requeued ${SLURM_RESTART_COUNT} times already; submit it again to resume (INTERREPLAY_MAX_REQUEUES)" >&2
        elif state=$(job_state) && [ -n "$state" ] && [ "$state" != RUNNING ]; then
            # scancel, preemption
            say "the scheduler ended this job ($state) and decides whether it is requeued"
        else
            say "not finished: requeueing"
            [ -n "$state" ] || say "the scheduler does not report the state of this job; requeueing anyway" >&2
            requeue
        fi
    fi
    say "ended with exit code $1"
    exit "$1"
}
