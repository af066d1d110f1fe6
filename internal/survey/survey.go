// Package survey reads what the spread engine must know out of Kubernetes objects: whether a workload is to be spread and how, which
// class a node is of, and how its pods stand. Admission, the controller and the command line all see the world through it, so that they
// cannot disagree.
//
// It promises that the same objects give the same world, in whatever order they come. It never reads the cluster, never writes, and never
// changes what it is given.
package survey

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread"
)

// Settings are what the operator's configuration says about spread.
type Settings struct {
	Prefix          string   // of the annotations
	Spot            []Label  // any of them makes a node spot
	OnDemand        []Label  // any of them makes a node on-demand; one without label counts as such, too
	Notices         []string // keys of taints that say that a node is going away; * at the end stands for anything
	Provisioner     Provisioner
	PendingDeadline time.Duration
	Cooldown        time.Duration
	Step            intstr.IntOrString // how many replicas of a workload may be away for our sake
	Windows         string             // when Ready pods may be moved, for workloads and namespaces that say nothing
	ReadOnly        bool
}

// Standard are the settings of an operator that was told nothing.
func Standard() Settings {
	const capacity = "karpenter.sh/capacity-type"
	return Settings{
		Prefix: v1alpha1.Prefix, Spot: []Label{{capacity, "spot"}}, OnDemand: []Label{{capacity, "on-demand"}},
		Notices: []string{
			"karpenter.sh/disrupted", "karpenter.sh/disruption",
			corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeOutOfService,
			"node.cloudprovider.kubernetes.io/shutdown", "cloud.google.com/impending-node-termination", "aws-node-termination-handler/*", "ToBeDeletedByClusterAutoscaler",
		},
		Provisioner: ProvisionerAuto, PendingDeadline: time.Minute, Cooldown: 10 * time.Second, Step: intstr.FromString("25%"),
	}
}

// Label is a label of nodes.
type Label struct{ Key, Value string }

// Provisioner says whether nodes are made when pods wait.
type Provisioner string

// The provisioners.
const (
	// ProvisionerAuto goes by the labels that provisioners leave on nodes.
	ProvisionerAuto Provisioner = "auto"
	// ProvisionerPresent gives a class without nodes the time of a pending pod.
	ProvisionerPresent Provisioner = "present"
	// ProvisionerNone takes a class without nodes for one without room.
	ProvisionerNone Provisioner = "none"
)

// Key is the annotation's key under the configured prefix.
func (s Settings) Key(annotation v1alpha1.SpreadAnnotation) string { return annotation.Key(s.Prefix) }

// Wish is how a workload wants to be spread. The zero value is not at all.
type Wish struct {
	Policy   *spread.Policy // nil: pods are left where they are
	Problem  string         // what is wrong with the present setting, "" for nothing
	Override bool           // may delete where a disruption budget refuses
	Windows  string         // its own, "" for those of the namespace
}

// Managed tells whether a workload is any business of ours.
func (w Wish) Managed() bool { return w.Policy != nil || w.Problem != "" }

// Enabled tells whether a workload opts in, by annotation or label.
func (s Settings) Enabled(workload metav1.Object) bool {
	key := s.Key(v1alpha1.SpreadMode)
	mode, found := workload.GetAnnotations()[key]
	if !found {
		mode = workload.GetLabels()[key]
	}
	return strings.TrimSpace(mode) == v1alpha1.SpreadEnabled
}

// WorkloadTooLarge says what is wrong with a workload that is TooLarge.
const WorkloadTooLarge = "its selector, and the node selector, affinity, tolerations and ports of its template, exceed 16 KiB together, " +
	"or 4 KiB in a namespace beyond limits.cacheBytesPerNamespace: reduce them"

// TooLarge reports whether so little of an object is in the operator's cache that nothing may be decided about it.
func TooLarge(object metav1.Object) bool {
	return object.GetAnnotations()[v1alpha1.AnnotationTooLarge] != ""
}

// Wish reads what a workload asks for. A setting that is wrong leaves the last good one in force, which the workload carries.
func (s Settings) Wish(workload Workload) Wish {
	if workload.Object == nil || !s.Enabled(workload) {
		return Wish{}
	}
	said := func(annotation v1alpha1.SpreadAnnotation) string { return workload.GetAnnotations()[s.Key(annotation)] }
	wish := Wish{Override: strings.TrimSpace(said(v1alpha1.SpreadPDBOverride)) == "true", Windows: strings.TrimSpace(said(v1alpha1.SpreadWindows))}
	policy, err := spread.Parse(said(v1alpha1.SpreadMinOnDemand), said(v1alpha1.SpreadSpotPercentage))
	if err != nil {
		wish.Problem = err.Error()
		policy, _ = spread.ParsePolicy(said(v1alpha1.SpreadSettings)) // what cannot be read was not written by us
	}
	if wish.Policy = policy; policy == nil {
		return wish
	}
	if workload.Replicas > spread.MostReplicas {
		wish.Policy, wish.Problem = nil, fmt.Sprintf("it has %d replicas, and at most %d can be spread", workload.Replicas, spread.MostReplicas)
	}
	if TooLarge(workload) {
		wish.Policy, wish.Problem = nil, WorkloadTooLarge+", or disable spread"
	}
	if key := s.chosen(workload); key != "" {
		wish.Policy, wish.Problem = nil, "its template chooses nodes by "+key+" itself: take that out of the template, or disable spread"
	}
	return wish
}
