// Package model searches the model of dispatch further than its unit tests do: for about half a minute, as `make model` does. It computes
// all the time, and so it runs beside suites that wait. `make soak` goes further still.
package model

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/swarm-io/swarm-operator/test/model/dispatch"
	"github.com/swarm-io/swarm-operator/test/model/explore"
)

// states is how many are searched in each scenario.
const states = 100_000

func TestModel(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "The model of dispatch")
}

var _ = It("has no violation in any order of events", func() {
	Expect(explore.Print(GinkgoWriter, dispatch.Check(explore.Limits{States: states}))).To(BeZero(), "the output describes the violations")
})
