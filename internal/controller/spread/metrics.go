package spread

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	engine "github.com/swarm-io/swarm-operator/internal/spread"
)

// metrics are computed at each scrape, from memory, and by the leader only: the sum over all replicas is correct. Object names are never
// labels.
type metrics struct {
	moves    *prometheus.CounterVec
	memories *memories
	nodes    *nodes
}

var (
	workloadsShown = prometheus.NewDesc("swarm_spread_workloads", "Workloads that are spread, by their status.", []string{"status"}, nil)
	podsShown      = prometheus.NewDesc("swarm_spread_pods", "Pods of workloads that are spread, by class of nodes, as wanted and as they are.", []string{"class", "state"}, nil)
	nodesShown     = prometheus.NewDesc("swarm_spread_nodes", "Nodes by class, and by whether their labels say so.", []string{"class", "labels"}, nil)
)

func newMetrics(registry prometheus.Registerer, memories *memories, nodes *nodes) *metrics {
	m := &metrics{memories: memories, nodes: nodes, moves: promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
		Name: "swarm_spread_moves_total", Help: "Pods that were taken away, so that their replacement comes up elsewhere."}, []string{"verb", "from", "to"})}
	registry.MustRegister(m)
	return m
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{workloadsShown, podsShown, nodesShown} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	view := m.nodes.known()
	if view == nil {
		return // this is not the leader, or not yet
	}
	show := func(desc *prometheus.Desc, value int, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	statuses, desired, current := m.memories.totals()
	for _, word := range []engine.Status{engine.Balanced, engine.Rebalancing, engine.SpotUnavailable, engine.BlockedByPDB, engine.Invalid} {
		show(workloadsShown, statuses[word], string(word))
	}
	for state, total := range map[string]engine.Distribution{"desired": desired, "current": current} {
		show(podsShown, total.Spot, string(engine.Spot), state)
		show(podsShown, total.OnDemand, string(engine.OnDemand), state)
	}
	for of, count := range view.kinds() {
		show(nodesShown, count, string(of.class), of.labels)
	}
}

// totals sums all managed workloads.
func (m *memories) totals() (statuses map[engine.Status]int, desired, current engine.Distribution) {
	m.lock.Lock()
	defer m.lock.Unlock()
	statuses = map[engine.Status]int{}
	for _, of := range m.shown {
		statuses[of.Status]++
		desired.Spot, desired.OnDemand = desired.Spot+of.Desired.Spot, desired.OnDemand+of.Desired.OnDemand
		current.Spot, current.OnDemand = current.Spot+of.Current.Spot, current.OnDemand+of.Current.OnDemand
	}
	return statuses, desired, current
}

// labelled is a node's class and the label that determines it.
type labelled struct {
	class  engine.Class
	labels string
}

// kinds counts nodes.
func (l landscape) kinds() map[labelled]int {
	counts := map[labelled]int{{engine.Spot, "labelled"}: 0, {engine.OnDemand, "labelled"}: 0}
	for _, node := range l.nodes {
		of := labelled{node.Class, "labelled"}
		if node.LabelProblem != "" {
			of.labels = string(node.LabelProblem)
		}
		counts[of]++
	}
	return counts
}

// known returns the landscape, nil before its first use.
func (n *nodes) known() *landscape {
	n.lock.Lock()
	defer n.lock.Unlock()
	return n.view
}
