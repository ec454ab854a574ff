# Sourced: the cluster's certificates and kubeconfigs, in $state/pki.

authority() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
    -keyout "$1.key" -out "$1.crt" -subj "/CN=$1" 2>/dev/null
}

# certificate NAME AUTHORITY SUBJECT [ALTERNATIVE NAMES]
certificate() {
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.csr" \
    -subj "$3" 2>/dev/null
  openssl x509 -req -in "$1.csr" -CA "$2.crt" -CAkey "$2.key" -CAcreateserial -days 30 -out "$1.crt" \
    -extfile <(echo "extendedKeyUsage=clientAuth,serverAuth"
      [ -z "${4:-}" ] || echo "subjectAltName=$4") 2>/dev/null
}

# kubeconfig NAME: of the certificate of that name.
kubeconfig() {
  cat >"$1.kubeconfig" <<EOF
{"apiVersion": "v1", "kind": "Config", "current-context": "cluster",
 "clusters": [{"name": "cluster", "cluster": {"server": "https://$server_address:6443",
   "certificate-authority-data": "$(base64 -w0 ca.crt)"}}],
 "users": [{"name": "user", "user": {"client-certificate-data": "$(base64 -w0 "$1.crt")",
   "client-key-data": "$(base64 -w0 "$1.key")"}}],
 "contexts": [{"name": "cluster", "context": {"cluster": "cluster", "user": "user"}}]}
EOF
}

# client NAME SUBJECT: a certificate and a kubeconfig.
client() {
  certificate "$1" ca "$2"
  kubeconfig "$1"
}

all_certificates() {
  local names="DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
  names+=",DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:$server_address,IP:$service_of_api"
  authority ca
  authority front-ca
  certificate apiserver ca /CN=kube-apiserver "$names"
  certificate apiserver-kubelet ca /O=system:masters/CN=apiserver-kubelet-client
  certificate front front-ca /CN=front-proxy-client
  client admin /O=system:masters/CN=admin
  client controllers /CN=system:kube-controller-manager
  client scheduler /CN=system:kube-scheduler
  client proxy /CN=system:kube-proxy
  client dns /CN=cluster-dns
  openssl ecparam -name prime256v1 -genkey -noout -out accounts.key
  openssl ec -in accounts.key -pubout -out accounts.pub 2>/dev/null
}
