package handover

import (
	"testing"

	"github.com/swarm-io/swarm-operator/test/model/explore"
	"github.com/swarm-io/swarm-operator/test/model/explore/prove"
)

// states is how many states are searched without one of the rules.
const states = 150_000

func TestX02_EveryRuleNeeded(t *testing.T) {
	t.Parallel()
	prove.EveryRuleIsNeeded(t, protocol, explore.Limits{States: states})
}

func TestTracesAreReadable(t *testing.T) {
	model := Model{Rules: explore.All(ruleCount), Scenario: Everything}
	prove.StepsAreDescribed(t, model, model.initial(), map[explore.Step]string{
		{Action: plan, Subject: 1}:   "the pool plans to give the job to w-1",
		{Action: grant}:              "operator-1 writes the list with the job for w-0",
		{Action: syncFile}:           "the kubelet brings list 1 (with the job) to w-0",
		{Action: changeLeader}:       "operator-2 takes the Lease",
		{Action: endPod, Subject: 2}: "the process of w-0' has ended, and its pod is gone",
	})
}

func TestDocumentationNamesEveryRule(t *testing.T) {
	prove.EveryRuleIsDocumented(t, Removals)
}
