package snapshot

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

const capacityTypeLabel = "karpenter.sh/capacity-type"

// testSettings returns the default settings.
func testSettings() Settings {
	return Settings{
		Prefix: v1alpha1.Prefix, Spot: []Label{{capacityTypeLabel, "spot"}}, OnDemand: []Label{{capacityTypeLabel, "on-demand"}},
		Notices: []string{"karpenter.sh/disrupted", "aws-node-termination-handler/*"}, Provisioner: ProvisionerNone,
		PendingDeadline: time.Minute, Cooldown: 10 * time.Second, Step: intstr.FromString("25%"),
	}
}

func deployment(annotations map[string]string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: annotations},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(10))}}
}

func annotations(pairs ...string) map[string]string {
	all := map[string]string{}
	for n := 0; n < len(pairs); n += 2 {
		all[v1alpha1.Prefix+pairs[n]] = pairs[n+1]
	}
	return all
}

func TestSpec(t *testing.T) {
	for _, c := range []struct {
		reason      string
		annotations map[string]string
		policy      *split.Policy
		problem     string
		managed     bool
	}{
		{"nothing said", nil, nil, "", false},
		{"numbers without enablement change nothing", annotations("spot-percentage", "60", "min-on-demand", "2"), nil, "", false},
		{"another word than enabled", annotations("spread", "true", "spot-percentage", "60"), nil, "", false},
		{"enabled without numbers changes nothing", annotations("spread", "enabled"), nil, "", false},
		{"both numbers", annotations("spread", "enabled", "spot-percentage", "60%", "min-on-demand", "2"),
			&split.Policy{MinOnDemand: 2, SpotPercent: 60}, "", true},
		{"percent 101", annotations("spread", "enabled", "spot-percentage", "101"), nil, `spot-percentage is "101"`, true},
		{"percent -1", annotations("spread", "enabled", "spot-percentage", "-1"), nil, `spot-percentage is "-1"`, true},
		{"percent abc", annotations("spread", "enabled", "spot-percentage", "abc"), nil, `spot-percentage is "abc"`, true},
		{"percent with a blank inside", annotations("spread", "enabled", "spot-percentage", "60 %"), nil, `spot-percentage is "60 %"`, true},
		{"the last valid setting stays", annotations("spread", "enabled", "spot-percentage", "x", "spread-settings",
			"min-on-demand:1,spot-percentage:30"), &split.Policy{MinOnDemand: 1, SpotPercent: 30}, `spot-percentage is "x"`, true},
		{"a last valid setting that the operator did not write", annotations("spread", "enabled", "spot-percentage", "x", "spread-settings",
			"all spot!"), nil, `spot-percentage is "x"`, true},
		{"too large to decide about", annotations("spread", "enabled", "spot-percentage", "60", "too-large", "true"), nil,
			"its selector, and the node selector", true},
		{"disabled though set before", annotations("spread", "disabled", "spot-percentage", "60", "spread-settings",
			"min-on-demand:1,spot-percentage:30"), nil, "", false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			wish := testSettings().Spec(workload.Deployment(deployment(c.annotations)))
			if !cmp.Equal(wish.Policy, c.policy) || !strings.Contains(wish.Problem, c.problem) || (c.problem == "") != (wish.Problem == "") ||
				wish.Managed() != c.managed {
				t.Errorf("got %+v, policy %+v", wish, wish.Policy)
			}
		})
	}
}

func TestAnnotationOverridesLabel(t *testing.T) {
	labelled := deployment(annotations("spot-percentage", "60"))
	labelled.Labels = annotations("spread", "enabled")
	if !testSettings().Spec(workload.Deployment(labelled)).Managed() {
		t.Error("the label does not enable")
	}
	labelled.Annotations[v1alpha1.Prefix+"spread"] = "disabled"
	if testSettings().Spec(workload.Deployment(labelled)).Managed() {
		t.Error("the annotation does not disable what the label enables")
	}
}

func TestAnotherPrefixIsAnotherContract(t *testing.T) {
	settings := testSettings()
	settings.Prefix = "example.com/"
	if settings.Spec(workload.Deployment(deployment(annotations("spread", "enabled", "spot-percentage", "60")))).Managed() {
		t.Error("the standard prefix still counts")
	}
	own := map[string]string{"example.com/spread": "enabled", "example.com/spot-percentage": "60", "example.com/pdb-override": "true"}
	if wish := settings.Spec(workload.Deployment(deployment(own))); !wish.Managed() || !wish.PDBOverride {
		t.Errorf("the configured prefix does not count: %+v", wish)
	}
}

func TestTemplateThatChoosesNodesItself(t *testing.T) {
	sixty := annotations("spread", "enabled", "spot-percentage", "60")
	selecting, requiring, naming, other := deployment(sixty), deployment(sixty), deployment(sixty), deployment(sixty)
	selecting.Spec.Template.Spec.NodeSelector = map[string]string{capacityTypeLabel: "spot"}
	requiring.Spec.Template.Spec.Affinity = requireLabel(capacityTypeLabel)
	naming.Spec.Template.Spec.NodeName = "node-7"
	other.Spec.Template.Spec.Affinity = requireLabel("zone")
	for _, c := range []struct {
		workload *appsv1.Deployment
		by       string
	}{{selecting, capacityTypeLabel}, {requiring, capacityTypeLabel}, {naming, "nodeName"}, {other, ""}} {
		wish := testSettings().Spec(workload.Deployment(c.workload))
		if (wish.Policy == nil) != (c.by != "") || !strings.Contains(wish.Problem, c.by) {
			t.Errorf("chooses by %q: got %+v", c.by, wish)
		}
	}
}

// The cost of a decision grows with replicas and numbers, which users set.
func TestTooManyReplicas(t *testing.T) {
	huge := deployment(annotations("spread", "enabled", "spot-percentage", "60"))
	huge.Spec.Replicas = new(int32(math.MaxInt32))
	if wish := testSettings().Spec(workload.Deployment(huge)); wish.Policy != nil ||
		wish.Problem != "it has 2147483647 replicas, and at most 100000 can be spread" {
		t.Errorf("got %+v", wish)
	}
	set := workload.StatefulSet(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}})
	for text, want := range map[string]int{"99999": 99999, "100000": split.Unnumbered, "9000000000000": split.Unnumbered} {
		if got := testSettings().Number(workload.Deployment(huge),
			&metav1.ObjectMeta{Annotations: annotations("spread-number", text)}); got != want {
			t.Errorf("number %s of a Deployment is %d", text, got)
		}
		if got := testSettings().Number(set, &metav1.ObjectMeta{Name: "db-" + text}); got != want {
			t.Errorf("ordinal %s is %d", text, got)
		}
	}
}

func requireLabel(key string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key,
			Operator: corev1.NodeSelectorOpExists}}}},
	}}}
}
