# What tools/image builds without Docker, for people with Docker: `docker buildx bake [service]`.
# Compared with tools/image (services, platforms, files) by its tests, not run by them.

variable "VERSION" {
  default = "dev"
}

variable "COMMIT" {
  default = "unknown"
}

variable "DATE" {
  default = "1970-01-01T00:00:00Z"
}

group "default" {
  targets = ["swarm-operator", "swarm-agent", "swarm-worker", "swarm-research", "swarm-streams", "probe"]
}

target "service" {
  dockerfile = "Dockerfile"
  platforms  = ["linux/amd64", "linux/arm64"]
  args = {
    VERSION = VERSION
    COMMIT  = COMMIT
    DATE    = DATE
  }
}

target "swarm-operator" {
  inherits = ["service"]
  tags     = ["localhost/swarm-operator:${VERSION}"]
  args = {
    SERVICE = "swarm-operator"
    MODULE  = "."
    PACKAGE = "./cmd/swarm-operator"
  }
}

target "swarm-agent" {
  inherits = ["service"]
  tags     = ["localhost/swarm-agent:${VERSION}"]
  args = {
    SERVICE = "swarm-agent"
    MODULE  = "."
    PACKAGE = "./cmd/swarm-agent"
  }
}

target "swarm-worker" {
  inherits = ["service"]
  tags     = ["localhost/swarm-worker:${VERSION}"]
  args = {
    SERVICE = "swarm-worker"
    MODULE  = "."
    PACKAGE = "./cmd/swarm-worker"
  }
}

target "swarm-research" {
  inherits = ["service"]
  tags     = ["localhost/swarm-research:${VERSION}"]
  args = {
    SERVICE = "swarm-research"
    MODULE  = "."
    PACKAGE = "./examples/research"
  }
}

target "swarm-streams" {
  inherits = ["service"]
  tags     = ["localhost/swarm-streams:${VERSION}"]
  args = {
    SERVICE = "swarm-streams"
    MODULE  = "."
    PACKAGE = "./examples/streams"
  }
}

target "probe" {
  inherits = ["service"]
  tags     = ["localhost/probe:${VERSION}"]
  args = {
    SERVICE = "probe"
    MODULE  = "."
    PACKAGE = "./test/cmd/probe"
  }
}
