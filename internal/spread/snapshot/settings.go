// Package snapshot reads what the spread engine needs from Kubernetes objects: whether and how to spread a workload, the class of a
// node, and the state of its pods. Admission, the controller and the command line all use it, so that they cannot disagree.
//
// It promises that the same objects give the same snapshot, in whatever order they come. It never reads the cluster, never writes, and
// never changes its arguments.
package snapshot

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
)

// Settings are the operator's configuration of spread.
type Settings struct {
	Prefix          string   // of the annotations
	Spot            []Label  // any of them marks a node as spot
	OnDemand        []Label  // any of them marks a node as on-demand; a node without label counts as such, too
	Notices         []string // keys of taints that say that a node is going away; a trailing * matches anything
	Provisioner     Provisioner
	PendingDeadline time.Duration
	Cooldown        time.Duration
	Step            intstr.IntOrString // how many replicas of a workload we may take away at once
	Windows         string             // when Ready pods may be moved, if workload and namespace do not say
	ReadOnly        bool
}

// DefaultSettings returns the default settings.
func DefaultSettings() Settings {
	const capacity = "karpenter.sh/capacity-type"
	return Settings{
		Prefix: v1alpha1.Prefix, Spot: []Label{{capacity, "spot"}}, OnDemand: []Label{{capacity, "on-demand"}},
		Notices: []string{
			"karpenter.sh/disrupted", "karpenter.sh/disruption",
			corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeOutOfService,
			"node.cloudprovider.kubernetes.io/shutdown", "cloud.google.com/impending-node-termination", "aws-node-termination-handler/*",
			"ToBeDeletedByClusterAutoscaler",
		},
		Provisioner: ProvisionerAuto, PendingDeadline: time.Minute, Cooldown: 10 * time.Second, Step: intstr.FromString("25%"),
	}
}

// Label is a node label.
type Label struct{ Key, Value string }

// Provisioner says whether nodes are added for Pending pods.
type Provisioner string

// The provisioners.
const (
	// ProvisionerAuto detects provisioners by the labels that they set on nodes.
	ProvisionerAuto Provisioner = "auto"
	// ProvisionerPresent waits PendingDeadline before a class without nodes counts as having no room.
	ProvisionerPresent Provisioner = "present"
	// ProvisionerNone treats a class without nodes as one without room.
	ProvisionerNone Provisioner = "none"
)

// Key returns the annotation's key under the configured prefix.
func (s Settings) Key(annotation v1alpha1.SpreadAnnotation) string { return annotation.Key(s.Prefix) }

// Spec is how a workload wants to be spread. The zero value means that it does not.
type Spec struct {
	Policy      *split.Policy // nil: pods are not moved
	Problem     string        // what is wrong with the current setting, "" for nothing
	PDBOverride bool          // may delete where a disruption budget refuses
	Windows     string        // its own, "" for those of the namespace
}

// Managed reports whether a workload is spread, or only an invalid setting prevents that.
func (s Spec) Managed() bool { return s.Policy != nil || s.Problem != "" }

// Enabled reports whether a workload opts in, by annotation or label.
func (s Settings) Enabled(workload metav1.Object) bool {
	key := s.Key(v1alpha1.SpreadMode)
	mode, found := workload.GetAnnotations()[key]
	if !found {
		mode = workload.GetLabels()[key]
	}
	return strings.TrimSpace(mode) == v1alpha1.SpreadEnabled
}

// Spec reads the settings of a workload. If they are invalid, the last valid ones, which the workload carries, stay in force.
func (s Settings) Spec(w workloads.Workload) Spec {
	if w.Object == nil || !s.Enabled(w) {
		return Spec{}
	}
	annotationValue := func(annotation v1alpha1.SpreadAnnotation) string { return w.GetAnnotations()[s.Key(annotation)] }
	spec := Spec{PDBOverride: strings.TrimSpace(annotationValue(v1alpha1.SpreadPDBOverride)) == "true",
		Windows: strings.TrimSpace(annotationValue(v1alpha1.SpreadWindows))}
	policy, err := split.Parse(annotationValue(v1alpha1.SpreadMinOnDemand), annotationValue(v1alpha1.SpreadSpotPercentage))
	if err != nil {
		spec.Problem = err.Error()
		policy, _ = split.ParsePolicy(annotationValue(v1alpha1.SpreadSettings)) // we did not write what cannot be read
	}
	if spec.Policy = policy; policy == nil {
		return spec
	}
	if w.Replicas > split.MaxReplicas {
		spec.Policy, spec.Problem = nil, fmt.Sprintf("it has %d replicas, and at most %d can be spread", w.Replicas, split.MaxReplicas)
	}
	if workloads.TooLarge(w) {
		spec.Policy, spec.Problem = nil, workloads.WorkloadTooLarge+", or disable spread"
	}
	if key := s.templateNodeChoice(w); key != "" {
		spec.Policy, spec.Problem = nil, "its template chooses nodes by "+key+" itself: take that out of the template, or disable spread"
	}
	return spec
}
