package survey

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/swarm-io/swarm-operator/internal/spread"
)

// bound returns why a pod that belongs on the other class cannot go there: it has a volume that no node of that class can reach. It is
// unknown if that class has no nodes.
func (c Scene) bound(pod *corev1.Pod, seen spread.Pod) (string, error) {
	if c.Volumes == nil || c.Wish.Policy == nil || seen.Phase == spread.Terminating {
		return "", nil
	}
	wanted := seen.Node.Other() // where a pod without a number would move
	if seen.Number != spread.Unnumbered {
		wanted = spread.Of(*c.Wish.Policy, seen.Number)
	}
	if wanted == seen.Node {
		return "", nil
	}
	volumes, err := c.Volumes(pod)
	if err != nil {
		return "", err
	}
	for _, volume := range volumes {
		reachable, err := c.reaches(volume, wanted)
		if err != nil {
			return "", fmt.Errorf("read node affinity of volume %q: %w", volume.Name, err)
		}
		if !reachable {
			return fmt.Sprintf("has volume %s, which no %s node can reach", volume.Name, wanted), nil
		}
	}
	return "", nil
}

// reaches reports whether any node of a class can reach a volume, or the class has no nodes.
func (c Scene) reaches(volume *corev1.PersistentVolume, class spread.Class) (bool, error) {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return true, nil
	}
	selector, err := nodeaffinity.NewNodeSelector(volume.Spec.NodeAffinity.Required)
	if err != nil {
		return false, err
	}
	some := false
	for name, node := range c.Nodes {
		if node.Class != class {
			continue
		}
		if some = true; selector.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: node.Labels}}) {
			return true, nil
		}
	}
	return !some, nil
}
