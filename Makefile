# evictd. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT   ?= $(shell git rev-parse --short HEAD 2>/dev/null)
HOSTARCH := $(shell $(GO) env GOHOSTARCH)
GOARCH   ?= $(HOSTARCH)
# Binaries of another architecture than this machine's go beside, not in place of, its own.
OUT      := $(if $(filter $(HOSTARCH),$(GOARCH)),bin,bin/linux_$(GOARCH))
# What is built of others is kept for the machine, by version; bin/tools points there.
TOOLS    := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/evictd
# One set of flags for all that is built, vetted, tested and started: each package is compiled
# once. Only the race detector and another architecture compile anew.
export CGO_ENABLED := 0
# What is built here is what go.mod says; go.work is for go by hand, editors and the linter.
export GOWORK      := off
# grpc's traces and net/rpc have templates and call methods by name: with them in a program, the linker keeps each
# method of each type, for which evictd and its plugins would take 11 MiB more of locked memory.
OVERLAY            := $(CURDIR)/bin/build/overlay.json
LIGHT              := -trimpath -tags=grpcnotrace -overlay=$(OVERLAY)
export GOFLAGS     := $(strip $(filter-out $(LIGHT),$(GOFLAGS)) $(LIGHT))
NETRPC             := $(shell $(GO) env GOROOT)/src/net/rpc
$(shell mkdir -p bin/build && printf '{"Replace": {"%s": "%s", "%s": "", "%s": ""}}\n' $(NETRPC)/server.go $(CURDIR)/deploy/overlay/netrpc.go.txt \
	$(NETRPC)/client.go $(NETRPC)/debug.go >$(OVERLAY).$$$$ && mv $(OVERLAY).$$$$ $(OVERLAY))
GOLANGCI_LINT      := $(TOOLS)/golangci-lint-v2.15.0/golangci-lint
ACTIONLINT         := $(TOOLS)/actionlint-v1.7.12/actionlint
DEADCODE           := $(TOOLS)/deadcode-v0.52.0/deadcode
APIDIFF            := $(TOOLS)/apidiff-v0.0.0-20261113113407-e3970619a1a4/apidiff
BUF                := $(TOOLS)/buf-v1.66.0/buf
PROTOC_GEN_GO      := $(TOOLS)/protoc-gen-go-v1.36.12/protoc-gen-go
PROTOC_GEN_GO_GRPC := $(TOOLS)/protoc-gen-go-grpc-v1.6.2/protoc-gen-go-grpc
GOTESTSUM          := $(TOOLS)/gotestsum-v1.13.0/gotestsum
NFPM               := $(TOOLS)/nfpm-v2.43.4/nfpm
HELM               := $(TOOLS)/helm-v4.3.1/helm
COSIGN             := $(TOOLS)/cosign-v3.1.3/cosign
REGISTRY           := $(TOOLS)/registry-v3.1.2/registry
# Seven minutes to build: of make nightly.
SIGNING             = $(if $(EVICTD_NIGHTLY),$(COSIGN))
CYCLONEDX          := $(TOOLS)/cyclonedx-gomod-v1.10.0/cyclonedx-gomod
# The second containerd that e2e runs beside the distribution's.
CONTAINERD := $(TOOLS)/containerd-v2.4.2
# The parts of the cluster that e2e-k8s and cluster run beside it, as released.
KUBERNETES  = $(TOOLS)/kubernetes-$(K8S)
ETCD       := $(TOOLS)/etcd-v3.7.0
KUBERNETES_PARTS = $(addprefix $(KUBERNETES)/,kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl)
PARTS       = $(KUBERNETES_PARTS) $(ETCD)/etcd
BUILD     = GOOS=linux GOARCH=$(GOARCH) $(GO) build -ldflags '-X main.version=$(VERSION) -X main.commit=$(COMMIT)'

