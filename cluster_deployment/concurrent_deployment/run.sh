#!/bin/bash
# A study in one allocation of any number of nodes: a Ray cluster inside it, all runs through Ray Tune.
#   sbatch [--nodes=4 --cpus-per-task=16 ...] cluster_deployment/concurrent_deployment/run.sh STUDY.yaml RESULTS [flags]
# Submitted again with the same arguments, it resumes. It accepts the flags of cluster_run.py. See ../README.md.
#SBATCH --job-name=interreplay --nodes=1 --ntasks-per-node=1 --cpus-per-task=4 --time=01:00:00
#SBATCH --signal=B:USR1@120 --requeue --no-kill --open-mode=append --output=%x-%j.out
set -uo pipefail
warned_early=0 # a warning during the preparations would end this script; watch() handles it
trap 'warned_early=1' USR1
export INTERREPLAY_HOME=${INTERREPLAY_HOME:-$SLURM_SUBMIT_DIR}
here=$INTERREPLAY_HOME/cluster_deployment
# shellcheck source=cluster_deployment/common.sh
. "$here/common.sh" || { echo "submit from the repository's folder, or set INTERREPLAY_HOME" >&2 && exit 1; }
[ $# -ge 2 ] || die "expected STUDY.yaml RESULTS [flags of cluster_run.py], got: $*"
study=$1 results=$2
shift 2
activate
isolate

nodes=$SLURM_JOB_NUM_NODES
head=$(hostname)
address_file=$RAY_TMPDIR/ray/ray_current_cluster
logs=$results/slurm/ray-$(job_name)
mkdir -p "$logs" || die "$results cannot be written to"

# One node uses its loopback address; several use the first address of this node that others can reach.
ip=127.0.0.1
if [ "$nodes" -gt 1 ]; then
    ip=${INTERREPLAY_HEAD_IP:-$({ getent ahostsv4 "$head"; hostname -I | tr ' ' '\n'; } |
        awk '$1 ~ /^[0-9.]+$/ && $1 !~ /^127\./ { print $1; exit }')}
    [ -n "$ip" ] || die "$head has no address that other nodes reach; set INTERREPLAY_HEAD_IP"
fi

start_head() { # another attempt helps if another job takes a port at the same moment
    local attempt
    for attempt in 1 2 3; do
        "$here/concurrent_deployment/node.sh" head "$ip" >>"$logs/$head.log" 2>&1 &
        head_pid=$!
        for _ in $(seq 240); do
            [ -s "$address_file" ] && return 0
            kill -0 $head_pid 2>/dev/null || break
            sleep 0.5
        done
        kill $head_pid 2>/dev/null
        wait $head_pid
        say "attempt $attempt: Ray's head did not start"
    done
    tail -n 20 "$logs/$head.log" >&2
    die "Ray's head did not start on $head; see $logs/$head.log, and check the node: python smoketest.py --cluster"
}

end() { # end SIGNAL PID: ends only what was started here; `ray stop` would end other jobs of this user too
    kill -"$1" "$2" 2>/dev/null
    for _ in $(seq 30); do
        kill -0 "$2" 2>/dev/null || return 0
        sleep 0.5
    done
    kill -KILL "$2" 2>/dev/null
}
stop_ray() { # srun forwards USR1 to the workers' node.sh; at TERM it would kill them before they clean up
    [ -z "$workers_pid" ] || end USR1 "$workers_pid"
    end TERM "$head_pid"
}

start_head
workers_pid=
RAY_ADDRESS=$(cat "$address_file")
export RAY_ADDRESS
if [ "$nodes" -gt 1 ]; then
    # A failed node does not end the others. --ntasks: a step inherits the job's number of tasks.
    bind=() # a step would be bound to the CPUs of one task
    scontrol show config | grep -q '^TaskPlugin .*affinity' && bind=(--cpu-bind=none)
    srun --overlap --nodes=$((nodes - 1)) --ntasks=$((nodes - 1)) --ntasks-per-node=1 --exclude="$SLURMD_NODENAME" \
        "${bind[@]}" --mem=0 --no-kill --kill-on-bad-exit=0 --wait=0 --input=none --output="$logs/%N.log" --open-mode=append \
        "$here/concurrent_deployment/node.sh" worker "$RAY_ADDRESS" 2>>"$logs/srun.log" &
    workers_pid=$!
fi
python "$here/concurrent_deployment/nodes_up.py" "$nodes" || { stop_ray; die "no Ray cluster; logs in $logs"; }

watch python "$INTERREPLAY_HOME/cluster_run.py" "$study" --output_dir "$results" "$@"
case $code in
    0 | 2 | 75) ;;
    *) kill -0 $head_pid 2>/dev/null || { say "Ray's head ended on $head; logs in $logs" && code=75; } ;;
esac
stop_ray
finish "$code"
