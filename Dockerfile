# docker build -t usher:dev --build-arg VERSION=1.2.3 .
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
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
