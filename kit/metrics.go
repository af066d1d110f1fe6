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
		Help: "Reconciles by controller, by how they ended and by the reason they gave.",
	}, []string{"controller", "outcome", "reason"})

	panics = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "swarm_reconcile_panics_total",
		Help: "Reconciles that panicked. The program went on, the object was tried again.",
	}, []string{"controller"})
)

func init() {
	metrics.Registry.MustRegister(results, panics, eventsDropped)
}

const (
	mostReasons = 64
	otherReason = "Other"
)

// oneWord is what a reason looks like; a sentence, or the name of an object, does not.
var oneWord = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`)

// A vocabulary bounds the reasons that become labels: whatever a reconciler returns, the metric has at most mostReasons of
// them. The log line has the original reason.
type vocabulary struct {
	lock  sync.Mutex
	words map[string]bool
}

func (v *vocabulary) label(reason string) string {
	if reason == "" {
		return ""
	}
	if !oneWord.MatchString(reason) {
		return otherReason
	}
	v.lock.Lock()
	defer v.lock.Unlock()
	if v.words[reason] {
		return reason
	}
	if len(v.words) >= mostReasons {
		return otherReason
	}
	if v.words == nil {
		v.words = map[string]bool{}
	}
	v.words[reason] = true
	return reason
}
