# An image of the released program alone: scripts/release dist && docker build -t refrun .
# (for another platform: --build-arg ARCH=arm64)
FROM scratch
ARG ARCH=amd64
COPY --chmod=755 dist/refrun_linux_${ARCH} /refrun
WORKDIR /work
ENTRYPOINT ["/refrun"]
