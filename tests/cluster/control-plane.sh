# Sourced: etcd, the API server, the controllers, the scheduler and the DNS, as processes of the first node.

# The audit log holds what ServiceAccounts of muster's namespaces asked for: tests count an operator's requests in it.
audit_policy() {
  cat >"$state/audit-policy.yaml" <<EOF
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts:muster-system", "system:serviceaccounts:muster-team"]
  - level: None
EOF
}

start_api_server() {
  local keys=$state/pki
  audit_policy
  start kube-apiserver "$cluster_bin/cluster" kube-apiserver --etcd-servers http://127.0.0.1:2379 \
    --advertise-address $server_address --bind-address 0.0.0.0 --secure-port 6443 \
    --tls-cert-file "$keys/apiserver.crt" --tls-private-key-file "$keys/apiserver.key" \
    --client-ca-file "$keys/ca.crt" --authorization-mode Node,RBAC \
    --enable-admission-plugins NodeRestriction --allow-privileged \
    --service-cluster-ip-range $service_network \
    --service-account-issuer https://kubernetes.default.svc.cluster.local \
    --service-account-signing-key-file "$keys/accounts.key" --service-account-key-file "$keys/accounts.pub" \
    --kubelet-client-certificate "$keys/apiserver-kubelet.crt" \
    --kubelet-client-key "$keys/apiserver-kubelet.key" --kubelet-certificate-authority "$keys/ca.crt" \
    --kubelet-preferred-address-types InternalIP \
    --requestheader-client-ca-file "$keys/front-ca.crt" --requestheader-allowed-names front-proxy-client \
    --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
    --requestheader-extra-headers-prefix X-Remote-Extra- \
    --proxy-client-cert-file "$keys/front.crt" --proxy-client-key-file "$keys/front.key" \
    --audit-policy-file "$state/audit-policy.yaml" --audit-log-path "$state/audit.log" \
    --enable-aggregator-routing ${MUSTER_APISERVER_FLAGS:-}
  await 60 "the API server" $kubectl get --raw /readyz
}

# A killed kubelet is noticed after 10 s, not 50. Without the request limits the default ServiceAccount comes 6 s late.
start_controllers() {
  local keys=$state/pki
  start kube-controller-manager "$cluster_bin/cluster" kube-controller-manager \
    --kubeconfig "$keys/controllers.kubeconfig" --authentication-kubeconfig "$keys/controllers.kubeconfig" \
    --authorization-kubeconfig "$keys/controllers.kubeconfig" --bind-address 127.0.0.1 --leader-elect=false \
    --use-service-account-credentials --service-account-private-key-file "$keys/accounts.key" \
    --root-ca-file "$keys/ca.crt" --cluster-signing-cert-file "$keys/ca.crt" \
    --cluster-signing-key-file "$keys/ca.key" --kube-api-qps 300 --kube-api-burst 600 \
    --horizontal-pod-autoscaler-sync-period 5s --node-monitor-grace-period=10s --node-monitor-period=1s
  start kube-scheduler "$cluster_bin/cluster" kube-scheduler --kubeconfig "$keys/scheduler.kubeconfig" \
    --authentication-kubeconfig "$keys/scheduler.kubeconfig" \
    --authorization-kubeconfig "$keys/scheduler.kubeconfig" --bind-address 127.0.0.1 --leader-elect=false \
    --kube-api-qps 300 --kube-api-burst 600
}

start_dns() {
  $kubectl apply -f - >/dev/null <<EOF
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: cluster-dns}
rules:
  - apiGroups: ["", discovery.k8s.io]
    resources: [services, namespaces, pods, endpointslices]
    verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: cluster-dns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-dns}
subjects: [{kind: User, name: cluster-dns, apiGroup: rbac.authorization.k8s.io}]
EOF
  cat >"$state/Corefile" <<EOF
.:53 {
    bind $server_address
    errors
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa {
        kubeconfig $state/pki/dns.kubeconfig cluster
        ttl 1
    }
}
EOF
  start coredns "$cluster_bin/coredns" -conf "$state/Corefile"
}

start_control_plane() {
  start etcd "$cluster_bin/cluster" etcd --data-dir "$state/etcd" --log-level warn --unsafe-no-fsync \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380
  start_api_server
  start_controllers
  start_dns
}
