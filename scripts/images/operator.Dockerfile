# The operator, the coordinator and the CLI: three programs and their libraries, no shell, not root.
#
#   docker build -f scripts/images/operator.Dockerfile -t muster-operator .
#
# BINARIES=prebuilt takes what scripts/images/stage collected under build/images instead of compiling.
ARG BINARIES=compiled
ARG BASE=debian:12-slim

FROM ${BASE} AS compiled
WORKDIR /src
COPY . .
RUN MUSTER_TORCH=none scripts/bootstrap \
 && . scripts/compiler.sh && cmake --preset release -DMUSTER_TORCH=OFF -DMUSTER_TESTS=OFF \
 && cmake --build build/release --target muster muster-coordinator muster-operator \
 && scripts/images/stage build/release/bin /rootfs muster muster-coordinator muster-operator

FROM scratch AS prebuilt
COPY build/images/operator/ /rootfs/

FROM ${BINARIES} AS binaries

FROM scratch
COPY --from=binaries /rootfs/ /
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/muster-operator"]