FUZZTIME    ?= 10s
DEMO_PLUGIN ?=
DEMO_CONFIG ?=
DEMO_PODS   ?=
DEMO_KEEP   ?=
CROSSINGS   ?= 20
THRASH      ?= 1
RUNS        ?= 5
EVICTIONS   ?= 30
PARITY      ?= 10s
# Rounds of two faults at random in the middle of an eviction, of e2e-k8s.
FAULTS_AT_RANDOM ?= 0
# Outages of the API server of 65 s in the middle of an eviction, of e2e-k8s.
OUTAGES     ?= 0
ROUNDS      ?= 20
# All packages that are in the programs: of this module, of shared and of sdk.
EVERY       := ./... github.com/evictd/evictd/shared/... github.com/evictd/evictd/sdk/...
PACKAGES    ?= $(EVERY)
REPEAT      ?= 1
# The kubelet that gets evictd as its eviction manager, and what its build is made of.
K8S         ?= v1.37.2
KUBELET      = $(CURDIR)/bin/build/kubelet-$(K8S)
K8S_PARTS    = $(subst ., ,$(K8S))
# Its Go, where it is newer than that of evictd.
K8S_GO       = $(if $(filter v1.38.%,$(K8S)),env GOTOOLCHAIN=go1.27.3)
K8S_TAG      = $(subst v,kubernetes_,$(word 1,$(K8S_PARTS)))_$(word 2,$(K8S_PARTS))
OVERLAID     = -trimpath -tags $(K8S_TAG) -modfile $(1)/kubelet.mod -overlay $(1)/overlay.json
# Packages whose tests want real containers, fuzz targets and benchmarks: found, not listed.
E2E_FILES      = $(shell grep -rl --include='*_test.go' --exclude-dir=e2e EVICTD_TEST_E2E .)
E2E_TESTS      = $(shell grep -hoE '^func Test[A-Za-z0-9_]+' $(E2E_FILES) | sed 's/^func //' | paste -sd'|')
BENCH_PACKAGES = $(call packages,$(shell grep -rlE --include='*_test.go' --exclude-dir=paritytest '^func Benchmark' .))
# The packages of files below the current directory, in whichever module.
packages       = $(sort $(patsubst ./%/,github.com/evictd/evictd/%,$(dir $(1))))
# What the parity tests must reach of: the statements that decide.
DECIDERS = github.com/evictd/evictd/host/internal/core/policy,github.com/evictd/evictd/shared/eviction/rank,github.com/evictd/evictd/host/internal/core/admission
# Of these not what the kubelet has nothing like: relief, comparisons for warnings, kills of a former host, a second
# look, vendors of filesystems, orders by name for plugins. Their tests stand beside them.
NOT_THE_KUBELETS = brake.go,valueorder.go,ledger.go,verdict.go,moment.go,intent.go,claim.go,split.go,named.go
# Each fault of a plugin has a time in which the eviction must have happened anyway: tried
# with nothing else running, and printed as a table.
FAULTS = test/suites/faults
# $(call gotest,FORMAT,PACKAGES,FLAGS) runs tests as root, never from the cache: they depend on the machine too.
# Each process with the race detector would wait for a second at its end. What a debugger
# needs takes a third of linking, and make check vets.
# .ci/run names a directory in GATE: what happened is kept there, and a failed test runs once more, alone.
gotest = EVICTD_TEST_ROOT=1 GORACE=atexit_sleep_ms=50 $(GOTESTSUM) --format $(1) --packages "$(2)" $(if $(GATE),$(RERUN)) \
	-- -count=1 -vet=off -ldflags='-s -w' $(if $(GATE),-exec '$(GATE)/timed $(GATE)/cpu') $(3)
RERUN  = --jsonfile $(GATE)/$$BASHPID.json $(if $(EVICTD_NIGHTLY),,--rerun-fails=1 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race \
	--rerun-fails-report $(GATE)/$$BASHPID.rerun)

PACKAGE_ARCHES := $(GOARCH)
RELEASE_ARCHES := amd64 arm64
# Packages are those of a commit, to the byte: of its date, whoever makes them and where.
EPOCH            = $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
PACKAGE_VERSION  = $(shell if [[ $(VERSION:v%=%) =~ ^[0-9]+\. ]]; then echo $(VERSION:v%=%); else echo 0.0.0+g$(VERSION); fi)
IMAGE            = ghcr.io/evictd/evictd:$(subst +,-,$(PACKAGE_VERSION))
IMAGE_FILE       = dist/evictd_$(PACKAGE_VERSION)_oci.tar
STAGE            = dist/stage_$(GOARCH)
SBOM             = $(PACKAGE_VERSION)_$(GOARCH).cdx.json

