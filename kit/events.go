package kit

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

// The long-term event rate of one namespace, and its burst. Every event is a write to the API server, and stays in the broadcaster's memory
// for six minutes. The broadcaster queues 1,000 events, so a namespace whose objects change all the time must leave room for others.
const (
	eventsPerSecond = 10
	eventBurst      = 500
	// eventNamespaces is the number of namespaces whose rate is kept in memory. A namespace that was dropped starts with a full burst.
	eventNamespaces = 10_000
)

var eventsDropped = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "swarm_events_dropped_total",
	Help: "Events dropped because their namespace had too many.",
})

// GetEventRecorder returns a recorder that drops the events of a namespace that has too many. All recorders of the operator
// share these limits.
func (o *Operator) GetEventRecorder(name string) recorder.EventRecorder {
	return &limitedRecorder{o.Manager.GetEventRecorder(name), &o.events}
}

type limitedRecorder struct {
	recorder recorder.EventRecorder
	limits   *eventLimits
}

// Eventf implements recorder.EventRecorder.
//
//nolint:revive // the recorder's interface has that many arguments
func (r *limitedRecorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, arguments ...any) {
	if r.allows(regarding) {
		r.recorder.Eventf(regarding, related, kind, reason, action, note, arguments...)
	}
}

// AnnotatedEventf implements recorder.EventRecorder.
//
//nolint:revive // the recorder's interface has that many arguments
func (r *limitedRecorder) AnnotatedEventf(regarding, related runtime.Object, annotations map[string]string,
	kind, reason, action, note string, arguments ...any) {
	if r.allows(regarding) {
		r.recorder.AnnotatedEventf(regarding, related, annotations, kind, reason, action, note, arguments...)
	}
}

func (r *limitedRecorder) allows(regarding runtime.Object) bool {
	allowed := r.limits.allow(namespaceOfEvent(regarding), time.Now())
	if !allowed {
		eventsDropped.Inc()
	}
	return allowed
}

func namespaceOfEvent(object runtime.Object) string {
	if reference, ok := object.(*corev1.ObjectReference); ok {
		return reference.Namespace
	}
	if accessor, err := meta.Accessor(object); err == nil {
		return accessor.GetNamespace()
	}
	return ""
}

// eventLimits holds a token bucket for each namespace. The zero value is ready for use.
type eventLimits struct {
	mu      sync.Mutex
	buckets *lru.Cache // of *rate.Limiter, by namespace
}

// allow reports whether an event of the namespace may be recorded, and counts it if so.
func (l *eventLimits) allow(namespace string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buckets == nil {
		l.buckets = lru.New(eventNamespaces)
	}
	bucket, found := l.buckets.Get(namespace)
	if !found {
		bucket = rate.NewLimiter(eventsPerSecond, eventBurst)
		l.buckets.Add(namespace, bucket)
	}
	return bucket.(*rate.Limiter).AllowN(now, 1)
}
