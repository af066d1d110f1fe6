# Swarm Operator. `make help` lists the targets. Nothing is fetched but Go modules and Debian packages.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Everything is static; -trimpath also lets the devcluster command share compiled packages with the Kubernetes build.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false

# Findings are cached under absolute paths: a cache shared between clones reports lines of files that are gone.
export GOLANGCI_LINT_CACHE := $(CURDIR)/bin/lint-cache

VERSION ?= dev
COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
DATE ?= $(shell git log -1 --format=%cI 2>/dev/null || echo 1970-01-01T00:00:00Z)
# Without gRPC's trace pages no method is looked up by name, so that the linker drops methods that are never called: a quarter of the operator.
# The HTTP API does not use MessagePack.
TAGS = grpcnotrace,nomsgpack
STAMP = -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)
ARCH := $(shell go env GOARCH)
RESULTS := $(CURDIR)/bin/results
MODULES := $(patsubst %/,%,$(dir $(filter-out $(shell git ls-files '*/testdata/*/go.mod'),$(shell git ls-files 'go.mod' '*/go.mod'))))
# A module without Go files of ours, and devcluster, of which all but the packages that are Kubernetes itself are linted.
UNLINTED := tools/lint devcluster
CONTROLLER_GEN := go tool -modfile=tools/go.mod controller-gen

KUBECTL = bin/devcluster kubectl --kubeconfig=$(abspath $(KUBECONFIG))

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build every program into bin/ (the first time on a machine also Kubernetes: about 10 minutes)
	@echo "building the programs"
	@go build -tags $(TAGS) -ldflags "-s -w $(STAMP)" -o bin/ ./cmd/...
	@go -C devcluster build -ldflags "-s -w" -o ../bin/devcluster ./cmd/devcluster
	@bin/devcluster build --source devcluster

.PHONY: up
up: build host-tools ## Bring up a development cluster with one real node (NODES=2 for more)
	@bin/devcluster up --real-nodes $(or $(NODES),1)

.PHONY: down
down: ## Take the development cluster away again
	@bin/devcluster down

.PHONY: host-tools
host-tools: # Debian packages that a real node needs; nothing happens when they are there
	@command -v containerd runc nft >/dev/null && test -x /usr/lib/cni/bridge -o -x /opt/cni/bin/bridge || \
	  { test "$$(id -u)" = 0 || { echo "a real node needs root and: apt-get install -y containerd runc containernetworking-plugins nftables"; exit 1; }; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends containerd runc containernetworking-plugins nftables; }

.PHONY: race-tools
race-tools: # a C compiler, which programs need that find data races
	@command -v gcc >/dev/null || \
	  { test "$$(id -u)" = 0 || { echo "the race detector needs: apt-get install -y gcc libc6-dev"; exit 1; }; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev; }

# Runs suites that it finds below test/, on development clusters or on the one that is named on the command line; see tools/suites.
SUITES = go -C tools run ./suites --root $(CURDIR) --lanes $(or $(LANES),2) $(if $(filter command line,$(origin KUBECONFIG)),--kubeconfig $(abspath $(KUBECONFIG))) \
  $(if $(ONLY),--only $(ONLY)) $(if $(FOCUS),--focus "$(FOCUS)") $(if $(TIMEOUT),--timeout $(TIMEOUT))

.PHONY: check
check: build race-operator e2e-programs bin/gotestsum ## Run every test there is: unit, integration and e2e, several suites at a time (LANES=2)
	@$(SUITES) unit integration e2e

# The operator that suites kill: it reports its own data races.
.PHONY: race-operator
race-operator: race-tools
	@CGO_ENABLED=1 go build -race -o bin/race/ ./cmd/swarm-operator

.PHONY: test
test: bin/gotestsum ## Run the unit tests of all modules
	@$(SUITES) unit

.PHONY: integration
integration: build race-operator ## Run the suites that need an API server (KUBECONFIG=... for one of your own, ONLY=integration/pool for one suite)
	@$(SUITES) integration

.PHONY: e2e
e2e: build e2e-programs ## Run the suites that need real nodes, and those of the development cluster itself
	@$(SUITES) e2e

