# usher: `make` prints this help. Everything that a target needs beside Go, git and curl comes with go.mod.

PROGRAM ?= usher
IMAGE   ?= $(PROGRAM):dev
VERSION ?= $(shell git describe --always --dirty 2>/dev/null || echo dev)
CONFIG  ?=
LISTEN  ?= 127.0.0.1:9443
OPS     ?= 127.0.0.1:8081
CASE    ?=
OVERLAY ?= demo
REGISTRY ?= ghcr.io/usher-dev
DOWNLOAD ?= https://github.com/usher-dev/usher/releases/download
STATE   ?= .state
FUZZTIME ?= 30s
BENCH_DIR ?= bin/bench
ROUNDS  ?= 8
THRESHOLD ?= 5
KUBERNETES ?= 1.36
FLAGS    = -ldflags "-s -w -X main.version=$(VERSION)"
# The modules of the repository, each with a go.mod of its own.
MODULES  = . usherctl samples/webhook test/bench test/others deploy/release test/browser test/e2e test/e2e/chart
PICTURE  = usherctl review samples/manifests/deployment.yaml --suite core
CALLED   = usherctl doctor -n batch -f samples/tests/team-labels/pod.yaml --cluster-dir samples/cluster
SAYS     = usherctl test samples/tests/team-labels
WHY      = usherctl explain --audit-log samples/audit/audit.log apps/offensive-web

# With other flags everything is compiled again, Kubernetes for ten minutes of CPU: these are those of the programs, tests and linters.
export GOFLAGS := $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath
export CGO_ENABLED := 0

# compile runs go build, or go install, of a package, by default that of a module's root, and shows how far it is.
compile  = @{ go $(1) -C $(2) $(FLAGS) -v $(3) $(or $(4),.) 2>&1; echo "exit $$?"; } | awk -v tty="$$(test -t 1 && echo 1)" -v dir=$(2) -v target=$(or $(4),.) -f .ci/progress.awk

.DEFAULT_GOAL := help
.PHONY: help run try playground browser build usher install test test-all race race-all oracle e2e e2e-older alerts cluster walk attack chaos soak lint golden terminals pictures fuzz bench bench-compare load image image-tar release vuln deploy undeploy clean

help: ## print this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: usher ## serve both suites on https://127.0.0.1:9443, self-signed; samples/cluster stands for a cluster; CONFIG=my.yaml: your policy
	@trap : INT; bin/usher serve --listen $(LISTEN) --ops-listen $(OPS) --state-dir $(STATE) --shutdown-delay 0s $(if $(CONFIG),--config $(CONFIG)) \
		--cluster-dir samples/cluster --feature-gates $$(cat samples/feature-gates)

try: $(if $(CASE),build,usher) ## post three sample reviews to `make run` and show the answers; CASE=all: all samples, CASE=mutate-pods, or any part of a name: these
	@LISTEN=$(LISTEN) STATE=$(STATE) ./samples/try.sh $(CASE)

playground: build ## a page on http://localhost:8090 that shows what the steps make of an object, as you type it
	bin/usherctl playground

build: usher ## build bin/usher and bin/usherctl, which has Kubernetes' own code: up to ten minutes the first time, then seconds
	$(call compile,build,usherctl,-o ../bin/usherctl)

usher:
	$(call compile,build,.,-o bin/usher)

install: ## put usher and usherctl into the folder of go install, so that they run anywhere; usherctl also as `kubectl usher`; as long as make build
	$(call compile,install,.)
	$(call compile,install,usherctl)
	@at=$$(go env GOBIN | grep . || echo "$$(go env GOPATH)/bin"); ln -sf usherctl "$$at/kubectl-usher"; \
		test "$$(command -v usher)" = "$$at/usher" && echo "$$at/usher and $$at/usherctl" || echo "$$at/usher is not what your PATH finds; this adds it: export PATH=\"$$at:\$$PATH\""

test: ## run what the service needs, without an API server: some five minutes the first time
	go test -short -timeout 30m ./...

test-all: ## the same, and the tests of the tools; a part that fails does not keep the others from running
	@failed=; part() { echo "$$*"; "$$@" || failed="$$failed\n  $$*"; }; \
	part $(MAKE) --no-print-directory test; \
	part go test ./test/promises -run TestGoldenTrace; \
	part go -C usherctl test -timeout 30m ./...; \
	part go -C samples/webhook test ./...; \
	part go -C test/bench test -short ./...; \
	test -z "$$failed" || { printf "failed:$$failed\n"; exit 1; }

# The tests of peak memory: with the race detector they say nothing, and take three minutes.
MEMORY = Memory|LargestPolicies
RACE = CGO_ENABLED=1 go test -race -timeout 30m
# The packages of a module with tests that do not link Kubernetes: with the race detector it is compiled for twelve minutes of CPU.
LIGHT = $$(go list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... | awk '/^[^ ]+\.test / && !/ k8s\.io\/kubernetes\// {sub(/\.test .*/, ""); print}')

