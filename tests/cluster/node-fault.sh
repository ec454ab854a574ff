#!/usr/bin/env bash
# Loses a node, or brings it back: node-fault.sh stop|start I. Its kubelet is killed, and its containers with it, as
# by a power cut.
set -euo pipefail
cd "$(dirname "$0")"
. ./environment.sh
. ./processes.sh
. ./node.sh
node_of "$2"
case "$1" in
  stop)
    kill -9 "$(pid_of "kubelet$2")"
    containers() { ctr -a "$folder/containerd.sock" -n k8s.io "$@"; }
    for task in $(containers tasks ls -q); do containers tasks kill -s 9 "$task" >/dev/null 2>&1 || true; done
    ;;
  start) start_kubelet "$2" ;;
esac
