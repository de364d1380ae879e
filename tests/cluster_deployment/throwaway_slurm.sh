#!/usr/bin/env bash
# A real, small Slurm on this machine for the tests: two nodes with a network address, host name, processes, /dev/shm and
# scratch folder each. Memory and CPU limits are not enforced.
#   throwaway_slurm.sh up     starts it, and installs Debian's packages where they are missing; bounded in time
#   throwaway_slurm.sh env    prints what makes sbatch and the batch scripts find it:  eval "$(throwaway_slurm.sh env)"
#   throwaway_slurm.sh down   ends it
# If this is not possible, `up` prints the reason in one line and returns 3. Needs root, and the right to make namespaces.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
root=${THROWAWAY_SLURM:-/tmp/throwaway-slurm} # short: sockets are made in it
cpus=${THROWAWAY_SLURM_CPUS:-$(nproc --all)} # without --all nproc takes OMP_NUM_THREADS for the answer
nodes=(tn1 tn2)
net=10.78.5
bridge=throwaway0
export SLURM_CONF=$root/slurm.conf DEBIAN_FRONTEND=noninteractive

refuse() {
    echo "no throw-away Slurm: $*" >&2
    exit 3
}
within() { # within SECONDS COMMAND...: repeats it until it succeeds
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.3
    done
}

install_packages() {
    local missing=() program
    for program in slurmctld slurmd sbatch munged ip; do command -v $program >/dev/null || missing+=("$program"); done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || refuse "${missing[*]} missing, and no apt-get to install them"
    # Without systemd the packages could not start their services, and should not.
    local policy=/usr/sbin/policy-rc.d ours=
    [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy && ours=1; }
    timeout 60 apt-get -q update >"$root/apt.log" 2>&1 || true
    timeout 180 apt-get -q install -y --no-install-recommends slurmctld slurmd slurm-client munge iproute2 >>"$root/apt.log" 2>&1 ||
        { [ -z "$ours" ] || rm $policy; refuse "${missing[*]} missing, apt-get: $(grep -m1 -E '^E:' "$root/apt.log" || echo timeout)"; }
    [ -z "$ours" ] || rm $policy
}

munge_answers() { munge -n | timeout 5 unmunge; }
start_munge() {
    munge_answers >/dev/null 2>&1 && return
    [ -s /etc/munge/munge.key ] || mungekey --create
    install -d -o munge -g munge -m 755 /run/munge
    setpriv --reuid munge --regid munge --init-groups munged --force
    within 10 munge_answers || refuse "munge does not answer"
    cp /run/munge/munged.pid "$root/munged.pid"
}

configure() {
    local i memory
    memory=$(awk '/^MemTotal/ { print int($2 / 1024 / 2 - 256) }' /proc/meminfo)
    cat >"$SLURM_CONF" <<CONF
ClusterName=throwaway
SlurmctldHost=$(hostname -s)($net.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# How long a requeued job waits before it starts again; by default two minutes.
AuthInfo=cred_expire=5
StateSaveLocation=$root/state
SlurmdSpoolDir=$root/spool/%n
SlurmctldPidFile=$root/slurmctld.pid
SlurmdPidFile=$root/slurmd.%n.pid
SlurmctldLogFile=$root/slurmctld.log
SlurmdLogFile=$root/slurmd.%n.log
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=$((memory / cpus))
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
MinJobAge=3600
KillWait=5
CompleteWait=0
ReturnToService=2
SlurmdParameters=config_overrides
CONF
    # From 23.11 on, also linuxproc wants a word about cgroups; older versions do not know it.
    case $(slurmd -V) in *' 23.11'* | *' 2'[4-9]*) echo CgroupPlugin=disabled >"$root/cgroup.conf" ;; esac
    for i in "${!nodes[@]}"; do
        echo "NodeName=${nodes[i]} NodeAddr=$net.$((i + 11)) CPUs=$cpus RealMemory=$memory State=UNKNOWN" >>"$SLURM_CONF"
    done
    echo "PartitionName=test Nodes=ALL Default=YES MaxTime=60 DefaultTime=10 State=UP" >>"$SLURM_CONF"
}

start_node() { # start_node NAME NUMBER
    local name=$1 space=throwaway-$1
    mkdir -p "$root/spool/$name" "$root/disk/$name" "$root/local"
    ip netns add "$space"
    ip link add "throwaway$2" type veth peer name eth0 netns "$space"
    ip link set "throwaway$2" master $bridge up
    ip -n "$space" address add "$net.$((10 + $2))/24" dev eth0
    ip -n "$space" link set eth0 up
    ip -n "$space" link set lo up
    # The shell is the node's first process: when it ends, everything on the node does.
    # shellcheck disable=SC2016 # for the inner shell
    setsid nsenter --net="/run/netns/$space" unshare --uts --mount --pid --fork --mount-proc --kill-child=KILL bash -c '
        hostname "$1"
        mount -t tmpfs -o mode=1777 tmpfs /dev/shm
        mount --bind "$2/disk/$1" "$2/local"
        slurmd -D -N "$1" &
        wait' node "$name" "$root" </dev/null >"$root/node.$name.log" 2>&1 &
    echo $! >"$root/node.$name.pid"
}
idle() { [ "$(timeout 5 sinfo -h -N -t idle,mix,alloc -o %N | sort -u | wc -l)" = ${#nodes[@]} ]; }

up() {
    [ "$(id -u)" = 0 ] || refuse "only root can start one"
    mkdir -p "$root/state"
    if [ -s "$SLURM_CONF" ] && idle 2>/dev/null; then return; fi
    install_packages
    unshare --net --uts --mount --pid --fork true 2>/dev/null || refuse "namespaces are not allowed here"
    down
    mkdir -p "$root/state"
    ip link add $bridge type bridge 2>/dev/null || refuse "network devices are not allowed here"
    ip address add $net.1/24 dev $bridge
    ip link set $bridge up
    start_munge
    configure
    timeout 20 slurmctld || refuse "slurmctld: $(tail -n 1 "$root/slurmctld.log" 2>&1)"
    local i
    for i in "${!nodes[@]}"; do start_node "${nodes[i]}" $((i + 1)); done
    within 30 idle || refuse "nodes stay away: $(sinfo -h -N -o '%N %T' | tr '\n' ' ')"
}

end_process() { # end_process PIDFILE NAME: the process that was written down, if it still is that program
    local pid
    pid=$(cat "$1" 2>/dev/null) || return 0
    rm -f "$1"
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] || return 0
    kill "$pid"
    within 10 eval "! kill -0 $pid" || kill -KILL "$pid"
}
down() {
    [ -d "$root" ] || return 0
    local name i
    for name in "${nodes[@]}"; do end_process "$root/node.$name.pid" unshare; done
    end_process "$root/slurmctld.pid" slurmctld
    for i in "${!nodes[@]}"; do
        ip netns del "throwaway-${nodes[i]}" 2>/dev/null || true
        ip link del "throwaway$((i + 1))" 2>/dev/null || true
    done
    ip link del $bridge 2>/dev/null || true
    end_process "$root/munged.pid" munged
    rm -rf "$root"
}

case ${1:-} in
    up) up ;;
    down) down ;;
    env) printf 'export SLURM_CONF=%q INTERREPLAY_SCRATCH=%q\n' "$SLURM_CONF" "$root/local" ;;
    *) sed -n '2,7p' "$0" && exit 2 ;;
esac
