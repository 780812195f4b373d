# The image of metal3-apiserver: one static program, the certificates of the
# public authorities and a user who is not root. There is no shell and nothing
# else, and nothing that it writes to: the root file system can be read-only.
#
#   docker build --build-arg VERSION=v0.1.0 -t metal3-apiserver:v0.1.0 .
#
# BASE_IMAGE may name a distroless "static" image, where images have to come from
# a base that is scanned and kept up to date; the default is empty.
ARG GO_IMAGE=golang:1.26
ARG BASE_IMAGE=scratch

FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
# Modules change less often than the rest.
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY pkg pkg
ARG VERSION=devel
ARG TARGETOS
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X github.com/metal3-io/metal3-apiserver/cmd/metal3-apiserver/app.Version=${VERSION}" \
    -o /metal3-apiserver ./cmd/metal3-apiserver

FROM ${BASE_IMAGE}
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /metal3-apiserver /metal3-apiserver
# A number, by which the kubelet can tell that it is not root.
USER 65532:65532
EXPOSE 6443
ENTRYPOINT ["/metal3-apiserver"]
