// Package clockskew measures how far the clock of this process is from that of the API server.
//
// Times in objects come from the API server (creationTimestamp) or from an earlier leader. Comparing them with a clock that is wrong
// would fail tasks that have time left and delete results that are to be kept, for good. So controllers ask here before they act by the
// clock.
//
// It promises that answers which took long, or that carry no date, change nothing, and that a clock which is set while the process runs
// is noticed at once, not with the next answer. It makes no requests of its own: every answer of the API server has a Date header, and
// the leader renews its Lease every second.
package clockskew

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const (
	// Tolerance is the skew up to which a clock counts as right.
	Tolerance = 5 * time.Second
	// quick is how long an answer may take to say anything about the time: its date is from some moment in between.
	quick = 2 * time.Second
	// resolution of a Date header, which is cut to the second.
	resolution = time.Second
)

// A Monitor keeps the latest measurement. It is safe for concurrent use.
type Monitor struct {
	log  *slog.Logger
	read func() reading

	mu       sync.Mutex
	measured bool
	at       reading // of the latest measurement
	ahead    time.Duration
	skewed   bool // as logged
}

// A reading is one look at both clocks of this process: the one that people set, and the one that only counts.
type reading struct {
	wall    time.Time
	elapsed time.Duration
}

// readings begins to count now.
func readings() func() reading {
	start := time.Now()
	return func() reading {
		now := time.Now()
		return reading{wall: now.Round(0), elapsed: now.Sub(start)}
	}
}

// New makes a Monitor that shows its measurement as a metric.
func New(registry prometheus.Registerer, log *slog.Logger) *Monitor {
	m := &Monitor{log: log, read: readings()}
	promauto.With(registry).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "swarm_clock_skew_seconds", Help: "How far the clock of this process is ahead of the API server's, in seconds.",
	}, func() float64 {
		ahead, _ := m.Skew()
		return ahead.Seconds()
	})
	return m
}

// Wrap measures with every answer that passes. Give it to rest.Config.Wrap.
func (m *Monitor) Wrap(next http.RoundTripper) http.RoundTripper {
	return &roundTripper{next: next, monitor: m}
}

// Skew returns how far this process's clock is ahead of the API server's, negative when it is behind, and whether that is little enough
// to act by the clock. Before the first measurement the clock counts as right.
func (m *Monitor) Skew() (ahead time.Duration, reliable bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.measured {
		return 0, true
	}
	now := m.read()
	set := now.wall.Sub(m.at.wall) - (now.elapsed - m.at.elapsed) // how far the clock was set since
	ahead = m.ahead + set
	return ahead, ahead.Abs() <= Tolerance
}

// measure takes in an answer that was dated so, to a request that was sent and answered at these moments.
func (m *Monitor) measure(date time.Time, sent, received reading) {
	took := received.elapsed - sent.elapsed
	if took > quick {
		return
	}
	latest := received.wall.Sub(date)
	m.mu.Lock()
	m.measured, m.at, m.ahead = true, received, least(latest-took-resolution, latest)
	m.mu.Unlock()
	m.report()
}

// least returns the smallest skew between two bounds.
func least(from, to time.Duration) time.Duration {
	switch {
	case from > 0:
		return from
	case to < 0:
		return to
	}
	return 0
}

// report logs when the clock becomes wrong, and when it is right again.
func (m *Monitor) report() {
	ahead, reliable := m.Skew()
	m.mu.Lock()
	changed := m.skewed == reliable
	m.skewed = !reliable
	m.mu.Unlock()
	switch {
	case changed && !reliable:
		m.log.Error("clock differs from the API server's: time limits and expiry of tasks, and the deadline of deleted swarms, wait until it is right",
			"ahead", ahead.String())
	case changed:
		m.log.Info("clock agrees with the API server's again", "ahead", ahead.String())
	}
}

type roundTripper struct {
	next    http.RoundTripper
	monitor *Monitor
}

// RoundTrip implements http.RoundTripper. An error of a proxy in between has the proxy's date.
func (r *roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := r.monitor.read()
	response, err := r.next.RoundTrip(request)
	if err != nil || response.StatusCode >= http.StatusInternalServerError {
		return response, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		r.monitor.measure(date, sent, r.monitor.read())
	}
	return response, nil
}

// WrappedRoundTripper lets client-go find the transport beneath.
func (r *roundTripper) WrappedRoundTripper() http.RoundTripper { return r.next }
