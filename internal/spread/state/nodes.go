package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

// Nodes is a snapshot of all nodes.
type Nodes struct {
	ByName                               map[string]snapshot.Node
	SpotAvailableAt, OnDemandAvailableAt time.Time // when a node of that class last began to accept pods
}

// NewNodes evaluates nodes that are seen for the first time.
func NewNodes(settings snapshot.Settings, list []corev1.Node, now time.Time) Nodes {
	nodes := Nodes{ByName: make(map[string]snapshot.Node, len(list))}
	for n := range list {
		node := WithInterruptedAt(snapshot.Node{}, settings.Node(&list[n]), now)
		nodes.ByName[node.Name] = node
		if last := nodes.AvailableAt(node.Class); AcceptsPods(node) && readySince(&list[n]).After(*last) {
			*last = readySince(&list[n])
		}
	}
	return nodes
}

// AvailableAt returns the field that holds when a node of a class last began to accept pods.
func (n *Nodes) AvailableAt(class split.Class) *time.Time {
	if class == split.Spot {
		return &n.SpotAvailableAt
	}
	return &n.OnDemandAvailableAt
}

// History returns what nodes say of the past.
func (n Nodes) History() snapshot.History {
	return snapshot.History{
		Spot:     snapshot.ClassHistory{NodeAvailableAt: n.SpotAvailableAt},
		OnDemand: snapshot.ClassHistory{NodeAvailableAt: n.OnDemandAvailableAt},
	}
}

// HasCapacity reports whether any node of a class accepts pods.
func (n Nodes) HasCapacity(class split.Class) bool {
	for _, node := range n.ByName {
		if node.Class == class && AcceptsPods(node) {
			return true
		}
	}
	return false
}

// AcceptsPods reports whether a node accepts pods that tolerate its taints.
func AcceptsPods(node snapshot.Node) bool { return node.Schedulable && node.Notice == "" }

// WithInterruptedAt sets the time at which the interruption of a node was first seen.
func WithInterruptedAt(before, after snapshot.Node, now time.Time) snapshot.Node {
	switch {
	case !after.Interrupted():
	case before.Interrupted():
		after.InterruptedAt = before.InterruptedAt
	default:
		after.InterruptedAt = metav1.NewTime(now)
	}
	return after
}

func readySince(node *corev1.Node) time.Time {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
