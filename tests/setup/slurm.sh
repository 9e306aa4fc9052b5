#!/usr/bin/env bash
# A Slurm of one node for tests, everything below one directory: slurm.sh up DIR | down DIR | status DIR
#
# No accounting, no cgroups, no system service; munge has a socket and a key of its own. `up` starts what is not running. Daemons are
# stopped by their own pid files. CPUS, MEM_MB and PORT may be set in the environment.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin

usage() { echo "usage: $0 up|down|status DIR" >&2; exit 64; }
[ $# -eq 2 ] || usage
action=$1
mkdir -p "$2"
home=$(cd "$2" && pwd)
node=$(hostname -s)
port=${PORT:-16817}
export SLURM_CONF=$home/slurm.conf
# The jobstep plugin strips SLURM_CONF from the environment of a job's steps: the default place must lead here as well.
default_conf=/etc/slurm/slurm.conf

running() { [ -s "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; }

write_conf() {
    cat > "$SLURM_CONF" <<CONF
ClusterName=test
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$home/munge/socket
CredType=cred/munge
StateSaveLocation=$home/state
SlurmdSpoolDir=$home/spool
SlurmctldPidFile=$home/slurmctld.pid
SlurmdPidFile=$home/slurmd.pid
SlurmctldLogFile=$home/log/slurmctld.log
SlurmdLogFile=$home/log/slurmd.log
# Nothing of this cluster touches cgroups or accounting.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
# Jobs start at once, and a request no node can hold is refused instead of waiting for ever.
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0,defer_batch
EnforcePartLimits=ALL
# squeue shows a finished job for five minutes: the submit plugin asks it, as there is no accounting.
MinJobAge=300
KillWait=${KILL_WAIT_S:-20}
InactiveLimit=0
ReturnToService=2
SlurmdParameters=config_overrides
DefMemPerCPU=100
NodeName=$node NodeAddr=127.0.0.1 CPUs=${CPUS:-8} RealMemory=${MEM_MB:-16000} State=UNKNOWN
PartitionName=test Nodes=$node Default=YES MaxTime=INFINITE DefaultTime=30 State=UP
CONF
}

# A real configuration is left alone; a link to another cluster of this script is taken over unless that one still runs.
link_default_conf() {
    if [ -e "$default_conf" ] && [ ! -L "$default_conf" ]; then return; fi
    local other
    other=$(dirname "$(readlink "$default_conf" || true)")
    if [ "$other" != "$home" ] && running "$other/slurmctld.pid"; then
        echo "$0: another test cluster runs, in $other; try again when it has ended" >&2
        exit 75
    fi
    ln -sfn "$SLURM_CONF" "$default_conf"
}

up() {
    mkdir -p "$home"/{state,spool,munge,log}
    # munged refuses a socket whose directory others cannot enter; the key stays private.
    chmod 755 "$home" "$home/munge"
    chown root:root "$home/munge"
    if [ ! -s "$home/munge/key" ]; then
        (umask 077 && head -c 1024 /dev/urandom > "$home/munge/key")
    fi
    write_conf
    mkdir -p /etc/slurm
    link_default_conf
    if ! running "$home/munge/pid"; then
        munged --socket="$home/munge/socket" --key-file="$home/munge/key" --pid-file="$home/munge/pid" \
            --log-file="$home/log/munged.log" --seed-file="$home/munge/seed"
    fi
    running "$home/slurmctld.pid" || slurmctld -i
    running "$home/slurmd.pid" || slurmd -N "$node"
    for _ in $(seq 300); do
        case "$(sinfo --noheader --format=%T --nodes="$node" 2>/dev/null | head -n 1)" in
            idle* | mixed* | alloc*) sinfo; return ;;
        esac
        sleep 0.1
    done
    echo "$0: the node did not come up within 30 s; see $home/log" >&2
    exit 1
}

stop() {
    running "$1" || return 0
    local pid
    pid=$(cat "$1")
    kill "$pid"
    for _ in $(seq 150); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -9 "$pid"
}

down() {
    stop "$home/slurmd.pid"
    stop "$home/slurmctld.pid"
    stop "$home/munge/pid"
    if [ "$(readlink "$default_conf" || true)" = "$SLURM_CONF" ]; then rm "$default_conf"; fi
}

case $action in
    up) up ;;
    down) down ;;
    status) sinfo && squeue ;;
    *) usage ;;
esac
