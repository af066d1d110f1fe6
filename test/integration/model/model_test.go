// Package model searches the models of the protocols further than their unit tests do: for about half a minute, as `make model` does. It
// computes all the time, and so it runs beside suites that wait. `make soak` goes further still.
package model

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/swarm-io/swarm-operator/test/model/dispatch"
	"github.com/swarm-io/swarm-operator/test/model/explore"
	"github.com/swarm-io/swarm-operator/test/model/explore/prove"
	"github.com/swarm-io/swarm-operator/test/model/handover"
)

// The number of states that are searched in each scenario, at most.
const (
	dispatchStates = 100_000
	handoverStates = 150_000
)

func TestModel(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "The models of the protocols")
}

var _ = It("[X02/million-states] dispatch has no violation in any order of events", func() {
	prove.NoViolations(GinkgoTB(), dispatch.Check(explore.Limits{States: dispatchStates}), dispatch.LastAction, dispatch.ForbiddenActions)
})

var _ = It("[X02/million-states] the hand-over has no violation in any order of events", func() {
	prove.NoViolations(GinkgoTB(), handover.Check(explore.Limits{States: handoverStates}), handover.LastAction, handover.ForbiddenActions)
})