.PHONY: help build image chart manifests python-rank test tested check arches generate demo picture e2e e2e-machine e2e-disks e2e-guest thrash thrash-stock e2e-k8s cluster packages release deb rpm sbom stage parity kubelet kubelet-test kubelet-e2e bench fuzz flakes nightly clean tools parts lint deadcode generated promised api

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## evictd, evictctl, the plugins and the examples in Go into bin/ (GOARCH=arm64: into bin/linux_arm64/)
	$(BUILD) -o $(OUT)/ ./host/cmd/evictd ./host/cmd/evictctl
	@mkdir -p $(OUT)/plugins && ln -sf ../evictd $(OUT)/plugins/memory && ln -sf ../evictd $(OUT)/plugins/disk && ln -sf ../evictd $(OUT)/plugins/pid
	$(BUILD) -o $(OUT)/ github.com/evictd/evictd/sdk/examples/... ./plugins/disk/examples/...

deb rpm: stage $(NFPM) ## a package for Debian, for Fedora and its kin, into dist/ (GOARCH=arm64)
	cd $(STAGE) && SOURCE_DATE_EPOCH=$(EPOCH) ARCH=$(GOARCH) PACKAGE_VERSION=$(PACKAGE_VERSION) $(NFPM) package -f ../../deploy/packages/nfpm.yaml -p $@ -t ..

# One file with the image for each architecture: `ctr -n k8s.io images import` takes it as it is.
image: ## the container image, as an OCI archive for this machine's architecture, into dist/ (PACKAGE_ARCHES='amd64 arm64': for both)
	@for arch in $(PACKAGE_ARCHES); do $(MAKE) build GOARCH=$$arch; done
	@mkdir -p dist
	SOURCE_DATE_EPOCH=$(EPOCH) GOARCH=$(HOSTARCH) $(GO) run ./deploy/image $(IMAGE) $(COMMIT) $(IMAGE_FILE) \
		$(foreach arch,$(PACKAGE_ARCHES),$(arch)=bin/$(if $(filter-out $(HOSTARCH),$(arch)),linux_$(arch)))

manifests: $(HELM) ## plain manifests of the chart into deploy/
	deploy/packages/manifests.sh $(HELM) deploy

# Its own modules, which are directories to Go, have the names and the version of evictd.
sbom: build $(CYCLONEDX) ## the modules that are in evictd and evictctl, as CycloneDX, into dist/
	@mkdir -p dist
	for program in evictd evictctl; do \
		$(CYCLONEDX) bin -json -std -noserial -notimestamp -version $(PACKAGE_VERSION) -output dist/$${program}_$(SBOM) $(OUT)/$$program && \
		sed -i 's|golang/\./\([a-z]*\)@(devel)|golang/github.com/evictd/evictd/\1@$(PACKAGE_VERSION)|; s|"name": "\./|"name": "github.com/evictd/evictd/|; s|"(devel)"|"$(PACKAGE_VERSION)"|' dist/$${program}_$(SBOM) || exit; done

stage: build
	rm -rf dist/pages
	@mkdir -p dist/pages
	for program in evictd evictctl; do SOURCE_DATE_EPOCH=$(EPOCH) GOARCH=$(HOSTARCH) CGO_ENABLED=0 $(GO) run -tags man ./host/cmd/$$program dist/pages || exit; done
	deploy/packages/stage.sh $(OUT) dist/pages $(STAGE)

chart: image ## the chart with the digest of that image, into dist/
	SOURCE_DATE_EPOCH=$(EPOCH) deploy/packages/chart.sh $(PACKAGE_VERSION) $(IMAGE_FILE) dist

release: ## image, chart, packages, bills of materials and their checksums for amd64 and arm64 into dist/
	rm -rf dist
	@$(MAKE) chart PACKAGE_ARCHES='$(RELEASE_ARCHES)'
	@for arch in $(RELEASE_ARCHES); do $(MAKE) deb rpm sbom GOARCH=$$arch; done
	cd dist && sha256sum *.tar *.tgz *.deb *.rpm *.json >SHA256SUMS