race: ## with the race detector, but for what links Kubernetes, and test/promises, which reads files; and the long tests and those of releases: some fifteen minutes
	$(RACE) -skip 'TestProcess($(MEMORY))' $$(go list ./... | grep -v /test/promises$$)
	go test ./mutators ./test/process ./colocation/collections ./admit/override ./validators/expression -run 'TestAllocations|TestProcess($(MEMORY))|TestHeldEquals|TestShapes|AgainstOracle|TestEndsAsTheAPIServer'
	cd usherctl && $(RACE) $(LIGHT)
	cd samples/webhook && $(RACE) ./...
	cd test/bench && $(RACE) ./...
	cd deploy/release && go test -timeout 30m ./...

race-all: race ## the same, and what links Kubernetes: some ten minutes longer; CI leaves it out
	cd usherctl && $(RACE) ./...

oracle: ## compare usherctl/engine with an API server, exported rules with the step, and calls before and after printed commands, over some thousand random requests; USHER_ORACLE_SEED=n repeats a run; some minutes
	cd usherctl && USHER_ORACLE_DRAWS=400 go test -count=1 -timeout 30m -v ./engine/oracle ./rules
	cd usherctl && USHER_ORACLE_DRAWS=400 go test -count=1 -timeout 30m -v -run DoNoHarm ./doctor

e2e: ## test against a real API server, of Kubernetes 1.37, built from Go modules: half an hour, and six minutes more the first time
	cd test/e2e && go run ./build && go test -count=1 -timeout 30m ./... && cd chart && go test -count=1 -timeout 30m ./...

e2e-older: ## the same with the programs of Kubernetes 1.36 instead of 1.37; KUBERNETES=1.34: those of 1.37 emulate it; in CI jobs of their own, not in .ci/run
	USHER_E2E_KUBERNETES=$(KUBERNETES) $(MAKE) --no-print-directory e2e

browser: ## test the playground in a headless Chromium, which is installed from Debian's packages if it is missing
	@command -v chromium > /dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }
	cd test/browser && go test -count=1 -timeout 15m ./...

alerts: ## promtool: the alert rules and their cases, and the metrics of a running usher; Prometheus from the PATH, or unpacked from Debian's package
	cd test/e2e && go test ./monitoring -run Promtool -count=1

cluster: ## a real control plane with two nodes and usher, on loopback, until Ctrl-C: needs nothing but Go; RECORD=FILE records the reviews
	cd test/e2e && go run ./build && go run ./cluster $(if $(RECORD),-record $(abspath $(RECORD)))

walk: ## paste the walk-throughs of docs/ and of `make cluster` into a cluster, and compare what they print; some minutes
	cd test/e2e && go run ./build && USHER_SOAK=1m go test ./cluster -run Soak -count=1 -timeout 30m

attack: ## the most expensive reviews on every route, from 64 sides in 256 MiB, a minute each, and of every function that a rule may call, from 16; prints what each costs; 45 minutes, Linux, best as root
	USHER_ATTACK=1m go test ./test/process -run 'TestProcessAttack|TestCostTable' -count=1 -timeout 2h -v

chaos: ## cause one fault after the other, measure what each costs, and write the table of docs/operations.md; 15 minutes
	cd test/e2e && go run ./build && go run ./chaos -write ../../docs/operations.md

soak: ## chaos: replicas and the API server die under load, and usher's registration is deleted 1,000 times; two hours
	cd test/e2e && go run ./build && USHER_SOAK=1 go test -p 1 -run Soak -count=1 -timeout 2h -v ./cluster ./soak ./quota ./certificates
	cd test/e2e && USHER_SOAK=1 go test -run TestTheRegistrationIsKept -count=1 -timeout 3h -v ./registration

