// Package clockskew measures how far the clock of this process is from that of the API server.
//
// Times in objects come from the API server (creationTimestamp) or from an earlier leader. Comparing them with a clock that is wrong
// would fail tasks that have time left and delete results that are to be kept, for good. So controllers ask here before they act by the
// clock.
//
// It promises that answers that took long or carry no date change nothing, and that a clock that is set while the process runs is noticed
// at once, not with the next answer. It makes no requests of its own: every answer of the API server has a Date header, and the leader
// renews its Lease every second.
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
	// maxRoundTrip is how long an answer may take to say anything about the time: its date is from some moment in between.
	maxRoundTrip = 2 * time.Second
	// dateResolution of a Date header, which is cut to the second.
	dateResolution = time.Second
)

// A Monitor keeps the latest measurement. It is safe for concurrent use.
type Monitor struct {
	log  *slog.Logger
	read func() clockReading

	mu         sync.Mutex
	measured   bool
	measuredAt clockReading // of the latest measurement
	ahead      time.Duration
	skewed     bool // as logged
}

// A clockReading is a reading of both clocks of this process: the wall clock, which can be set, and the monotonic clock.
type clockReading struct {
	wall    time.Time
	elapsed time.Duration
}

// newClock starts the monotonic clock now.
func newClock() func() clockReading {
	start := time.Now()
	return func() clockReading {
		now := time.Now()
		return clockReading{wall: now.Round(0), elapsed: now.Sub(start)}
	}
}

// New returns a Monitor that exports its measurement as a metric.
func New(registry prometheus.Registerer, log *slog.Logger) *Monitor {
	m := &Monitor{log: log, read: newClock()}
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
	clockChange := now.wall.Sub(m.measuredAt.wall) - (now.elapsed - m.measuredAt.elapsed) // how far the clock was set since
	ahead = m.ahead + clockChange
	return ahead, ahead.Abs() <= Tolerance
}

// record records the date of an answer, with the times at which the request was sent and answered.
func (m *Monitor) record(date time.Time, sent, received clockReading) {
	roundTrip := received.elapsed - sent.elapsed
	if roundTrip > maxRoundTrip {
		return
	}
	upperBound := received.wall.Sub(date)
	m.mu.Lock()
	m.measured, m.measuredAt, m.ahead = true, received, smallestSkew(upperBound-roundTrip-dateResolution, upperBound)
	m.mu.Unlock()
	m.logChange()
}

// smallestSkew returns the smallest skew between two bounds.
func smallestSkew(lower, upper time.Duration) time.Duration {
	switch {
	case lower > 0:
		return lower
	case upper < 0:
		return upper
	}
	return 0
}

// logChange logs when the clock becomes wrong, and when it is right again.
func (m *Monitor) logChange() {
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
		r.monitor.record(date, sent, r.monitor.read())
	}
	return response, nil
}

// WrappedRoundTripper lets client-go find the transport beneath.
func (r *roundTripper) WrappedRoundTripper() http.RoundTripper { return r.next }
