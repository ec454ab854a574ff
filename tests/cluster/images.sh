#!/usr/bin/env bash
# Two images that need no registry: the pause container that holds each pod's namespaces, and a busybox for pods of tests.
set -euo pipefail
cd "$(dirname "$0")"
. ./environment.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# image_of NAME:TAG ROOTFS OUT.tar ENTRYPOINT-JSON: a docker archive of one layer.
image_of() {
  tar -C "$2" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$work/layer.tar" .
  jq -n --argjson entrypoint "$4" --arg digest "sha256:$(sha256sum "$work/layer.tar" | cut -d' ' -f1)" '{
    architecture: "amd64", os: "linux", created: "1970-01-01T00:00:00Z",
    config: {Env: ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"], Entrypoint: $entrypoint},
    rootfs: {type: "layers", diff_ids: [$digest]}}' >"$work/config.json"
  jq -n --arg name "$1" '[{Config: "config.json", RepoTags: [$name], Layers: ["layer.tar"]}]' >"$work/manifest.json"
  tar -C "$work" -cf "$3" manifest.json config.json layer.tar
}

mkdir -p "$work/pause"
cc -Os -static -s -o "$work/pause/pause" pause.c
image_of localhost/pause:1 "$work/pause" "$cluster_images/pause.tar" '["/pause"]'

root=$work/busybox
mkdir -p "$root"/{bin,tmp,etc,root,proc,sys,dev}
cp /bin/busybox "$root/bin/"
for applet in $(/bin/busybox --list); do
  [ "$applet" = busybox ] || ln -sf busybox "$root/bin/$applet"
done
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
image_of localhost/busybox:1 "$root" "$cluster_images/busybox.tar" null
