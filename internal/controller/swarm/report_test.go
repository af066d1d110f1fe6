package swarm

import (
	"strings"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/manifest"
)

func TestShortLeaseWarning(t *testing.T) {
	for seconds, short := range map[int32]bool{0: false, 38: true, 39: false, 3600: false} {
		got := shortLeaseWarning(v1alpha1.AgentType{LeaseSeconds: seconds}, 39*time.Second)
		if (got != "") != short || short &&
			got != "leaseSeconds is 38: work of this type restarts when the leader of the operator changes; with 39 or more it continues" {
			t.Errorf("%d: got %q", seconds, got)
		}
	}
}

func TestStatusOfATypeWarnsOfAShortLease(t *testing.T) {
	swarm := &v1alpha1.Swarm{Spec: v1alpha1.SwarmSpec{Agents: []v1alpha1.AgentType{{Type: "brief", LeaseSeconds: 10}, {Type: "lasting"}}}}
	setCounts(manifest.Swarm{Swarm: swarm, Counts: []int{1, 1}, Settings: manifest.Settings{ShortestLease: 39 * time.Second}}, snapshot{})
	if types := swarm.Status.Types; len(types) != 2 || !strings.HasPrefix(types[0].Message, "leaseSeconds is 10: ") || types[1].Message != "" {
		t.Errorf("status of the types: %+v", types)
	}
}

func TestWhatIsNotSupportedIsNamed(t *testing.T) {
	overHTTP := v1alpha1.SwarmSpec{Agents: []v1alpha1.AgentType{{Type: "coder",
		Runtime: &v1alpha1.AgentRuntime{HTTP: &v1alpha1.HTTPRuntime{}}}}}
	for _, c := range []struct {
		reason string
		spec   v1alpha1.SwarmSpec
		off    string
		want   string
	}{
		{"nothing is asked for", v1alpha1.SwarmSpec{}, "no nodes", ""},
		{"spread is supported", v1alpha1.SwarmSpec{Spread: &v1alpha1.Spread{}}, "", ""},
		{"spread is not supported", v1alpha1.SwarmSpec{Spread: &v1alpha1.Spread{}}, "no nodes",
			"spread is not supported by this operator: no nodes"},
		{"this version", overHTTP, "", `type "coder": runtime.http is not supported`},
	} {
		desired := manifest.Swarm{Swarm: &v1alpha1.Swarm{Spec: c.spec}, Settings: manifest.Settings{SpreadOff: c.off}}
		if got := unsupportedFeature(desired); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: got %q", c.reason, got)
		}
	}
}