lint: ## gofmt, golangci-lint (see .golangci.yml), go.mod is tidy, actionlint: some ten minutes the first time
	@files=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l); test -z "$$files" || { echo "not gofmt-ed, run gofmt -w:"; echo "$$files"; exit 1; }
	@for module in .ci/tools $(MODULES); do (cd $$module && go mod tidy -diff) || exit 1; done
	@GOBIN=$(CURDIR)/bin go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 && bin/actionlint -shellcheck= -pyflakes=
	$(call compile,build,.ci/tools,-o ../../bin/golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
	@for module in $(MODULES); do echo "golangci-lint: $$module"; (cd $$module && $(CURDIR)/bin/golangci-lint run ./...) || exit 1; done

golden: ## rewrite the goldens from what the code does, with the pictures of terminals; read the diff before you commit it; STEP=name: those of a new step, in seconds
ifdef STEP
	go test ./test/promises -run '^TestGoldenStepTables$$|^TestGoldens$$/^/^$(STEP)' -update
	cd usherctl && go test ./promises -run '^TestGolden(Schemas|PolicyPage)$$' -update
	cd usherctl && go test ./process -run '^TestCommandGoldens$$/^(steps|steps.json|review-other-policy)$$' -update
else
	go test ./test/promises -run '^(TestGoldenStepTables|TestGoldens)$$' -update
	go test ./test/promises ./test/process ./deploy/monitoring -run Golden -update
	cd usherctl && go test ./promises ./process ./scaffold -run Golden -update
	@$(MAKE) --no-print-directory terminals
endif

terminals: build
	@{ echo '$$ $(PICTURE)'; bin/$(PICTURE) || test $$? -eq 1; } > bin/review.txt
	go run ./test/picture '$(PICTURE)' < bin/review.txt > docs/review.svg
	@for c in '$(CALLED)' '$(SAYS)' '$(WHY)'; do echo "\$$ $$c"; bin/$$c; echo; done > bin/sight.txt
	go run ./test/picture 'Would it be called, what would it say, why did it say that' < bin/sight.txt > docs/sight.svg

pictures: terminals ## draw the pictures of the README again, from what `usherctl review` prints and a headless Chromium shows
	cd test/browser && USHER_PICTURES=../../docs go test -count=1 -run Pictures .

fuzz: ## fuzz every decoder, FUZZTIME (30s) each
	@for module in . usherctl samples/webhook; do (cd $$module && go list ./... | while read -r package; do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "$$package $$target"; go test $$package -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) || exit 1; \
		done; done) || exit 1; done

bench: ## Go benchmarks of the busiest routes on reviews of real size, and of usherctl review, with allocations
	go test ./test/process -run '^$$' -bench . -benchmem
	cd usherctl && go test ./review -run "^$$" -bench Review -benchmem

bench-compare: ## these and the steps of colocation against a revision in turns (BASE=HEAD), or against a saved run; fails if one is THRESHOLD (5) % worse; SAVE=1 saves anew
	go build -C test/bench -o ../../bin/load .
	bin/load compare -dir $(BENCH_DIR) -rounds $(ROUNDS) -threshold $(THRESHOLD) $(if $(BASE),-base $(BASE)) $(if $(SAVE),-save)

load: build ## measure the service over TLS beside a constant server and the usual pipeline; ARGS=growth: while the cluster grows; ARGS=cluster, ARGS=nodes: through a real API server; 8 to 20 minutes, Linux; overwrites the tables in docs
	go build -C test/bench -o ../../bin/load . && go build -C test/bench -o ../../bin/constant ./constant
ifeq ($(ARGS),growth)
	bin/load growth -write
else ifneq ($(filter cluster nodes,$(ARGS)),)
	cd test/e2e && go run ./build && go build -o ../../bin/throughput ./throughput
	bin/load $(ARGS) -write
else ifeq ($(ARGS),)
	bin/load --write
else
	$(error ARGS is empty, growth, cluster or nodes; for other flags run bin/load)
endif

image: ## build the container image (IMAGE=usher:dev); PROGRAM=usherctl: that of usherctl
	docker build --target $(PROGRAM) --build-arg VERSION=$(VERSION) --build-arg COMMIT=$$(git rev-parse HEAD 2>/dev/null) $(if $(GO_IMAGE),--build-arg GO_IMAGE=$(GO_IMAGE)) -t $(IMAGE) .

image-tar: ## the same image without Docker: tarballs for linux/amd64 and arm64, and an OCI layout of both, in bin/image, or bin/usherctl-image
	cd deploy/release && go run . image --version "$(VERSION)" --program $(PROGRAM) --image "$(IMAGE)" --out ../../bin/$(if $(filter-out usher,$(PROGRAM)),$(PROGRAM)-)image

release: ## all that is published of VERSION=v0.1.0, in bin/release: archives for Linux and macOS, images, chart, install.yaml, SBOMs, checksums, krew; KEY=FILE signs them; half an hour the first time; see docs/release.md
	cd deploy/release && go run . release --version "$(VERSION)" --image "$(REGISTRY)/usher" --download "$(DOWNLOAD)/$(VERSION)" --out ../../bin/release --key "$(abspath $(KEY))"

vuln: ## govulncheck, where its database can be reached
	@.ci/vuln

deploy: ## install into the cluster of the current kubectl context, OVERLAY=demo or another one of deploy/overlays; YES=1 does not ask; see deploy/README.md
	@OVERLAY=$(OVERLAY) YES=$(YES) IMAGE=$(IMAGE) ./deploy/deploy.sh

undeploy: ## remove usher from that cluster, webhook configurations first
	kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration -l app.kubernetes.io/name=usher --ignore-not-found
	kubectl delete -k deploy/base --ignore-not-found
	kubectl delete clusterrole,clusterrolebinding -l app.kubernetes.io/name=usher --ignore-not-found

clean: ## remove what was built, and the laptop's CA
	rm -rf bin $(STATE)
