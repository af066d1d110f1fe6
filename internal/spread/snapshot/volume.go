package snapshot

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

// immovableReason returns why a pod that belongs on the other class cannot go there: it has a volume that no node of that class can reach.
// It is unknown if that class has no nodes.
func (o Objects) immovableReason(pod *corev1.Pod, replica split.Pod) (string, error) {
	if o.Volumes == nil || o.Spec.Policy == nil || replica.Phase == split.Terminating {
		return "", nil
	}
	target := replica.NodeClass.Other() // where a pod without a number would move
	if replica.Number != split.Unnumbered {
		target = split.Of(*o.Spec.Policy, replica.Number)
	}
	if target == replica.NodeClass {
		return "", nil
	}
	volumes, err := o.Volumes(pod)
	if err != nil {
		return "", err
	}
	for _, volume := range volumes {
		reachable, err := o.canReach(volume, target)
		if err != nil {
			return "", fmt.Errorf("read node affinity of volume %q: %w", volume.Name, err)
		}
		if !reachable {
			return fmt.Sprintf("has volume %s, which no %s node can reach", volume.Name, target), nil
		}
	}
	return "", nil
}

// canReach reports whether any node of a class can reach a volume, or the class has no nodes.
func (o Objects) canReach(volume *corev1.PersistentVolume, class split.Class) (bool, error) {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return true, nil
	}
	selector, err := nodeaffinity.NewNodeSelector(volume.Spec.NodeAffinity.Required)
	if err != nil {
		return false, err
	}
	classHasNodes := false
	for name, node := range o.Nodes {
		if node.Class != class {
			continue
		}
		if classHasNodes = true; selector.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: node.Labels}}) {
			return true, nil
		}
	}
	return !classHasNodes, nil
}