.PHONY: model
model: ## Search the models of the protocols (STATES=100000 in each scenario, DEPTH=..., WITHOUT=a rule; docs/explanation/model.md)
	@go run ./test/model --states $(or $(STATES),$(if $(WITHOUT),2000000,100000)) --depth $(or $(DEPTH),0) $(if $(WITHOUT),--without $(WITHOUT))

.PHONY: soak
soak: build race-operator ## Run what takes minutes by nature: the models, faults for spread workloads, 2,000 agents at a change of leader, random objects of all kinds, property tests with another seed, every fuzz test (DURATION=6m SEED=... FUZZ_OBJECTS=1500 CHECKS=1000 FUZZTIME=1m)
	@$(MAKE) --no-print-directory model STATES=$(or $(STATES),2000000)
	@seed=$(or $(SEED),$$RANDOM) && echo "seed $$seed" && SPREAD_SOAK=$(or $(DURATION),6m) SPREAD_HUNT=5m SPREAD_SEED=$$seed $(SUITES) --timeout 60m --only integration/spread --focus "time of trouble|warns of every" integration
	@echo "2,000 agents at a change of leader" && RELINK_AGENTS=$(or $(AGENTS),2000) RELINK_GAP=20s $(SUITES) --only integration/link --focus "change of leader" integration
	@echo "random objects" && FUZZ_SEED=$(or $(FUZZ_SEED),$(SEED),$$RANDOM) FUZZ_OBJECTS=$(or $(FUZZ_OBJECTS),1500) $(SUITES) --timeout 60m --only integration/fuzz integration
	@echo "property tests" && seed=$(or $(SEED),$$RANDOM) && echo "seed $$seed" && git grep -l testkit/property -- '*_test.go' | xargs -n1 dirname | sort -u | while read -r folder; do \
	  go test -count=1 -timeout 30m ./$$folder -rapid.seed=$$seed -rapid.checks=$(or $(CHECKS),1000) || exit; done
	@git grep -oE '^func Fuzz[A-Za-z]+' -- '*_test.go' | sed 's/:func / /' | while read -r file name; do \
	  echo "fuzzing $$name of $$(dirname $$file)" && go test -run '^$$' -fuzz "^$$name$$" -fuzztime $(or $(FUZZTIME),1m) ./$$(dirname $$file) || exit; done

.PHONY: robustness
robustness: build race-operator ## Let faults happen at random at length, and judge all journals: tasks, then spread workloads (SEED=... ATTEMPTS=10000 FAULTS=3 DURATION=1h at most; SPREAD_SOAK=6m; docs/explanation/testing.md)
	@seed=$(or $(SEED),$$RANDOM) && echo "seed $$seed" && \
	  bin/devcluster run --audit --simulated-nodes 3 -- go run ./test/robustness --seed $$seed --attempts $(or $(ATTEMPTS),10000) --faults $(or $(FAULTS),3) --duration $(or $(DURATION),1h) && \
	  SPREAD_SOAK=$(or $(SPREAD_SOAK),6m) SPREAD_SEED=$$seed $(SUITES) --timeout 90m --only integration/spread --focus "time of trouble" integration

# What the suites on real nodes need beside the operator: images of test programs, cert-manager, Prometheus and its operator.
.PHONY: e2e-programs
e2e-programs: host-tools race-tools
	@go -C tools run ./image --version $(VERSION) --platforms linux/$(ARCH) --services "probe swarm-worker" >/dev/null
	@go -C tools run ./image --version $(VERSION) --platforms linux/$(ARCH) --services "swarm-operator swarm-agent" --out bin/images-race --race >/dev/null
	@go -C test/certmanager build -ldflags "-s -w" -o ../../bin/cert-manager .
	@go -C test/alerts build -ldflags "-s -w" -o ../../bin/prometheus-operator github.com/prometheus-operator/prometheus-operator/cmd/operator
	@go -C test/alerts build -ldflags "-s -w" -tags remove_all_sd,enable_kubernetes_sd -o ../../bin/prometheus github.com/prometheus/prometheus/cmd/prometheus

# What a cluster needs before the first suite on real nodes. The operator and its agents are built with the race detector, and the suites look
# for what it finds. On a cluster of your own the images of the probe and of the worker must be there already.
.PHONY: e2e-cluster
e2e-cluster: RACE = 1
e2e-cluster: named-cluster
	@test -z "$$DEVCLUSTER_DATA" || bin/devcluster image load bin/images/probe-$(ARCH).tar bin/images/swarm-worker-$(ARCH).tar
	@$(INSTALL_OPERATOR)

