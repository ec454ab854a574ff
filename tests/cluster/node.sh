# Sourced: node_up I starts a node: containerd, kubelet, kube-proxy and a bridge network. node0 lives in the cluster's
# own network namespace; node1 and later have one each, joined to it by a veth pair.

node_network() {
  local i=$1 name=$cluster_name-$1
  ip netns add "$name"
  $inside ip link add "veth$i" type veth peer name eth0 netns "$name"
  $inside ip link set "veth$i" master node0
  $inside ip link set "veth$i" up
  $inside ip route add "10.244.$i.0/24" via "$address"
  $network ip link set lo up
  $network ip addr add "$address/24" dev eth0
  $network ip link set eth0 up
  $network ip route add default via $server_address
  $network sysctl -qw net.ipv4.ip_forward=1
}

# A cgroup for the node's pods, with cgroup v1 in every hierarchy.
node_cgroups() {
  local hierarchy
  for hierarchy in /sys/fs/cgroup/*/ /sys/fs/cgroup/; do
    [ ! -e "$hierarchy/cgroup.procs" ] || mkdir -p "$hierarchy/$cluster_name-$node"
  done
  if [ -e /sys/fs/cgroup/cpuset/cpuset.cpus ]; then
    local group=/sys/fs/cgroup/cpuset/$cluster_name-$node
    cat /sys/fs/cgroup/cpuset/cpuset.cpus >"$group/cpuset.cpus"
    cat /sys/fs/cgroup/cpuset/cpuset.mems >"$group/cpuset.mems"
  fi
}

# restrict_oom_score_adj: without CAP_SYS_RESOURCE a negative oom_score_adj fails.
containerd_files() {
  cat >"$folder/containerd.toml" <<EOF
version = 2
root = "$folder/containerd"
state = "$folder/containerd-state"
[grpc]
  address = "$folder/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$folder/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$folder/cni"
EOF
  cat >"$folder/cni/10-pods.conflist" <<EOF
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "$folder/ipam", "ranges": [[{"subnet": "10.244.$1.0/24"}]],
            "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
EOF
}

kubelet_files() {
  cat >"$folder/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /$cluster_name-$node
containerRuntimeEndpoint: unix://$folder/containerd.sock
podLogsDir: $folder/pod-logs
resolvConf: $state/resolv.conf
clusterDomain: cluster.local
clusterDNS: ["$server_address"]
address: $address
tlsCertFile: $state/pki/kubelet$1.crt
tlsPrivateKeyFile: $state/pki/kubelet$1.key
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $state/pki/ca.crt}}
authorization: {mode: Webhook}
failSwapOn: false
oomScoreAdj: 0
syncFrequency: 10s
nodeStatusUpdateFrequency: 2s
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
serializeImagePulls: false
maxPods: 200
EOF
  cat >"$folder/kube-proxy.yaml" <<EOF
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $state/pki/proxy.kubeconfig}
mode: iptables
clusterCIDR: $pod_network
hostnameOverride: $node
oomScoreAdj: 0
bindAddress: $address
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
EOF
}

start_kubelet() {
  start "kubelet$1" "$cluster_bin/cluster" kubelet --config "$folder/kubelet.yaml" --root-dir "$folder/kubelet" \
    --kubeconfig "$state/pki/kubelet$1.kubeconfig" --hostname-override "$node" --node-ip "$address"
}

# node_of I: sets what the functions above use.
node_of() {
  node=node$1
  folder=$state/$node
  address=10.200.0.$(($1 + 1))
  network=$inside
  [ "$1" = 0 ] || network="nsenter --net=/run/netns/$cluster_name-$1"
}

node_up() {
  local node folder address network image
  node_of "$1"
  mkdir -p "$folder/cni"
  [ "$1" = 0 ] || node_network "$1"
  node_cgroups
  (
    cd "$state/pki"
    certificate "kubelet$1" ca "/O=system:nodes/CN=system:node:$node" "DNS:$node,IP:$address,IP:127.0.0.1"
    kubeconfig "kubelet$1"
  )
  containerd_files "$1"
  kubelet_files "$1"
  start "containerd$1" containerd -c "$folder/containerd.toml"
  await 30 "containerd of $node" ctr -a "$folder/containerd.sock" version
  for image in "$cluster_images"/*.tar; do
    ctr -a "$folder/containerd.sock" -n k8s.io images import "$image" >/dev/null
  done
  start_kubelet "$1"
  start "kube-proxy$1" "$cluster_bin/cluster" kube-proxy --config "$folder/kube-proxy.yaml"
}
