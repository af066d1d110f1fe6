package main

import "cmp"

// seconds is about how long suites take. It only decides their order, so that lanes end at about the same time; a suite that is not here is
// taken to be short.
var seconds = map[string]int{
	"integration/crash": 300, "integration/operator": 300, "integration/spread": 300, "integration/kit": 160, "integration/pool": 120, "integration/hostile": 90,
	"integration/fuzz": 75, "integration/image": 60,
	"e2e/swarm": 300, "e2e/spread": 180, "e2e/pool": 180, "devcluster": 150, "e2e/kubernetes": 130, "e2e/monitoring": 60,
	"unit": 150,
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

// take removes and returns the next suite for a lane that has a cluster of the kind. A lane without suites for its cluster takes the kind of
// which most work is left.
func take(waiting []suite, has kind) (next suite, rest []suite, found bool) {
	if len(waiting) == 0 {
		return suite{}, nil, false
	}
	wanted := has
	if !hasKind(waiting, has) {
		wanted = mostWork(waiting)
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

func mostWork(waiting []suite) kind {
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
