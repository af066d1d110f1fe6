package cli

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/internal/spread"
)

// hoursOfMonth is the number that cloud providers use.
const hoursOfMonth = 730

// prices are the hourly prices of a node of each class, in any currency.
type prices struct{ onDemand, spot float64 }

func (p *prices) known() bool { return p.onDemand > 0 }

func (p *prices) String() string {
	if !p.known() {
		return ""
	}
	return fmt.Sprintf("%s=%g,%s=%g", spread.OnDemand, p.onDemand, spread.Spot, p.spot)
}

func (p *prices) Type() string { return "prices" }

// Set parses a price for each class.
func (p *prices) Set(text string) error {
	read := map[string]float64{}
	for part := range strings.SplitSeq(text, ",") {
		class, number, _ := strings.Cut(strings.TrimSpace(part), "=")
		price, err := strconv.ParseFloat(number, 64)
		if err != nil || price < 0 || price > 1e6 {
			return fmt.Errorf("%q is no price: write on-demand=0.192,spot=0.058", part)
		}
		read[class] = price
	}
	onDemand, hasOnDemand := read[string(spread.OnDemand)]
	spot, hasSpot := read[string(spread.Spot)]
	if !hasOnDemand || !hasSpot || len(read) != 2 || onDemand <= 0 {
		return fmt.Errorf("%q does not name both classes: write on-demand=0.192,spot=0.058", text)
	}
	p.onDemand, p.spot = onDemand, spot
	return nil
}

// saving is what spot nodes save per month, now and with the desired split.
type saving struct {
	Now   float64 `json:"now"`
	Could float64 `json:"could"`
}

func (s saving) now() string   { return fmt.Sprintf("%.2f", s.Now) }
func (s saving) could() string { return fmt.Sprintf("%.2f", s.Could) }

// savings is based on the average share of their nodes that the scheduled pods request: a pod costs the capacity that others cannot
// use.
func (s *scenery) savings(pods []*corev1.Pod, decision spread.Decision, prices *prices) *saving {
	total, placed := 0.0, 0
	for _, pod := range pods {
		if machine := s.machines[pod.Spec.NodeName]; machine != nil {
			total, placed = total+share(pod, machine), placed+1
		}
	}
	if placed == 0 {
		return &saving{}
	}
	each := total / float64(placed) * (prices.onDemand - prices.spot) * hoursOfMonth
	return &saving{Now: each * float64(decision.Current.Spot), Could: each * float64(decision.Desired.Spot)}
}

// share returns the larger part of its node's CPU or memory that a pod requests, and at least one pod slot of the node.
func share(pod *corev1.Pod, machine *corev1.Node) float64 {
	largest := 0.0
	if places := machine.Status.Allocatable.Pods().AsApproximateFloat64(); places > 0 {
		largest = 1 / places
	}
	for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		asked := 0.0
		for _, container := range pod.Spec.Containers {
			asked += container.Resources.Requests.Name(resource, "").AsApproximateFloat64()
		}
		if there := machine.Status.Allocatable.Name(resource, "").AsApproximateFloat64(); there > 0 {
			largest = max(largest, asked/there)
		}
	}
	return min(largest, 1)
}
