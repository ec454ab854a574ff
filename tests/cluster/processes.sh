# Sourced: starting, awaiting and stopping the cluster's processes. Their pids are kept in $state/pids.

# start NAME COMMAND...: detached, in the namespace that $network names.
start() {
  local name=$1
  shift
  setsid ${network:-$inside} "$@" >"$state/log/$name.log" 2>&1 </dev/null &
  echo "$name $!" >>"$state/pids"
}

# await SECONDS WHAT COMMAND...: until the command succeeds.
await() {
  local seconds=$1 what=$2 i
  shift 2
  for ((i = 0; i < seconds * 5; i++)); do
    "$@" >/dev/null 2>&1 && return 0
    sleep 0.2
  done
  echo "cluster: $what did not come up within $seconds s; see $state/log" >&2
  return 1
}

pid_of() { sed -n "s/^$1 //p" "$state/pids" | tail -n 1; }
names_of() { sed -n "s/^\($1[0-9]*\) .*/\1/p" "$state/pids" | sort -u; }

# A killed process can stay a zombie for seconds where process 1 is slow: it counts as gone.
gone() { [ ! -d "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }

# stop NAME...: TERM to all, KILL to those that stay longer than 5 s.
stop() {
  local name pid pids=()
  for name in "$@"; do
    pid=$(pid_of "$name")
    [ -n "$pid" ] || continue
    pids+=("$pid")
    kill "$pid" 2>/dev/null || true
  done
  for pid in "${pids[@]}"; do
    for ((i = 0; i < 50; i++)); do
      gone "$pid" && continue 2
      sleep 0.1
    done
    kill -9 "$pid" 2>/dev/null || true
  done
}
