#!/usr/bin/env bash
# Trains under a real Slurm: two nodes on this machine. One job is stopped, and a step of another one is killed.
# usage: slurm_test.sh BUILD
set -euo pipefail
bin=$(realpath "$1")/bin

export PATH=$PATH:/usr/sbin
for tool in munged slurmctld slurmd sbatch; do
  command -v "$tool" >/dev/null || { echo "SKIPPED: $tool is missing; scripts/bootstrap.sh --tests installs it"; exit 77; }
done

fail() {
  echo "slurm_test: $*" >&2
  tail -n 40 "$folder"/*.log >&2
  exit 1
}
folder=$(mktemp --directory)
chmod 755 "$folder"
pids=()
trap 'scancel --full --user="$(id -un)" 2>/dev/null || true; sleep 1; kill "${pids[@]}" $(cat "$folder/munge/pid") 2>/dev/null || true
  wait; rm -rf "$folder"' EXIT

host=$(hostname -s)
user=$(id -un)
# Nodes are programs with an address and a port each.
port=$((17000 + $$ % 1000 * 4))
cat >"$folder/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthInfo=socket=$folder/munge.socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
KillWait=5
SchedulerParameters=batch_sched_delay=1
NodeName=n1 NodeHostname=$host NodeAddr=127.83.42.1 Port=$((port + 1)) CPUs=8 RealMemory=1000
NodeName=n2 NodeHostname=$host NodeAddr=127.83.42.2 Port=$((port + 2)) CPUs=8 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES State=UP
CONF
mkdir -m 711 "$folder/munge"
mkdir "$folder/state"
(umask 077 && head --bytes=1024 /dev/urandom >"$folder/munge.key")
munged --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munge/pid" \
  --log-file="$folder/munge/log" --seed-file="$folder/munge/seed" --force
export SLURM_CONF=$folder/slurm.conf
slurmctld -D 2>"$folder/slurmctld.err.log" & pids+=($!)
for node in n1 n2; do
  slurmd -D -N "$node" 2>"$folder/slurmd-$node.err.log" & pids+=($!)
done

# await WHAT COMMAND...: repeats a command until it succeeds.
await() {
  local what=$1
  for ((i = 0; i < 600; ++i)); do
    "${@:2}" >/dev/null 2>&1 && return
    sleep 0.1
  done
  fail "no $what after a minute"
}
for ((i = 0; i < 300; ++i)); do
  [[ $(sinfo --noheader --states=idle --format=%D 2>/dev/null) == 2 ]] && break
  sleep 0.1
done
if ((i == 300)); then
  tail -n 5 "$folder"/slurm*.log >&2
  echo "SKIPPED: Slurm does not start on this machine; its logs are above"
  exit 77
fi

cp -r config "$folder/config"
log=$folder/stopped.log
job=$(cd "$folder" && SIMURGH_BIN=$bin sbatch --parsable --nodes=2 --output="$log" config/deploy/slurm/simurgh.sbatch \
  config/adult.yaml --set checkpoint.directory="$folder/stopped" --set training.epochs=1000000 \
  --set training.max_steps=100000000 --set training.progress_interval=100ms)
await "progress" grep -q "progress: step=" "$log"
scancel --batch --signal=TERM "$job"
await "end of the stopped job" bash -c "[[ -z \$(squeue --noheader --job=$job) ]]"
(($(grep -c "training was stopped: steps=" "$log") == 2)) || fail "SIGTERM does not stop both ranks"
compgen -G "$folder/stopped/step-*/" >/dev/null || fail "the stopped job has not saved the model"
scontrol show job "$job" | grep -q "JobState=COMPLETED" || fail "the stopped job has failed"
! grep "srun: \|STEP .* CANCELLED\|while stopping" "$log" || fail "the stopped job prints errors"

log=$folder/job.log
job=$(cd "$folder" && SIMURGH_BIN=$bin sbatch --parsable --nodes=2 --output="$log" config/deploy/slurm/simurgh.sbatch \
  config/adult.yaml --set checkpoint.directory="$folder/model" --set checkpoint.every_steps=50 --set training.epochs=10)
await "checkpoint" grep -q "saved the model" "$log"
# The servers' step: all rows are lost.
step=$(squeue --steps --noheader --format="%i %j" --job="$job" | awk '$2 == "embedding-ps" { print $1 }')
[[ -n $step ]] || fail "no step of embedding-ps"
scancel --signal=KILL "$step"
await "end of the job" bash -c "[[ -z \$(squeue --noheader --job=$job) ]]"
grep -q "embedding-ps ended with code .*; it is started again" "$log" || fail "the step was not started again"
grep -q "^0: test_auc=0\.9[123]" "$log" || fail "training has no result in its band"
! sed '1,/test_auc=/d' "$log" | grep "srun: \|CANCELLED" || fail "the end prints errors"
[[ ! -e $folder/simurgh-$job.token ]] || fail "the token is left"
