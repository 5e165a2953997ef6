# The image that GoReleaser makes. The Dockerfile makes the same one of what scripts/release built.
FROM scratch
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/refrun /refrun
WORKDIR /work
ENTRYPOINT ["/refrun"]
