package main

import "cmp"

// seconds is about how long suites take. It only decides their order, so that lanes end at about the same time; a suite that is not here is
// taken to be short.
var seconds = map[string]int{
	"integration/operator": 630, "integration/spread": 430, "integration/crash": 270, "integration/pool": 195, "integration/image": 180,
	"integration/hostile": 170, "integration/kit": 160, "integration/fuzz": 65, "integration/plan": 90, "integration/policies": 40,
	"integration/run": 35, "integration": 30, "integration/generate": 25, "integration/model": 40, "integration/cli": 20,
	"integration/link": 20,
	"e2e/swarm":        400, "e2e/pool": 280, "e2e/spread": 240, "e2e/kubernetes": 130, "e2e/certmanager": 90, "e2e/monitoring": 60,
	"e2e/namespaced": 60, "e2e/install": 25, "devcluster": 150, "unit": 190,
}

// position moves a suite before (negative) or after (positive) the others of its kind.
var position = map[string]int{
	"e2e/install":     -1, // looks at an installation that nothing has happened to yet
	"e2e/certmanager": 1,  // replaces the certificates of the installation
	"devcluster":      2,  // needs no cluster of a lane, and so fills the time of the lane that ends first
}

func byOrder(a, b suite) int {
	return cmp.Or(cmp.Compare(position[a.name], position[b.name]), cmp.Compare(seconds[b.name], seconds[a.name]), cmp.Compare(a.name, b.name))
}

// takeSuite removes and returns the next suite for a lane that has a cluster of the kind. A lane without suites for its cluster takes the
// kind with the most work left.
func takeSuite(waiting []suite, k kind) (next suite, rest []suite, found bool) {
	if len(waiting) == 0 {
		return suite{}, nil, false
	}
	wanted := k
	if !hasKind(waiting, k) {
		wanted = kindWithMostWork(waiting)
	}
	for n, s := range waiting {
		if s.kind == wanted {
			return s, append(append([]suite{}, waiting[:n]...), waiting[n+1:]...), true
		}
	}
	return suite{}, waiting, false
}

func hasKind(waiting []suite, wanted kind) bool {
	for _, s := range waiting {
		if s.kind == wanted {
			return true
		}
	}
	return false
}

func kindWithMostWork(waiting []suite) kind {
	work := map[kind]int{}
	for _, s := range waiting {
		work[s.kind] += seconds[s.name] + 1
	}
	best := waiting[0].kind
	for _, s := range waiting {
		if work[s.kind] > work[best] {
			best = s.kind
		}
	}
	return best
}
