# The image of metal3-apiserver: one statically linked program, the certificates of the
# public certificate authorities, and a user that is not root. It contains no shell and
# nothing else. The program does not write to the root file system, which can be read-only.
#
#   docker build --build-arg VERSION=v0.1.0 -t metal3-apiserver:v0.1.0 .
#
# The default base image is empty. If your images must be based on one that is scanned and
# kept up to date, set BASE_IMAGE, for example to a distroless "static" image.
#
# The go command of GO_IMAGE downloads the release of Go that compiles the server, and verifies it with the checksum
# database. So a vulnerability of the standard library changes GO_TOOLCHAIN alone.
ARG GO_IMAGE=golang:1.26.9@sha256:f1f0bcc2c524a3ced375fcb4d1ecb7aa371aa7070e112599aaca45cc02d0101b
ARG BASE_IMAGE=scratch

FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
# The release in hack/toolchain.sh. The image sets GOTOOLCHAIN, and an ENV outranks an ARG of its name.
ARG GO_TOOLCHAIN=go1.26.10
ENV GOTOOLCHAIN=${GO_TOOLCHAIN}
# For a mirror of the Go modules, and of their checksums.
ARG GOPROXY
ARG GOSUMDB
# Download the modules in a layer of their own, because they change less often than the code.
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY pkg pkg
ARG VERSION=devel
ARG COMMIT=
ARG TARGETOS
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X github.com/metal3-io/metal3-apiserver/pkg/version.Version=${VERSION} -X github.com/metal3-io/metal3-apiserver/pkg/version.Commit=${COMMIT}" \
    -o /metal3-apiserver ./cmd/metal3-apiserver

FROM ${BASE_IMAGE}
ARG VERSION=devel
ARG COMMIT=
# hack/release builds the same image without a container engine; its test holds what follows equal.
LABEL org.opencontainers.image.title="metal3-apiserver"
LABEL org.opencontainers.image.description="Metal3's BareMetalHost as an aggregated Kubernetes API"
LABEL org.opencontainers.image.source="https://github.com/metal3-io/metal3-apiserver"
LABEL org.opencontainers.image.licenses="Apache-2.0"
LABEL org.opencontainers.image.version="${VERSION}"
LABEL org.opencontainers.image.revision="${COMMIT}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /metal3-apiserver /metal3-apiserver
# The user must be a number, so that the kubelet can verify that it is not root.
USER 65532:65532
EXPOSE 6443
ENTRYPOINT ["/metal3-apiserver"]