# What changes a cluster works on the one that is named on the command line, and on no other.
.PHONY: named-cluster
named-cluster:
	@test "$(origin KUBECONFIG)" = "command line" || { echo "name the cluster: make $(MAKECMDGOALS) KUBECONFIG=... (yours: $$(bin/devcluster status 2>/dev/null | awk '/^kubeconfig/ {print $$2}'))"; exit 1; }

.PHONY: run
run: named-cluster build ## Run the operator from source against a cluster: make run KUBECONFIG=... (docs/how-to/install.md)
	@$(KUBECTL) apply --server-side -f deploy/crds
	@$(KUBECTL) wait --for=condition=Established -f deploy/crds >/dev/null
	@$(KUBECTL) get namespace swarm-system >/dev/null 2>&1 || $(KUBECTL) create namespace swarm-system
	@exec env KUBECONFIG=$(abspath $(KUBECONFIG)) SWARM_LOGGING_FORMAT=$${SWARM_LOGGING_FORMAT-text} SWARM_WEBHOOK_URL=$${SWARM_WEBHOOK_URL-auto} bin/swarm-operator

# The images of ours that an installation needs. Those that are named, OPERATOR_IMAGE and AGENT_IMAGE, come from where they are.
OWN_IMAGES = $(strip $(if $(OPERATOR_IMAGE),,swarm-operator) $(if $(AGENT_IMAGE),,swarm-agent))
IMAGES = bin/images$(if $(RACE),-race)
INSTALL = go -C tools run ./install --root $(CURDIR) --kubeconfig $(abspath $(KUBECONFIG))
INSTALL_OPERATOR = $(INSTALL) --operator-image "$(or $(OPERATOR_IMAGE),localhost/swarm-operator:$(VERSION))" \
  --agent-image "$(or $(AGENT_IMAGE),localhost/swarm-agent:$(VERSION))" $(OWN_IMAGES:%=$(IMAGES)/%-$(ARCH).tar)

.PHONY: install
install: named-cluster build ## Install the operator into a cluster: make install KUBECONFIG=... (docs/how-to/install.md)
	@$(if $(OWN_IMAGES),go -C tools run ./image --version $(VERSION) --platforms linux/$(ARCH) --services "$(OWN_IMAGES)" --out $(IMAGES) $(if $(RACE),--race))
	@$(INSTALL_OPERATOR)

.PHONY: uninstall
uninstall: named-cluster build ## Remove the operator: make uninstall KUBECONFIG=... (CRDS=delete for the CRDs, every swarm, task and pool as well)
	@$(INSTALL) --remove --crds "$(or $(CRDS),keep)"

# The demo runs on the development cluster, DEVCLUSTER_DATA or the default one, which comes up for it, or on the cluster that is named on the
# command line. Then DEMO_IMAGE, OPERATOR_IMAGE and AGENT_IMAGE say what its nodes can pull.
RUN_DEMO = go -C tools run ./demo --root $(CURDIR) --version $(VERSION) --kubeconfig "$(if $(filter command,$(origin KUBECONFIG)),$(KUBECONFIG))"

.PHONY: demo
demo: ## See a swarm finish tasks: brings up what is missing (KUBECONFIG=... for a cluster of your own)
	@$(RUN_DEMO) --image "$(DEMO_IMAGE)" $(DEMO_FLAGS)

.PHONY: demo-down
demo-down: ## Remove the demo: the development cluster, or with KUBECONFIG=... only what the demo made there
	@$(RUN_DEMO) --remove

.PHONY: image
image: ## Build the container images as tarballs into bin/images, without Docker
	@go -C tools run ./image --version $(VERSION)

.PHONY: generate
generate: manifests ## Generate deep copies and manifests from the API types
	@$(CONTROLLER_GEN) object paths=./api/v1alpha1 paths=./examples/webapp/v1
	@go -C tools run ./proto .. api/link/v1/link.proto api/link/v1/placement.proto

