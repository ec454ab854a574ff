#!/usr/bin/env bash
# Builds the programs of the test cluster into .deps/cluster: Kubernetes, CoreDNS, Helm, helm-unittest, and two small
# images. Everything is a Go module or a Debian package. Cold: about five minutes on two cores; again: nothing.
set -euo pipefail
cd "$(dirname "$0")"
. ./environment.sh

stamp=$(cat build.sh kubernetes/go.mod kubernetes/*.go kubernetes/coredns/*.go helm-unittest/go.mod | sha256sum)
[ "$(cat "$cluster_deps/stamp" 2>/dev/null)" = "$stamp" ] && exit 0

export CGO_ENABLED=0 GOFLAGS="-buildvcs=false -trimpath"
[ ! -d "$cluster_deps/../go" ] || PATH=$(cd "$cluster_deps/../go/bin" && pwd):$PATH
small=(-gcflags=all=-dwarf=false)
version=$(sed -n 's#^\tk8s.io/kubernetes \(v[0-9.]*\).*#\1#p' kubernetes/go.mod)
minor=${version#v1.}
base=k8s.io/component-base/version
mkdir -p "$cluster_bin" "$cluster_images"

echo "building Kubernetes $version"
(
  cd kubernetes
  go build "${small[@]}" -o "$cluster_bin/cluster" -ldflags "-s -w -X $base.gitVersion=$version \
    -X $base.gitMajor=1 -X $base.gitMinor=${minor%%.*} -X $base.gitTreeState=clean" .
  echo "building CoreDNS and Helm"
  go build "${small[@]}" -ldflags "-s -w" -o "$cluster_bin/coredns" ./coredns
  go build "${small[@]}" -ldflags "-s -w" -o "$cluster_bin/helm" helm.sh/helm/v4/cmd/helm
)
echo "building helm-unittest"
(cd helm-unittest && go build "${small[@]}" -ldflags "-s -w" -o "$cluster_bin/helm-unittest" \
  github.com/helm-unittest/helm-unittest/cmd/helm-unittest)
./images.sh
echo "$stamp" >"$cluster_deps/stamp"
