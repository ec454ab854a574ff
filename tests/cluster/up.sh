#!/usr/bin/env bash
# Starts the cluster in network namespaces of its own: up.sh [NODES]
set -euo pipefail
cd "$(dirname "$0")"
. ./environment.sh
. ./processes.sh
. ./certificates.sh
. ./control-plane.sh
. ./node.sh
nodes=${1:-1}

[ ! -e "$state/pids" ] || { echo "cluster: $cluster_name is up already; scripts/cluster down ends it" >&2; exit 1; }
mkdir -p "$state"/{pki,log}
: >"$state/pids"
: >"$state/resolv.conf" # pods ask the cluster's DNS and no other

ip netns add "$cluster_name"
$inside ip link set lo up
$inside ip link add node0 type bridge # stands for the node's network card
$inside ip addr add $server_address/24 dev node0
$inside ip link set node0 up
$inside ip route add $service_network dev node0 # so that what node0 sends to a Service reaches the NAT rules
$inside sysctl -qw net.ipv4.ip_forward=1
# What the kubelet changes for the whole machine: down.sh puts it back.
sysctl vm.overcommit_memory kernel.panic kernel.panic_on_oops kernel.keys.root_maxkeys \
  kernel.keys.root_maxbytes 2>/dev/null >"$state/sysctl.saved" || true

(cd "$state/pki" && all_certificates)
ln -sf pki/admin.kubeconfig "$state/admin.kubeconfig"
start_control_plane
for ((i = 0; i < nodes; i++)); do node_up "$i"; done
for ((i = 0; i < nodes; i++)); do
  await 60 "node$i" $kubectl wait --for=condition=Ready "node/node$i" --timeout=1s
done
await 30 "the default service account" $kubectl get serviceaccount default
await 30 CoreDNS $inside curl -sf http://127.0.0.1:8181/ready
