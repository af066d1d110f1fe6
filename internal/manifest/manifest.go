// Package manifest turns a Swarm into the objects that run it: a StatefulSet for each agent type, a headless Service, a ConfigMap
// and the Agents.
//
// It promises the same bytes for the same input, names that would be the same tomorrow, and pods that meet the restricted
// standard unless the user's template says otherwise itself. It adds no token but the one for the link; what the template
// mounts stays. It never talks to a cluster.
package manifest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// Settings are what the operator knows and a Swarm does not.
type Settings struct {
	Image     string // holds /swarm-agent
	Link      string // host:port at which agents reach the operator
	Authority string // PEM of the CA that signs the operator's certificate

	ShortestLease time.Duration // with which an agent's work survives a change of the operator's leader

	SpreadPrefix string // of the annotations that split replicas between spot and on-demand nodes
	SpreadOff    string // why nobody follows those annotations; "" when somebody does
}

// Workload is the name of a type's StatefulSet. Like every name here it follows from the swarm alone.
func (m Swarm) Workload(kind string) string { return m.Name + "-" + kind }
func (m Swarm) service() string             { return m.Name }
func (m Swarm) config() string              { return m.Name + "-config" }

// AgentName is the name of an agent, which is also its pod's.
func (m Swarm) AgentName(kind string, ordinal int) string {
	return fmt.Sprintf("%s-%d", m.Workload(kind), ordinal)
}

// Ordinal is the number of an agent among those of its type, if it is of that type.
func (m Swarm) Ordinal(kind, agent string) (ordinal int, ours bool) {
	number, ours := strings.CutPrefix(agent, m.Workload(kind)+"-")
	ordinal, err := strconv.Atoi(number)
	return ordinal, ours && err == nil && ordinal >= 0
}

// Swarm is a swarm with the number of agents of each type, in declared order.
type Swarm struct {
	*v1alpha1.Swarm
	Counts   []int
	Settings Settings
}

// labels are on everything that belongs to a swarm; kind is an agent type, or nothing.
func (m Swarm) labels(kind string) map[string]string {
	all := map[string]string{
		v1alpha1.LabelManagedBy:     v1alpha1.ManagedByOperator,
		"app.kubernetes.io/part-of": m.Name,
		v1alpha1.LabelSwarm:         m.Name,
	}
	if kind != "" {
		all[v1alpha1.LabelAgentType] = kind
	}
	return all
}

// selector is the part of the labels by which objects are found. It can never change.
func (m Swarm) selector(kind string) map[string]string {
	return map[string]string{v1alpha1.LabelSwarm: m.Name, v1alpha1.LabelAgentType: kind}
}

// meta is the metadata of an owned object.
func (m Swarm) meta(name, kind string) metav1.ObjectMeta {
	owner := metav1.NewControllerRef(m.Swarm, v1alpha1.GroupVersion.WithKind("Swarm"))
	return metav1.ObjectMeta{Name: name, Namespace: m.Namespace, Labels: m.labels(kind), OwnerReferences: []metav1.OwnerReference{*owner}}
}
