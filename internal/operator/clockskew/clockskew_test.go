package clockskew

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// skewedServer is an API server whose clock is behind that of this process.
type skewedServer struct {
	behind time.Duration
	takes  time.Duration
	status int
	date   string // instead of its clock
	err    error
}

func (s *skewedServer) RoundTrip(*http.Request) (*http.Response, error) {
	time.Sleep(s.takes / 2)
	date := time.Now().Add(-s.behind).UTC().Format(http.TimeFormat)
	time.Sleep(s.takes - s.takes/2)
	if s.date != "" {
		date = s.date
	}
	if s.err != nil {
		return nil, s.err
	}
	return &http.Response{StatusCode: max(s.status, http.StatusOK), Header: http.Header{"Date": {date}}}, nil
}

// sendRequest makes one, and closes the answer.
func sendRequest(t *testing.T, transport http.RoundTripper) {
	t.Helper()
	response, err := transport.RoundTrip(&http.Request{})
	switch {
	case err != nil:
	case response == nil:
		t.Error("no answer and no error")
	case response.Body != nil:
		_ = response.Body.Close()
	}
}

// withMonitor runs a test with a monitor and what it logs.
func withMonitor(t *testing.T, test func(t *testing.T, m *Monitor, ask func(*skewedServer), logged *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		logged := &bytes.Buffer{}
		m := New(prometheus.NewRegistry(), slog.New(slog.NewTextHandler(logged, nil)))
		test(t, m, func(s *skewedServer) {
			sendRequest(t, m.Wrap(s))
		}, logged)
	})
}

func TestSkewIsMeasuredByTheDateOfAnswers(t *testing.T) {
	for _, c := range []struct {
		reason   string
		server   skewedServer
		past     time.Duration // of the second, when the request is sent
		from, to time.Duration
		reliable bool
	}{
		{"the same time", skewedServer{}, 0, 0, 0, true},
		{"late in the second", skewedServer{}, 999 * time.Millisecond, 0, 0, true},
		{"an answer that takes a while", skewedServer{takes: 1900 * time.Millisecond}, 500 * time.Millisecond, 0, 0, true},
		{"a little ahead", skewedServer{behind: 4 * time.Second}, 0, 2 * time.Second, 4 * time.Second, true},
		{"a little behind", skewedServer{behind: -4 * time.Second}, 0, -4 * time.Second, -2 * time.Second, true},
		{"an hour ahead", skewedServer{behind: time.Hour}, 300 * time.Millisecond, time.Hour - 2*time.Second, time.Hour, false},
		{"an hour behind", skewedServer{behind: -time.Hour}, 300 * time.Millisecond, -time.Hour, -time.Hour + 2*time.Second, false},
		{"seven seconds ahead", skewedServer{behind: 7 * time.Second}, 0, 6 * time.Second, 7 * time.Second, false},
		{"a conflict has a date as well", skewedServer{behind: time.Hour, status: http.StatusConflict}, 0,
			time.Hour - 2*time.Second, time.Hour, false},
		{"an answer that took too long says nothing", skewedServer{behind: time.Hour, takes: 2100 * time.Millisecond}, 0, 0, 0, true},
		{"an error of a proxy says nothing", skewedServer{behind: time.Hour, status: http.StatusBadGateway}, 0, 0, 0, true},
		{"no date says nothing", skewedServer{date: "-"}, 0, 0, 0, true},
		{"no answer says nothing", skewedServer{err: errors.New("refused")}, 0, 0, 0, true},
	} {
		t.Run(c.reason, func(t *testing.T) {
			withMonitor(t, func(t *testing.T, m *Monitor, ask func(*skewedServer), _ *bytes.Buffer) {
				time.Sleep(c.past)
				ask(&c.server)
				if ahead, reliable := m.Skew(); ahead < c.from || ahead > c.to || reliable != c.reliable {
					t.Errorf("%s ahead, reliable %t; want %s to %s, %t", ahead, reliable, c.from, c.to, c.reliable)
				}
			})
		})
	}
}

func TestSkewIsLoggedOnceAndShownAsAMetric(t *testing.T) {
	withMonitor(t, func(t *testing.T, m *Monitor, ask func(*skewedServer), logged *bytes.Buffer) {
		for range 5 {
			ask(&skewedServer{})
		}
		if logged.Len() != 0 {
			t.Errorf("a clock that is right: %s", logged)
		}
		for range 5 {
			ask(&skewedServer{behind: time.Hour})
		}
		if got := strings.Count(logged.String(), "clock differs"); got != 1 {
			t.Errorf("logged %d times: %s", got, logged)
		}
		ask(&skewedServer{takes: time.Minute, behind: 0}) // says nothing
		if _, reliable := m.Skew(); reliable {
			t.Error("trusted again too early")
		}
		for range 5 {
			ask(&skewedServer{})
		}
		if _, reliable := m.Skew(); !reliable || strings.Count(logged.String(), "again") != 1 {
			t.Errorf("not right again: %s", logged)
		}
	})
}

func TestMetricShowsTheSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		m := New(registry, slog.New(slog.DiscardHandler))
		sendRequest(t, m.Wrap(&skewedServer{behind: -time.Hour}))
		families, err := registry.Gather()
		if err != nil || len(families) != 1 || families[0].GetName() != "swarm_clock_skew_seconds" {
			t.Fatalf("%v, %v", families, err)
		}
		if got := families[0].GetMetric()[0].GetGauge().GetValue(); got < -3600 || got > -3598 {
			t.Errorf("shows %v", got)
		}
	})
}

// A clock that is set is noticed before the next answer.
func TestClockThatIsSetIsNoticedAtOnce(t *testing.T) {
	for set, right := range map[time.Duration]bool{0: true, 3 * time.Second: true, time.Hour: false, -time.Hour: false} {
		withMonitor(t, func(t *testing.T, m *Monitor, ask func(*skewedServer), _ *bytes.Buffer) {
			ask(&skewedServer{})
			time.Sleep(time.Minute)
			read := m.read
			m.read = func() clockReading {
				now := read()
				return clockReading{wall: now.wall.Add(set), elapsed: now.elapsed}
			}
			if ahead, reliable := m.Skew(); ahead != set || reliable != right {
				t.Errorf("set by %s: %s ahead, reliable %t", set, ahead, reliable)
			}
		})
	}
}
