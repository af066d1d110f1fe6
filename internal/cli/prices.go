package cli

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

// hoursPerMonth is the number that cloud providers use.
const hoursPerMonth = 730

// prices are the hourly prices of a node of each class, in any currency.
type prices struct{ onDemand, spot float64 }

func (p *prices) isSet() bool { return p.onDemand > 0 }

func (p *prices) String() string {
	if !p.isSet() {
		return ""
	}
	return fmt.Sprintf("%s=%g,%s=%g", split.OnDemand, p.onDemand, split.Spot, p.spot)
}

func (p *prices) Type() string { return "prices" }

// Set parses a price for each class.
func (p *prices) Set(text string) error {
	parsed := map[string]float64{}
	for part := range strings.SplitSeq(text, ",") {
		class, number, _ := strings.Cut(strings.TrimSpace(part), "=")
		price, err := strconv.ParseFloat(number, 64)
		if err != nil || price < 0 || price > 1e6 {
			return fmt.Errorf("%q is no price: write on-demand=0.192,spot=0.058", part)
		}
		parsed[class] = price
	}
	onDemand, hasOnDemand := parsed[string(split.OnDemand)]
	spot, hasSpot := parsed[string(split.Spot)]
	if !hasOnDemand || !hasSpot || len(parsed) != 2 || onDemand <= 0 {
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

func (s saving) formatNow() string   { return fmt.Sprintf("%.2f", s.Now) }
func (s saving) formatCould() string { return fmt.Sprintf("%.2f", s.Could) }

// savings is based on the average share of their nodes that the scheduled pods request: a pod costs the capacity that others cannot
// use.
func (s *clusterState) savings(pods []*corev1.Pod, decision split.Decision, prices *prices) *saving {
	total, placed := 0.0, 0
	for _, pod := range pods {
		if node := s.nodeObjects[pod.Spec.NodeName]; node != nil {
			total, placed = total+requestedShare(pod, node), placed+1
		}
	}
	if placed == 0 {
		return &saving{}
	}
	perPod := total / float64(placed) * (prices.onDemand - prices.spot) * hoursPerMonth
	return &saving{Now: perPod * float64(decision.Current.Spot), Could: perPod * float64(decision.Desired.Spot)}
}

// requestedShare returns the larger part of its node's CPU or memory that a pod requests, and at least one pod slot of the node.
func requestedShare(pod *corev1.Pod, node *corev1.Node) float64 {
	largest := 0.0
	if podSlots := node.Status.Allocatable.Pods().AsApproximateFloat64(); podSlots > 0 {
		largest = 1 / podSlots
	}
	for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		requested := 0.0
		for _, container := range pod.Spec.Containers {
			requested += container.Resources.Requests.Name(resource, "").AsApproximateFloat64()
		}
		if allocatable := node.Status.Allocatable.Name(resource, "").AsApproximateFloat64(); allocatable > 0 {
			largest = max(largest, requested/allocatable)
		}
	}
	return min(largest, 1)
}
