# Sourced by the other scripts here. One machine can hold several clusters: each has its own MUSTER_CLUSTER (a name).
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cluster_deps=$(cd "$here/../.." && pwd)/.deps/cluster
cluster_bin=$cluster_deps/bin
cluster_images=$cluster_deps/images
cluster_name=${MUSTER_CLUSTER:-muster}       # also the name of the network namespace that holds it
state=/tmp/$cluster_name-cluster             # short: a path of a Unix socket has 107 characters at most
server_address=10.200.0.1                    # node0, node1, ... are 10.200.0.1, .2, ...
service_network=10.96.0.0/16
service_of_api=10.96.0.1
pod_network=10.244.0.0/16                    # node i has 10.244.i.0/24
inside="nsenter --net=/run/netns/$cluster_name"  # "ip netns exec" would hide /sys/fs/cgroup
kubectl="$inside $cluster_bin/cluster kubectl --kubeconfig $state/admin.kubeconfig"