packages: $(GOTESTSUM) $(HELM) deb rpm sbom ## tests of packages and chart: what is in them, in and out of a node; EVICTD_NIGHTLY=1: the same from two clones (root)
	cd deploy/packages && $(GO) vet ./... && $(GO) mod tidy -diff
	@cd deploy/packages && EVICTD_PACKAGES=$(CURDIR)/dist EVICTD_HELM=$(HELM) EVICTD_BIN=$(CURDIR)/$(OUT) $(call gotest,standard-verbose,./...,-timeout 20m)

python-rank: ## the example plugin in Python into bin/
	sdk/examples/python-rank/build.sh $(CURDIR)/bin/python-rank

# Suites wait for processes of their own, which have no race detector: beside the packages.
test: $(GOTESTSUM) ## all tests, with root, real processes and, in packages, the race detector
	@[ "$$(id -u)" = 0 ] || { echo "make test needs root; go test ./... runs what does not"; exit 1; }
	@test/harness/stack/install.sh --uml --python --prometheus --browser
	@$(MAKE) build
	@test/tools/strange.sh $(MAKE) tested

# What this machine has of evictd is no part of a test. UNCHANGED are packages that .ci/run leaves out.
tested:
	@trap 'echo "tests took $$SECONDS s"' EXIT; status=0; same="/($$(tr ' ' '|' <<<'$(UNCHANGED)'))\$$"; \
	($(call gotest,pkgname,$$($(GO) list ./test/suites/... | grep -v '/$(FAULTS)$$' | grep -vE "$$same"),-timeout 15m)) & suites=$$!; \
	(export CGO_ENABLED=1; $(call gotest,pkgname,$$($(GO) list $(EVERY) | grep -v /test/suites/ | grep -vE "$$same"),-race -timeout 15m)) || status=1; \
	wait $$suites || status=1; \
	($(call gotest,standard-verbose,./$(FAULTS),-timeout 10m)) || status=1; \
	for module in $(filter-out $(UNCHANGED),admission browser); do \
		(cd test/suites/$$module && $(GO) vet ./... && $(GO) mod tidy -diff && $(call gotest,pkgname,.)) || status=1; \
	done; \
	exit $$status

check: lint deadcode generated promised ## format, lint with vet, workflows, dead code, import rules, go.mod, generated code, protocol, what plugins compile against
	@for module in . shared sdk; do (cd $$module && $(GO) mod tidy -diff) || exit 1; done

arches: ## compiles for arm64 and arm
	@for arch in arm64 arm; do GOARCH=$$arch $(GO) list -export $(EVERY) >/dev/null || exit 1; done # go build would link each program, each time

