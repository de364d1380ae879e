#!/bin/bash
# Ray on one node, with the resources of the job instead of those of the node. Started by run.sh:
#   node.sh head IP | node.sh worker ADDRESS
set -uo pipefail
# shellcheck source=cluster_deployment/common.sh
. "$INTERREPLAY_HOME/cluster_deployment/common.sh"
role=$1 where=$2
ulimit -S -n "$(ulimit -H -n)" 2>/dev/null || true
unset OMP_NUM_THREADS # each run gets as many threads as it has CPUs

cpus=${SLURM_CPUS_ON_NODE:-1}
case ${CUDA_VISIBLE_DEVICES:-} in
    '' | -1 | NoDevFiles) gpus=0 ;; # Slurm's value for no GPUs
    *) gpus=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | wc -l) ;;
esac

memory_mb() { # memory of the job on this node
    if [ "${SLURM_MEM_PER_NODE:-0}" -gt 0 ]; then
        echo "$SLURM_MEM_PER_NODE"
    elif [ "${SLURM_MEM_PER_CPU:-0}" -gt 0 ]; then
        echo $((SLURM_MEM_PER_CPU * cpus))
    elif [ "${SLURM_MEM_PER_GPU:-0}" -gt 0 ] && [ "$gpus" -gt 0 ]; then
        echo $((SLURM_MEM_PER_GPU * gpus))
    else
        # the whole node, or a site without memory limits: the share of the job by its CPUs
        awk -v c="$cpus" -v n="$(nproc --all)" '/^MemTotal/ { print int($2 / 1024 * c / n) }' /proc/meminfo
    fi
}
memory=$(memory_mb)
# Columns, weights and results pass through the object store in /dev/shm, which is small in containers.
shared=$(df -m --output=avail /dev/shm 2>/dev/null | tail -n 1)
store=$((memory / 5))
[ $store -le $((${shared:-64} * 8 / 10)) ] || store=$((shared * 8 / 10))
[ $store -ge 80 ] || store=80
[ $store -le 8192 ] || store=8192

free_port() { python -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }

own=(--num-cpus="$cpus" --num-gpus="$gpus" --memory=$(((memory - store) * 1048576 * 9 / 10))
    --object-store-memory=$((store * 1048576)) --disable-usage-stats --block
    --node-manager-port=0 --object-manager-port=0 --min-worker-port=0 --max-worker-port=0
    --dashboard-agent-listen-port=0 --dashboard-agent-grpc-port=0 --runtime-env-agent-port=0 --metrics-export-port=0)
say "$(hostname): $role of $where with $cpus CPUs, $gpus GPUs, $memory MB, of which $store MB for shared objects"

if [ "$role" = head ]; then
    # If grpcio is installed, Ray starts a server for remote clients, by default on a fixed port.
    client=()
    python -c 'import grpc' 2>/dev/null && client=(--ray-client-server-port="$(free_port)")
    exec ray start --head --node-ip-address="$where" --port=0 --include-dashboard=false "${client[@]}" "${own[@]}"
fi

# A folder per node: some sites share the scratch folder between nodes.
mine=$RAY_TMPDIR/n${SLURM_NODEID:-0}
rm -rf "$mine"
(umask 077 && mkdir -p "$mine") || die "$mine cannot be created on $(hostname)"
cache_in "$mine" # removed at the end, like everything in it
child=
# shellcheck disable=SC2317,SC2329 # called by the trap
ending() {
    kill "$child" 2>/dev/null
    for _ in $(seq 10); do kill -0 "$child" 2>/dev/null && sleep 0.3; done
    kill -KILL "$child" 2>/dev/null
    for _ in 1 2 3; do sleep 0.5 && rm -rf "$mine" 2>/dev/null; done # dying processes may still write there
    rmdir "$RAY_TMPDIR" 2>/dev/null
    exit 0
}
trap ending TERM INT USR1
for attempt in 1 2 3 4; do # restarts killed daemons, so that the node's CPUs are available again
    ray start --address="$where" --temp-dir="$mine" "${own[@]}" &
    child=$!
    wait $child
    code=$?
    say "$(hostname): Ray ended with exit code $code, start $attempt of 4"
    sleep 3
done
exit 1
