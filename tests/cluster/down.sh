#!/usr/bin/env bash
# Stops what up.sh started, by its pids, and removes its state.
set -uo pipefail
cd "$(dirname "$0")"
. ./environment.sh
. ./processes.sh
[ -e "$state/pids" ] || { echo "cluster: $cluster_name is not up"; exit 0; }

stop $(names_of kubelet) $(names_of kube-proxy) kube-scheduler kube-controller-manager coredns
for socket in "$state"/node*/containerd.sock; do
  [ -S "$socket" ] || continue
  containers() { timeout 10 ctr -a "$socket" -n k8s.io "$@"; }
  for task in $(containers tasks ls -q 2>/dev/null); do containers tasks kill -s 9 "$task" >/dev/null 2>&1; done
  for task in $(containers tasks ls -q 2>/dev/null); do containers tasks rm -f "$task" >/dev/null 2>&1; done
  for one in $(containers containers ls -q 2>/dev/null); do containers containers rm "$one" >/dev/null 2>&1; done
done
# The API server before etcd: without etcd it ignores TERM for minutes.
stop kube-apiserver
stop etcd $(names_of containerd)

grep " $state/" /proc/self/mountinfo | awk '{print $5}' | sort -r | while read -r mount; do
  umount -l "$mount" 2>/dev/null
done
for name in $(ip netns | awk '{print $1}' | grep -x -E "$cluster_name(-[0-9]+)?"); do ip netns del "$name"; done
for group in /sys/fs/cgroup/*/"$cluster_name"-node* /sys/fs/cgroup/"$cluster_name"-node*; do
  [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null
done
[ ! -s "$state/sysctl.saved" ] || sysctl -qp "$state/sysctl.saved" 2>/dev/null
find /var/log/containers -type l -lname "$state/*" -delete 2>/dev/null
if [ -n "${MUSTER_KEEP_LOGS:-}" ]; then
  rm -rf "$MUSTER_KEEP_LOGS"
  cp -r "$state/log" "$MUSTER_KEEP_LOGS"
fi
rm -rf --one-file-system "$state"
