# syntax=docker/dockerfile:1

# One Dockerfile for every image of ours, for people who have Docker: `docker buildx bake`. The project itself builds
# its images with tools/image, without Docker. A test in tools/image compares services, platforms and files of the two;
# this path is compared, not run, by our own tests.

ARG SERVICE

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG SERVICE
ARG MODULE=.
ARG PACKAGE=./cmd/${SERVICE}
ARG VERSION=dev
ARG COMMIT=unknown
ARG DATE=1970-01-01T00:00:00Z
ARG TARGETOS
ARG TARGETARCH
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    cd ${MODULE} && CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -buildvcs=false -tags grpcnotrace,nomsgpack \
    -ldflags "-s -w -X main.version=${VERSION} -X main.commit=${COMMIT} -X main.date=${DATE}" \
    -o /out/${SERVICE} ${PACKAGE}

FROM scratch AS base
ARG SERVICE
ARG VERSION=dev
ARG COMMIT=unknown
ARG DATE=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title=${SERVICE} \
      org.opencontainers.image.version=${VERSION} \
      org.opencontainers.image.revision=${COMMIT} \
      org.opencontainers.image.created=${DATE} \
      org.opencontainers.image.licenses=Apache-2.0
COPY --chmod=0444 LICENSE /LICENSE
COPY --chmod=0555 --from=build /out/${SERVICE} /${SERVICE}
WORKDIR /
USER 65532:65532

# Docker expands no variable in an exec-form entry point, hence a stage for each service.
FROM base AS image-swarm-operator
ENTRYPOINT ["/swarm-operator"]

FROM base AS image-swarm-agent
ENTRYPOINT ["/swarm-agent"]

# The builder makes the second name a link; from scratch there is nothing that could, so here it is a copy.
FROM base AS image-swarm-worker
COPY --chmod=0555 --from=build /out/swarm-worker /bin/cat
ENTRYPOINT ["/swarm-worker"]

FROM base AS image-swarm-research
ENTRYPOINT ["/swarm-research"]

FROM base AS image-swarm-streams
ENTRYPOINT ["/swarm-streams"]

FROM base AS image-probe
ENTRYPOINT ["/probe"]

FROM image-${SERVICE}