# What reads sources by itself knows no overlay.
lint deadcode promised api: export GOFLAGS := $(filter-out -overlay=%,$(GOFLAGS))
lint: $(GOLANGCI_LINT) $(ACTIONLINT)
	GOWORK=$(CURDIR)/go.work $< run ./... ./shared/... ./sdk/...
	$(ACTIONLINT) -shellcheck= -pyflakes= .github/workflows/*.yml

# Functions that neither a program nor a test reaches. Not those of packages that other
# modules use, and examples, which are only compiled.
deadcode: $(DEADCODE)
	@found=$$($< -test $(EVERY) | grep -vE '_test\.go:|^(host/api|sdk/sdktest/sdktest|test/.*)\.go:') || true; \
	[ -z "$$found" ] || { echo "$$found"; exit 1; }

# The packages that plugins compile against. An incompatible change of one fails; what only extends it shows up in the
# exports, which a release renews.
PROMISED := sdk sdk/schema sdk/sdktest shared/eviction shared/eviction/rank
promised: $(APIDIFF)
	@wrong=$$(for p in $(PROMISED); do $< -incompatible sdk/api/$$(echo $$p | tr / -).export github.com/evictd/evictd/$$p || echo "$$p: no comparison"; done); \
	[ -z "$$wrong" ] || { echo "plugins do not compile with this any more:"; echo "$$wrong"; exit 1; }

api: $(APIDIFF) ## what plugins compile against, as of this version
	@mkdir -p sdk/api; for p in $(PROMISED); do $< -w sdk/api/$$(echo $$p | tr / -).export github.com/evictd/evictd/$$p || exit 1; done

generate: tools ## the Go code and the descriptor set of the plugin protocol
	cd shared/proto && PATH=$(dir $(PROTOC_GEN_GO)):$(dir $(PROTOC_GEN_GO_GRPC)):$$PATH $(BUF) generate
	cd shared/proto && $(BUF) build --exclude-source-info -o $(DESCRIPTOR)

# The descriptor set is the protocol as released: what breaks it is told in
# words, what only extends it shows up as a difference to be committed.
DESCRIPTOR := descriptor.binpb
GENERATED  := shared/proto/$(DESCRIPTOR) shared/wire/internal/pluginv1
generated: tools
	cd shared/proto && $(BUF) lint && $(BUF) format --diff --exit-code
	cd shared/proto && $(BUF) breaking --against $(DESCRIPTOR)
	@was=$$(cat $$(find $(GENERATED) -type f | sort) | sha256sum); $(MAKE) generate; \
	now=$$(cat $$(find $(GENERATED) -type f | sort) | sha256sum); \
	[ "$$was" = "$$now" ] || { echo "generated code was out of date; make generate has renewed it, commit it"; exit 1; }

demo: build ## evict a real container under real memory pressure (root; DEMO_PLUGIN=bin/oldest for a custom ranker, DEMO_CONFIG=FILE for its configuration, DEMO_PODS=FILE for other pods, DEMO_KEEP=1 to evict nobody and stay until Ctrl-C)
	@$(GO) build -o bin/demo ./test/tools/demo
	@bin/demo $(if $(DEMO_PLUGIN),-plugin '$(DEMO_PLUGIN)') $(if $(DEMO_CONFIG),-config '$(DEMO_CONFIG)') $(if $(DEMO_PODS),-pods '$(DEMO_PODS)') $(if $(DEMO_KEEP),-keep)

picture: build ## the picture of the README, of a real run of the demo (root)
	@$(GO) build -o bin/demo ./test/tools/demo
	@bin/demo | tee bin/demo.txt
	@$(GO) run ./test/tools/picture <bin/demo.txt >docs/demo.svg

e2e: e2e-machine e2e-disks ## tests with real containers: full disks, many processes, threshold crossings (CROSSINGS=20)

E2E = EVICTD_TEST_E2E=1 EVICTD_CONTAINERD=$(CONTAINERD) EVICTD_CROSSINGS=$(CROSSINGS)
# Files of tests that watch memory, which a cluster beside them takes as well; found, not listed.
E2E_MEMORY = $(shell grep -l 'emory.available"' test/suites/e2e/*_test.go)
E2E_ALONE  = ^($(shell grep -hoE '^func Test[A-Za-z0-9_]+' $(E2E_MEMORY) | sed 's/^func //' | paste -sd'|'))$$
# Those of packages, and of suites that watch the machine's memory.
e2e-machine: $(GOTESTSUM) build $(CONTAINERD)/containerd
	@test/harness/stack/install.sh
	@export $(E2E); $(call gotest,standard-verbose,$(call packages,$(E2E_FILES)),-p 1 -timeout 60m -run '^($(E2E_TESTS))$$')
	@cd test/suites/e2e && export $(E2E); $(call gotest,standard-verbose,.,-timeout 10m -run '$(E2E_ALONE)')

e2e-disks: $(GOTESTSUM) build $(CONTAINERD)/containerd
	@test/harness/stack/install.sh
	cd test/suites/e2e && $(GO) vet ./... && $(GO) mod tidy -diff
	@cd test/suites/e2e && export $(E2E); $(call gotest,standard-verbose,.,-timeout 30m -skip '$(E2E_ALONE)')

e2e-guest: $(GOTESTSUM) stage $(NFPM) ## evictd as a unit on a node with systemd, cgroup v2 and containerd, in User-Mode Linux: both cgroup drivers
	@test/harness/stack/install.sh --uml --guest
	@export EVICTD_TEST_NODE=1 EVICTD_NFPM=$(NFPM); $(call gotest,standard-verbose,./test/suites/guest,-timeout 60m)

thrash: $(GOTESTSUM) build ## who is first on a node that thrashes: evictd, earlyoom, systemd-oomd or the kernel, THRASH (1) times each
	@test/harness/stack/install.sh --uml --guest
	@export EVICTD_TEST_NODE=1 EVICTD_THRASH=$(THRASH); $(call gotest,standard-verbose,./test/suites/guest,-timeout 6h -run '^TestThrash$$')

thrash-stock: $(GOTESTSUM) build ## the same on a node with Debian's own kernel and two processors, in QEMU
	@test/harness/stack/install.sh --guest --qemu
	@export EVICTD_THRASH_STOCK=1; $(call gotest,standard-verbose,./test/suites/guest,-timeout 3h -run '^TestThrashStock$$')

e2e-k8s: $(GOTESTSUM) build $(HELM) $(SIGNING) $(REGISTRY) $(PARTS) $(CONTAINERD)/containerd ## evictions in a cluster of one node: the control plane, kubelet and kubectl of Kubernetes K8S (EVICTIONS=30 in a row, RUNS=5 of other comparisons)
	@test/harness/stack/install.sh
	@$(MAKE) image
	cd test/suites/kubernetes && $(GO) vet ./... && $(GO) mod tidy -diff
	@cd test/suites/kubernetes && EVICTD_TEST_K8S=1 EVICTD_HELM=$(HELM) EVICTD_COSIGN=$(SIGNING) EVICTD_REGISTRY=$(REGISTRY) EVICTD_IMAGE=$(CURDIR)/$(IMAGE_FILE) EVICTD_IMAGE_NAME=$(IMAGE) EVICTD_KUBERNETES=$(KUBERNETES) EVICTD_ETCD=$(ETCD) EVICTD_CONTAINERD=$(CONTAINERD) \
	EVICTD_ROUNDS=$(FAULTS_AT_RANDOM) EVICTD_OUTAGES=$(OUTAGES) EVICTD_RUNS=$(RUNS) EVICTD_EVICTIONS=$(EVICTIONS) $(call gotest,standard-verbose,./...,-p 1 -timeout 120m)

cluster: $(PARTS) $(HELM) $(CONTAINERD)/containerd ## run that cluster until Ctrl-C, to try things by hand: prints how to use kubectl with it, and how to install evictd
	@test/harness/stack/install.sh
	@cd test/suites/kubernetes && $(GO) build -o $(CURDIR)/bin/cluster ./keep
	@bin/cluster -kubernetes $(KUBERNETES) -etcd $(ETCD) -containerd $(CONTAINERD) -helm $(HELM)

# The kubelet of host/paritytest/go.mod, or that of a go.mod made from it.
PARITY_K8S = v1.37.2
PARITY_MOD = $(if $(filter-out $(PARITY_K8S),$(K8S)),-tags $(K8S_TAG) -modfile $(KUBELET)-parity/kubelet.mod)
parity: ## evictd and the own manager of a kubelet (K8S=v1.37.2) decide the same random scenarios, for PARITY (10s)
	@mkdir -p bin
	$(if $(PARITY_MOD),cd host/kubelet && $(GO) build -o $(KUBELET)-parity/generate ./generate && cd ../paritytest && $(K8S_GO) $(KUBELET)-parity/generate -k8s $(K8S) -out $(KUBELET)-parity)
	cd host/paritytest && $(GO) vet ./... && $(GO) mod tidy -diff
	cd host/paritytest && $(K8S_GO) $(GO) test $(PARITY_MOD) -ldflags '-X github.com/evictd/evictd/host/paritytest/kubelet.release=$(K8S)' -count=1 -vet=off -timeout 30m -v -coverpkg $(DECIDERS) -coverprofile $(CURDIR)/bin/parity.cov . -args -parity.duration $(PARITY)
	cd host/paritytest && $(GO) run ./coverage -min 95 -without $(NOT_THE_KUBELETS) $(CURDIR)/bin/parity.cov

kubelet: ## the kubelet of Kubernetes K8S (v1.37.2, or of v1.36 or v1.35) with evictd as its eviction manager into bin/
	cd host/kubelet && $(K8S_GO) $(GO) run ./generate -k8s $(K8S) -out $(KUBELET)
	cd host/kubelet && CGO_ENABLED=0 GOOS=linux GOARCH=$(GOARCH) $(K8S_GO) $(GO) build $(call OVERLAID,$(KUBELET)) -ldflags '-s -w -X k8s.io/component-base/version.gitVersion=$(K8S)' -o $(CURDIR)/$(OUT)/kubelet k8s.io/kubernetes/cmd/kubelet

kubelet-test: $(GOTESTSUM) build $(GOLANGCI_LINT) ## the kubelet's own tests of eviction and preemption against evictd, REPEAT (1) times, and faults of what is between them
	cd host/kubelet && export GOFLAGS=-trimpath CGO_ENABLED=0 && $(GO) vet ./... && $(GO) mod tidy -diff && $(GOLANGCI_LINT) run ./... # flags as of the kubelet, so that nothing is compiled twice
	cd host/kubelet && $(K8S_GO) $(GO) run ./generate -k8s $(K8S) -tests -out $(KUBELET)-tests
	@cd host/kubelet && for package in eviction images preemption; do \
		CGO_ENABLED=0 $(K8S_GO) $(GO) test -c -vet=off $(call OVERLAID,$(KUBELET)-tests) -ldflags '-s -w' -o $(KUBELET)-tests/$$package.test k8s.io/kubernetes/pkg/kubelet/$$package; \
	done
	@export EVICTD_TEST_KUBELET=$(KUBELET)-tests EVICTD_TEST_KUBELET_TAG=$(K8S_TAG) EVICTD_TEST_PLUGINS=$(CURDIR)/bin/plugins EVICTD_TEST_REPEAT=$(REPEAT); \
	cd host/kubelet && $(call gotest,standard-verbose,./...,-timeout 60m)

kubelet-e2e: $(GOTESTSUM) build kubelet $(PARTS) $(CONTAINERD)/containerd ## that kubelet in the cluster beside the unmodified one: EVICTIONS of hogs; EVICTD_NIGHTLY=1: all that a kubelet evicts and preempts for
	@test/harness/stack/install.sh
	cd test/suites/kubernetes && $(GO) vet ./...
	@cd test/suites/kubernetes && EVICTD_TEST_K8S=1 EVICTD_KUBELET=$(CURDIR)/$(OUT)/kubelet EVICTD_KUBERNETES=$(KUBERNETES) EVICTD_ETCD=$(ETCD) EVICTD_CONTAINERD=$(CONTAINERD) \
	EVICTD_EVICTIONS=$(EVICTIONS) $(call gotest,standard-verbose,.,-timeout 60m -run '^TestInside')

# The former build is another clone's bin/: then only the programs are measured, and no document is written.
BENCH_SMALL  = $(filter small,$(BENCH))
BENCH_FLAGS  = $(if $(BENCH_SMALL),-busy -round-trips 10ms -idle 2s -quiet 2s -starts 1 -crossings 3,-runs 3)
BENCH_OUTPUT = $(if $(BENCH_SMALL)$(BENCH_AGAINST),$(if $(BENCH_AGAINST),-against $(BENCH_AGAINST)),-markdown docs/performance.md)
bench: build ## benchmarks beside their peers, as root, on an idle machine: writes docs/performance.md (BENCH=small: only whether they run; BENCH_AGAINST=DIR: beside a former build)
	@$(GO) run ./test/tools/bench -bin bin $(BENCH_FLAGS) $(BENCH_OUTPUT)
	$(if $(BENCH_AGAINST),,EVICTD_TEST_ROOT=1 $(GO) test -vet=off -run '^$$' -bench . -benchmem $(if $(BENCH_SMALL),-benchtime 1x -short) $(BENCH_PACKAGES))
	$(if $(BENCH_AGAINST),,cd host/paritytest && $(GO) build -o $(CURDIR)/bin/readymade ./readymade && $(GO) run ./bench -plugins $(CURDIR)/bin/plugins -readymade $(CURDIR)/bin/readymade $(if $(BENCH_SMALL),-budget 10ms -most 500))

fuzz: ## each fuzz target for FUZZTIME (10s)
	@grep -rhoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . >/dev/null || { echo "no fuzz targets"; exit 0; }; \
	grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sort | while IFS=: read -r file func; do \
		echo "== $$(dirname $$file) $${func#func }"; \
		test/tools/fuzz.sh $(FUZZTIME) $$(dirname $$file) "$${func#func }" || exit 1; \
	done

flakes: build ## the tests of PACKAGES (all), ROUNDS (20) times in random order with the race detector beside a load on both cores: prints each that failed once
	EVICTD_TEST_ROOT=1 GORACE=atexit_sleep_ms=50 $(GO) run ./test/tools/busy -cores 2 test/tools/flakes.sh $(ROUNDS) $(PACKAGES)

nightly: ## everything, also what repeats or takes long: prints a table and leaves it in bin/nightly.txt
	@.ci/run nightly

clean: ## remove what was built
	rm -rf bin dist

parts: $(PARTS) $(CONTAINERD)/containerd $(HELM) $(REGISTRY) ## the programs of others that the tests run: containerd, etcd, Kubernetes (once; .ci/run does it beside make tools)

# Tools, by pinned version: a new pin installs anew.
tools: $(GOLANGCI_LINT) $(ACTIONLINT) $(DEADCODE) $(APIDIFF) $(BUF) $(PROTOC_GEN_GO) $(PROTOC_GEN_GO_GRPC) $(GOTESTSUM)
	@mkdir -p bin && ln -sfn $(TOOLS) bin/tools

$(GOLANGCI_LINT): PACKAGE = github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(ACTIONLINT): PACKAGE = github.com/rhysd/actionlint/cmd/actionlint
$(DEADCODE): PACKAGE = golang.org/x/tools/cmd/deadcode
$(APIDIFF): PACKAGE = golang.org/x/exp/cmd/apidiff
$(BUF): PACKAGE = github.com/bufbuild/buf/cmd/buf
$(PROTOC_GEN_GO): PACKAGE = google.golang.org/protobuf/cmd/protoc-gen-go
$(PROTOC_GEN_GO_GRPC): PACKAGE = google.golang.org/grpc/cmd/protoc-gen-go-grpc
$(GOTESTSUM): PACKAGE = gotest.tools/gotestsum
$(NFPM): PACKAGE = github.com/goreleaser/nfpm/v2/cmd/nfpm
$(HELM): PACKAGE = helm.sh/helm/v4/cmd/helm
$(COSIGN): PACKAGE = github.com/sigstore/cosign/v3/cmd/cosign
$(REGISTRY): PACKAGE = github.com/distribution/distribution/v3/cmd/registry
$(CYCLONEDX): PACKAGE = github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
$(CONTAINERD)/containerd: PACKAGE = github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2 github.com/containerd/containerd/v2/cmd/containerd

# Built in a directory of its own and renamed, so that a clone never sees the half of what another builds. With the flags
# of Kubernetes' parts and of evictd, so that what several need (the standard library, helm's client-go) is compiled once.
RELEASED  = v$(lastword $(subst -v, ,$(notdir $(@D))))
PUT_ASIDE = mkdir -p $(@D) && new=$$(mktemp -d -p $(@D)) && trap 'rm -rf $$new' EXIT
$(TOOLS)/%:
	@$(PUT_ASIDE); echo "installing $(@D)"; \
	GOBIN=$$new GOFLAGS=-trimpath GOARCH=$(HOSTARCH) $(GO) install $(addsuffix @$(RELEASED),$(PACKAGE)); mv $$new/* $(@D)/

# Kubernetes and etcd cannot be installed by version: their go.mod files have replacements.
# Without the version kubectl and the control plane would take each other for a v0.
# Those of Kubernetes are one build: loaded once, and linked beside each other.
BUILD_PARTS = cd test/suites/kubernetes/parts; GOFLAGS=-trimpath $(GO) build -o $$new/
$(KUBERNETES_PARTS) &:
	@$(PUT_ASIDE); echo "building $(@D)"; \
	$(BUILD_PARTS) $(if $(wildcard test/suites/kubernetes/parts/$(RELEASED).mod),-modfile $(RELEASED).mod) -ldflags '-s -w -X k8s.io/component-base/version.gitVersion=$(RELEASED)' $(addprefix k8s.io/kubernetes/cmd/,$(notdir $(KUBERNETES_PARTS))); \
	mv $$new/* $(@D)/
$(ETCD)/etcd:
	@$(PUT_ASIDE); echo "building $(@D)"; \
	$(BUILD_PARTS) -ldflags '-s -w' go.etcd.io/etcd/server/v3; mv $$new/* $@
