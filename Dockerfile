# docker build -t usher:dev --build-arg VERSION=1.2.3 --build-arg COMMIT=$(git rev-parse HEAD) .
# docker build -t usherctl:dev --build-arg VERSION=1.2.3 --target usherctl .
#
# A tag moves. For a build that can be repeated, ask the registry what it stands for, and pin that; nothing else comes from outside
# but the modules, which go.sum pins:
#
#   docker buildx imagetools inspect golang:1.26 --format '{{.Manifest.Digest}}'
#   docker build -t usher:dev --build-arg GO_IMAGE=golang:1.26@sha256:... .
ARG GO_IMAGE=golang:1.26
FROM --platform=$BUILDPLATFORM $GO_IMAGE AS source
WORKDIR /src
COPY . .
RUN mkdir -p /out/home
ARG VERSION=dev
ARG COMMIT
ARG TARGETOS
ARG TARGETARCH

FROM source AS build-usherctl
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/cache \
    GOCACHE=/cache CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -C usherctl -trimpath -ldflags "-s -w -X main.version=$VERSION -X usher.dev/usher/internal/cli.commit=$COMMIT" -o /out/usherctl .

FROM source AS build-usher
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/cache \
    GOCACHE=/cache CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION -X usher.dev/usher/internal/cli.commit=$COMMIT" -o /out/usher .

FROM scratch AS base
# Where `docker run usher:dev`, without a certificate directory, keeps a certificate of its own.
COPY --from=source --chown=65532:65532 /out/home /home/usher
WORKDIR /home/usher
USER 65532:65532

# For a pod that runs the doctor: docs/doctor.md.
FROM base AS usherctl
COPY --from=build-usherctl /out/usherctl /usherctl
ENTRYPOINT ["/usherctl"]

FROM base AS usher
COPY --from=build-usher /out/usher /usher
EXPOSE 9443 8081
ENTRYPOINT ["/usher"]
CMD ["serve"]
