package spread

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/spread/state"
)

// metrics are computed at each scrape, from memory, and by the leader only: the sum over all replicas is correct. Object names are never
// labels.
type metrics struct {
	moves  *prometheus.CounterVec
	states *stateStore
	nodes  *nodeTracker
}

var (
	workloadsDesc = prometheus.NewDesc("swarm_spread_workloads", "Workloads that are spread, by their status.", []string{"status"}, nil)
	podsDesc      = prometheus.NewDesc("swarm_spread_pods", "Pods of workloads that are spread, by class of nodes, wanted and actual.",
		[]string{"class", "state"}, nil)
	nodesDesc = prometheus.NewDesc("swarm_spread_nodes", "Nodes by class, and by whether their labels say so.", []string{"class", "labels"},
		nil)
)

func newMetrics(registry prometheus.Registerer, memories *stateStore, nodes *nodeTracker) *metrics {
	m := &metrics{states: memories, nodes: nodes, moves: promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
		Name: "swarm_spread_moves_total", Help: "Pods that were removed so that their replacement runs elsewhere."},
		[]string{"verb", "from", "to"})}
	registry.MustRegister(m)
	return m
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{workloadsDesc, podsDesc, nodesDesc} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	snap := m.nodes.latest()
	if snap == nil {
		return // this is not the leader, or not yet
	}
	emit := func(desc *prometheus.Desc, value int, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	statuses, desired, current := m.states.totals()
	for _, word := range []split.Status{split.Balanced, split.Rebalancing, split.SpotUnavailable, split.BlockedByPDB, split.Invalid} {
		emit(workloadsDesc, statuses[word], string(word))
	}
	for state, total := range map[string]split.Distribution{"desired": desired, "current": current} {
		emit(podsDesc, total.Spot, string(split.Spot), state)
		emit(podsDesc, total.OnDemand, string(split.OnDemand), state)
	}
	for of, count := range countByKind(*snap) {
		emit(nodesDesc, count, string(of.class), of.labels)
	}
}

// totals sums all managed workloads.
func (s *stateStore) totals() (statuses map[split.Status]int, desired, current split.Distribution) {
	s.lock.Lock()
	defer s.lock.Unlock()
	statuses = map[split.Status]int{}
	for _, decision := range s.decisions {
		statuses[decision.Status]++
		desired.Spot, desired.OnDemand = desired.Spot+decision.Desired.Spot, desired.OnDemand+decision.Desired.OnDemand
		current.Spot, current.OnDemand = current.Spot+decision.Current.Spot, current.OnDemand+decision.Current.OnDemand
	}
	return statuses, desired, current
}

// nodeKind is a node's class and the label that determines it.
type nodeKind struct {
	class  split.Class
	labels string
}

// countByKind counts nodes.
func countByKind(nodes state.Nodes) map[nodeKind]int {
	counts := map[nodeKind]int{{split.Spot, "labelled"}: 0, {split.OnDemand, "labelled"}: 0}
	for _, node := range nodes.ByName {
		kind := nodeKind{node.Class, "labelled"}
		if node.LabelProblem != "" {
			kind.labels = string(node.LabelProblem)
		}
		counts[kind]++
	}
	return counts
}

// latest returns the snapshot, nil before its first use.
func (n *nodeTracker) latest() *state.Nodes {
	n.lock.Lock()
	defer n.lock.Unlock()
	return n.current
}
