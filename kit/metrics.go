package kit

import (
	"regexp"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	results = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "swarm_reconcile_results_total",
		Help: "Reconciles by controller, outcome and reason.",
	}, []string{"controller", "outcome", "reason"})

	panics = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "swarm_reconcile_panics_total",
		Help: "Reconciles that panicked. The program continued, and the object was retried.",
	}, []string{"controller"})
)

func init() {
	metrics.Registry.MustRegister(results, panics, eventsDropped)
}

const (
	maxReasons  = 64
	otherReason = "Other"
)

// reasonPattern matches reasons, and no sentences or names of objects.
var reasonPattern = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`)

// A reasonLimiter bounds the reasons that become labels: whatever a reconciler returns, the metric has at most maxReasons of
// them. The log line has the original reason.
type reasonLimiter struct {
	lock sync.Mutex
	seen map[string]bool
}

func (v *reasonLimiter) labelFor(reason string) string {
	if reason == "" {
		return ""
	}
	if !reasonPattern.MatchString(reason) {
		return otherReason
	}
	v.lock.Lock()
	defer v.lock.Unlock()
	if v.seen[reason] {
		return reason
	}
	if len(v.seen) >= maxReasons {
		return otherReason
	}
	if v.seen == nil {
		v.seen = map[string]bool{}
	}
	v.seen[reason] = true
	return reason
}
