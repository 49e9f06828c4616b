# docker build -t usher:dev --build-arg VERSION=1.2.3 .
#
# A tag moves. For a build that can be repeated, ask the registry what it stands for, and pin that; nothing else comes from outside
# but the modules, which go.sum pins:
#
#   docker buildx imagetools inspect golang:1.26 --format '{{.Manifest.Digest}}'
#   docker build -t usher:dev --build-arg GO_IMAGE=golang:1.26@sha256:... .
ARG GO_IMAGE=golang:1.26
FROM --platform=$BUILDPLATFORM $GO_IMAGE AS build
WORKDIR /src
COPY . .
ARG VERSION=dev
ARG TARGETOS
ARG TARGETARCH
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/cache \
    GOCACHE=/cache CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/usher .
# Where `docker run usher:dev`, without a certificate directory, keeps a certificate of its own.
RUN mkdir /out/home

FROM scratch
COPY --from=build /out/usher /usher
COPY --from=build --chown=65532:65532 /out/home /home/usher
WORKDIR /home/usher
USER 65532:65532
EXPOSE 9443 8081
ENTRYPOINT ["/usher"]
CMD ["serve"]
