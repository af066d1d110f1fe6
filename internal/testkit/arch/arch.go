// Package arch is the architecture test: it reads every Go file of the repository, without building any, and reports each place that breaks
// a rule. It also covers files that are not built here (other systems, other build tags) and packages that do not exist yet, because its
// rules apply to paths. It has no type information: a rule about calls matches how the call is written, and is strict in doubt.
//
// The rules, called walls:
//  1. Engines (internal/pool/assign, internal/swarm/schedule, internal/swarm/topology, internal/spread/split) import the
//     standard library only: no context, clock, randomness or logger. `now` is an argument.
//  2. internal/swarm/manifest turns API structs into API structs: no client.
//  3. Controllers never import each other, nor httpapi, cli, admission or the allocator of spread.
//  4. Only kit writes .status; only operator (and cli, and mains) reads flags, files and environment.
//  5. Nothing imports devcluster, and Kubernetes itself stays out of every other module.
//  6. Interfaces have one to three methods.
//  7. No package has a name that could mean anything; a main is forty lines at most.
//  8. A snapshot and a plan (internal/spread/snapshot, internal/spread/plan, internal/pool/plan) import no client.
package arch

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
)

// Module is the path of the repository's root module.
const Module = "github.com/swarm-io/swarm-operator"

// A Violation is a place where a wall is broken.
type Violation struct {
	Rule     int
	Location string // file, or file:line
	Message  string
}

func (b Violation) String() string {
	return fmt.Sprintf("wall %d: %s: %s", b.Rule, b.Location, b.Message)
}

// A rule checks the whole tree and reports violations.
type rule func(tree) []Violation

var rules = []rule{
	enginesArePure,
	manifestHasNoClient,
	snapshotsAndPlansHaveNoClient,
	controllersAreIndependent,
	onlyKitWritesStatus,
	onlyOperatorReadsEnvironment,
	nothingImportsDevcluster,
	kubernetesIsNotRequired,
	interfacesAreSmall,
	packagesHaveNames,
	mainsAreShort,
}

// Check reads the repository and returns all violations, sorted by location.
func Check(repository fs.FS) ([]Violation, error) {
	tree, err := readTree(repository)
	if err != nil {
		return nil, err
	}
	var violations []Violation
	for _, stands := range rules {
		violations = append(violations, stands(tree)...)
	}
	slices.SortFunc(violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Location, b.Location), a.Rule-b.Rule, cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(violations), nil
}
