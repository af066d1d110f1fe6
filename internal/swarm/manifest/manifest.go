// Package manifest turns a Swarm into the objects that run it: a StatefulSet for each agent type, a headless Service, a ConfigMap
// and the Agents.
//
// It promises the same bytes for the same input, stable names, and pods that meet the restricted standard unless the user's template
// itself deviates from it. It adds no token except the one for the link; what the template mounts stays. It never accesses a cluster.
package manifest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// Settings are the parts of the configuration that are not in a Swarm.
type Settings struct {
	Image     string // contains /swarm-agent
	Link      string // host:port at which agents reach the operator
	Authority string // PEM of the CA that signs the operator's certificate

	ShortestLease time.Duration // with which an agent's work survives a change of the operator's leader

	SpreadPrefix string // of the annotations that split replicas between spot and on-demand nodes
	SpreadOff    string // why those annotations have no effect; "" if they have one
}

// Workload returns the name of a type's StatefulSet. Like all names here it depends only on the swarm.
func (m Swarm) Workload(kind string) string { return m.Name + "-" + kind }
func (m Swarm) serviceName() string         { return m.Name }
func (m Swarm) configMapName() string       { return m.Name + "-config" }

// AgentName returns the name of an agent and its pod.
func (m Swarm) AgentName(kind string, ordinal int) string {
	return fmt.Sprintf("%s-%d", m.Workload(kind), ordinal)
}

// Ordinal returns the number of an agent within its type, if it is of that type.
func (m Swarm) Ordinal(kind, agent string) (ordinal int, ok bool) {
	number, ok := strings.CutPrefix(agent, m.Workload(kind)+"-")
	ordinal, err := strconv.Atoi(number)
	return ordinal, ok && err == nil && ordinal >= 0
}

// Swarm is a swarm with the number of agents of each type, in declared order.
type Swarm struct {
	*v1alpha1.Swarm
	Counts   []int
	Settings Settings
}

// labels are on all objects of a swarm; kind is an agent type, or "".
func (m Swarm) labels(kind string) map[string]string {
	labels := map[string]string{
		v1alpha1.LabelManagedBy:     v1alpha1.ManagedByOperator,
		"app.kubernetes.io/part-of": m.Name,
		v1alpha1.LabelSwarm:         m.Name,
	}
	if kind != "" {
		labels[v1alpha1.LabelAgentType] = kind
	}
	return labels
}

// selector returns the labels by which objects are found. It can never change.
func (m Swarm) selector(kind string) map[string]string {
	return map[string]string{v1alpha1.LabelSwarm: m.Name, v1alpha1.LabelAgentType: kind}
}

// objectMeta returns the metadata of an owned object.
func (m Swarm) objectMeta(name, kind string) metav1.ObjectMeta {
	owner := metav1.NewControllerRef(m.Swarm, v1alpha1.GroupVersion.WithKind("Swarm"))
	return metav1.ObjectMeta{Name: name, Namespace: m.Namespace, Labels: m.labels(kind), OwnerReferences: []metav1.OwnerReference{*owner}}
}