.PHONY: manifests
manifests: ## Generate the CRDs, the reference of their fields, and the operator's roles
	@$(CONTROLLER_GEN) crd:generateEmbeddedObjectMeta=true paths=./api/v1alpha1 output:crd:dir=deploy/crds
	@go -C tools run ./crds ../deploy/crds ../docs/reference/fields.md
	@$(CONTROLLER_GEN) rbac:roleName=swarm-operator,fileName=role.yaml paths=./internal/... output:rbac:dir=deploy/kustomize/operator
	@go -C tools run ./roles ../deploy/kustomize/operator/role.yaml ../deploy/kustomize/envs/namespaced
	@$(CONTROLLER_GEN) crd paths=./examples/webapp/v1 output:crd:stdout > examples/webapp/crd.yaml

.PHONY: verify
verify: ## Fail when generated files or module files are not up to date
	@before=$$(mktemp -d) && trap "rm -rf $$before" EXIT && cp -R api deploy examples docs/reference/fields.md $$before && $(MAKE) --no-print-directory generate && \
	  diff -r api $$before/api && diff -r deploy $$before/deploy && diff -r examples $$before/examples && diff docs/reference/fields.md $$before/fields.md || { echo "generated files were not up to date: commit what make generate made"; exit 1; }
	@for module in $(MODULES); do go -C $$module mod tidy -diff || { echo "run go mod tidy in $$module"; exit 1; }; done

.PHONY: lint
lint: bin/golangci-lint ## Run the linters over all modules
	@for module in $(filter-out $(UNLINTED),$(MODULES)); do (cd $$module && $(CURDIR)/bin/golangci-lint run --allow-parallel-runners ./...) || exit; done
	@cd devcluster && $(CURDIR)/bin/golangci-lint run --allow-parallel-runners . ./cmd/... ./internal/... ./pause/...

# What `make bench` measures: engines alone, the development cluster, and the operator on one.
BENCH_PARTS := engines devcluster rest tasks idle pools spread limits queue
PART ?= $(BENCH_PARTS)
BENCH_ON_CLUSTER = $(filter-out engines devcluster,$(PART))
space := $(subst ,, )
comma := ,

# A part may take 20 minutes. Those on a cluster look at the clock themselves.
limited = { timeout --foreground --kill-after=1m 20m bin/bench/$(1) --results test/bench/results.json || { code=$$?; \
  case $$code in 124|137) echo "part $(1) was ended: it took more than 20 minutes";; esac; exit $$code; }; }

.PHONY: bench
bench: bench-parts build ## Measure beside peers and targets: make bench PART=tasks (engines devcluster rest tasks idle pools spread limits queue; all by default)
	@$(if $(filter engines,$(PART)),go -C test/bench/peers build -o $(CURDIR)/bin/bench/engines . && $(call limited,engines))
	@$(if $(filter devcluster,$(PART)),go build -o bin/bench/devcluster ./test/bench/devcluster && $(call limited,devcluster))
	@$(if $(BENCH_ON_CLUSTER),bin/devcluster run --audit --simulated-nodes 40 -- go run ./test/bench --part $(subst $(space),$(comma),$(strip $(BENCH_ON_CLUSTER))))

.PHONY: bench-parts
bench-parts:
	@$(if $(filter-out $(BENCH_PARTS),$(PART)),echo "no part $(filter-out $(BENCH_PARTS),$(PART)): name some of $(BENCH_PARTS)"; exit 1)

.PHONY: mutate
mutate: ## Measure the unit tests of packages by mutants: make mutate PKG=./kit/... [N=100] [SEED=1] [TESTS=./agent] (docs/explanation/mutation.md)
	@test -n "$(PKG)" || { echo "name the packages: make mutate PKG=./kit/... [N=100] [SEED=1] [TESTS=./agent]"; exit 1; }
	@nice -n 10 go -C tools run ./mutate --root $(CURDIR) -n $(or $(N),100) -seed $(or $(SEED),1) $(if $(TESTS),-tests $(TESTS)) $(PKG)

.PHONY: acceptance
acceptance: ## Say clause by clause what the last test runs have proven (docs/acceptance.md)
	@go -C tools run ./acceptance --root $(CURDIR) --results $(RESULTS)

.PHONY: clean
clean: ## Remove bin/ (Kubernetes stays in your cache folder)
	@rm -rf bin

bin/golangci-lint: tools/lint/go.mod
	@echo "building golangci-lint (about two minutes, once)"
	@go -C tools/lint build -ldflags "-s -w" -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bin/gotestsum: tools/go.mod
	@go -C tools build -o ../$@ gotest.tools/gotestsum
