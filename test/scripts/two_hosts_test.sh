#!/usr/bin/env bash
# One job on two hosts: network namespaces, joined by a virtual cable, each with its own host name, processes and System
# V memory, so that nothing but TCP leads from one to the other. Needs root; where that is not allowed the test is
# skipped.
#   two_hosts_test.sh MPIRUN OPERATIONS_JOB GUPS FAILURE_JOB
set -euo pipefail
mpirun=$1 operations_job=$2 gups=$3 failure_job=$4

skip() {
  echo "SKIPPED: $*"
  exit 77
}
[ -n "$mpirun" ] || skip "no Open MPI, which starts the processes of both hosts"
for program in ip unshare; do command -v $program >/dev/null || skip "$program is not installed"; done

a=gravel-$$-a b=gravel-$$-b
work=$(mktemp -d)
# In every case the namespaces and all processes in them are removed.
clean_up() {
  set +e  # a process that is gone already must not keep the rest
  local space
  for space in $a $b; do
    ip netns pids $space 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns del $space 2>/dev/null
  done
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

hosts() {
  ip netns add $a && ip netns add $b &&
    ip link add eth0 netns $a type veth peer name eth0 netns $b &&
    ip -n $a addr add 10.213.7.1/24 dev eth0 && ip -n $b addr add 10.213.7.2/24 dev eth0 &&
    ip -n $a link set lo up && ip -n $b link set lo up && ip -n $a link set eth0 up && ip -n $b link set eth0 up &&
    ip netns exec $a unshare --uts --ipc --pid --fork --mount-proc --kill-child true
}
hosts 2>"$work/why" || skip "network namespaces are not allowed here: $(head -1 "$work/why")"

# The cable takes a moment to carry anything.
for space in $a $b; do
  for _ in $(seq 200); do
    ip -n $space link show eth0 | grep -q "state UP" && break
    sleep 0.05
  done
done

# on HOST COMMAND: as if logged in there.
cat >"$work/on" <<'TEXT'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts --ipc --pid --fork --mount-proc --kill-child \
  sh -c 'echo "$0" >/proc/sys/kernel/hostname && exec sh -c "$*"' "$host" "$@"
TEXT
# mpirun calls this instead of ssh: HOST COMMAND. There is one other host.
printf '#!/bin/sh\nshift\nexec %s/on %s "$@"\n' "$work" $b >"$work/login"
chmod +x "$work/on" "$work/login"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_plm_ssh_agent=$work/login
# In a folder of its own: the launcher names its files by its process number, which in namespaces is the same each time.
run() {
  TMPDIR=$(mktemp -d "$work/XXXX") "$work/on" $a "$mpirun" --mca plm_rsh_agent "$work/login" \
    --mca oob_tcp_if_include eth0 --oversubscribe --bind-to none \
    --host 10.213.7.1:2,10.213.7.2:2 -n 4 -x UCX_TLS=tcp -x UCX_NET_DEVICES=eth0 -x GRAVEL_STATS=1 "$@" </dev/null
}
# Bytes that have gone through the cable, both ways.
carried() {
  ip netns exec $a sh -c 'cat /sys/class/net/eth0/statistics/tx_bytes /sys/class/net/eth0/statistics/rx_bytes' |
    { read -r out && read -r in && echo $((out + in)); }
}
fail() {
  echo "FAILED: $*"
  exit 1
}

for job in "$operations_job" "$gups --table-log2 16 --sender block" \
  "$gups --table-log2 16 --sender direct --mode inc"; do
  echo "== $job"
  before=$(carried)
  # shellcheck disable=SC2086
  run $job >"$work/output" 2>&1 || { cat "$work/output"; fail "$job"; }
  cat "$work/output"
  grep -q "statistics: 4 PEs on 2 nodes" "$work/output" || fail "the job does not see two nodes"
  messages=$(sed -nE 's/^ *off-node messages +([0-9]+)$/\1/p' "$work/output")
  bytes=$(($(carried) - before))
  echo "$messages messages went to the other node, $bytes bytes through the cable"
  # A message has 4 bytes at least.
  [ "$messages" -gt 0 ] && [ $bytes -ge $((4 * messages)) ] || fail "the messages took another way"
done

in_host() {
  ip netns pids "$1" | while read -r pid; do [ "$(cat /proc/$pid/comm)" != "$2" ] || echo $pid; done 2>/dev/null
}
processes() { for space in $a $b; do in_host $space gravel-aggregat; in_host $space failure_job-cpu; done; }
end_all() { for space in $a $b; do ip netns pids $space | xargs -r kill -9 2>/dev/null || true; done; }

# fails FAULT CAUSE COMMAND...: what the command does to a job (failure_job's traffic, stream or idle) ends all its
# processes, with the cause on stderr. (The launcher's daemons have their own ideas of when a host is lost; here they
# are ended behind each job.)
fails() {
  local fault=$1 cause=$2
  shift 2
  echo "== $fault: $*"
  run -x GRAVEL_WATCHDOG_S=3 "$failure_job" --fault "$fault" >"$work/output" 2>&1 &
  local launcher=$!
  for _ in $(seq 600); do
    [ "$(grep -c ready "$work/output")" -lt 4 ] || break
    sleep 0.05
  done
  [ "$(grep -c ready "$work/output")" -ge 4 ] || { cat "$work/output"; fail "the job has not started after 30 s"; }
  "$@"
  for _ in $(seq 130); do
    # mpirun may be the one that says it, after the processes are gone.
    [ -n "$(processes)" ] || ! grep -Eq "$cause" "$work/output" || break
    sleep 0.1
  done
  cat "$work/output"
  [ -z "$(processes)" ] || fail "processes are left after 13 s"
  grep -Eq "$cause" "$work/output" || fail "no word of: $cause"
  end_all
  wait $launcher 2>/dev/null || true
}
kill_aggregator() { kill -9 $(in_host $b gravel-aggregat); }
kill_pe() { kill -9 $(in_host $b failure_job-cpu | head -1); }
cut_cable() { ip -n $a link set eth0 down; }
mend_cable() { ip -n $a link set eth0 up && sleep 1; }
fails traffic "aggregator of node 1 .* was killed by signal 9|lost the aggregator of node 1" kill_aggregator
# (The launcher decides which PEs are on that host.)
fails traffic "PE [0-3] .*ended without gravel_finalize|exited on signal 9" kill_pe
# TCP tries for minutes to send what is in flight; the watchdog is faster. In `traffic` the cut may fall into a barrier,
# when nothing is in flight but the barrier itself: then it is the pulses that stay away, as in `idle`.
fails stream "no progress for 3 s" cut_cable
mend_cable
fails traffic "no progress for 3 s|nothing has come from node [01] for 6 s" cut_cable
mend_cable
fails idle "nothing has come from node [01] for 6 s" cut_cable
echo "all is well"
