# The trainer with LibTorch, and the examples; no shell, not root.
#
#   docker build -f scripts/images/trainer.Dockerfile -t muster-trainer .
#
# BINARIES=prebuilt takes what scripts/images/stage collected under build/images instead of compiling.
ARG BINARIES=compiled
ARG BASE=debian:12-slim

FROM ${BASE} AS compiled
WORKDIR /src
COPY . .
RUN scripts/bootstrap \
 && . scripts/compiler.sh && cmake --preset release -DMUSTER_TESTS=OFF \
 && cmake --build build/release --target muster-trainer \
 && scripts/images/stage build/release/bin /rootfs muster-trainer \
 && mkdir -p /rootfs/usr/share/muster && cp -r examples /rootfs/usr/share/muster/

FROM scratch AS prebuilt
COPY build/images/trainer/ /rootfs/

FROM ${BINARIES} AS binaries

FROM scratch
COPY --from=binaries /rootfs/ /
USER 65532:65532
# So that examples/*.yaml, whose paths are relative, train in a pod as they are.
WORKDIR /usr/share/muster/examples
ENTRYPOINT ["/usr/local/bin/muster-trainer"]
