package alerts

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

const (
	evaluationInterval = 30 * time.Second // between scrapes, and between evaluations
	maxEvaluationTime  = 2 * time.Hour
)

// A scenario is what Prometheus sees, a value every step from 0 on: 1x3 is four times 1, 0+2x3 is 0 2 4 6, _ is a scrape that failed, and
// stale a target that has gone.
type scenario struct {
	reason    string
	series    string
	pendingAt time.Duration // when the problem begins, if there is one
	endsAt    time.Duration // from when on there must be no alert, if the problem ends
}

// evaluateUntilFiring evaluates the alert at every step until it fires, and no longer than until the end.
func evaluateUntilFiring(t *testing.T, rule rulefmt.Rule, series string, start, end time.Duration) (time.Duration, *rules.Alert) {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 30s\n"+strings.TrimLeft(series, "\n"))
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, 1_000_000)
	alert, query := newAlertingRule(t, rule), rules.EngineQueryFunc(engine, storage)
	for at := time.Duration(0); at <= end; at += evaluationInterval {
		if _, err := alert.Eval(t.Context(), 0, time.Unix(0, 0).Add(at), query, nil, 0); err != nil {
			t.Fatal(err)
		}
		for _, active := range alert.ActiveAlerts() {
			if active.State == rules.StateFiring && at >= start {
				return at, active
			}
		}
	}
	return 0, nil
}

func TestR23_O05_EveryAlertFiresWhenItShouldAndOnlyThen(t *testing.T) {
	covered := map[string]bool{}
	for _, rule := range alerts(t) {
		covered[rule.Alert] = true
		scenarios := scenariosByAlert[rule.Alert]
		if len(scenarios.firing) == 0 || len(scenarios.silent) == 0 {
			t.Errorf("%s needs a story in which it fires and one in which it does not", rule.Alert)
		}
		for _, story := range scenarios.firing {
			t.Run(rule.Alert+" fires when "+story.reason, func(t *testing.T) { expectFires(t, rule, story) })
		}
		for _, story := range scenarios.silent {
			t.Run(rule.Alert+" is silent when "+story.reason, func(t *testing.T) { expectSilent(t, rule, story) })
		}
	}
	for name := range scenariosByAlert {
		if !covered[name] {
			t.Errorf("there are stories of %s, which is no alert", name)
		}
	}
}

// expectFires when the trouble has lasted for the alert's period, neither earlier nor later.
func expectFires(t *testing.T, rule rulefmt.Rule, story scenario) {
	at, alert := evaluateUntilFiring(t, rule, story.series, 0, maxEvaluationTime)
	if want := story.pendingAt + time.Duration(rule.For); alert == nil || at != want {
		t.Fatalf("it fires at %s (%v), want %s", at, alert != nil, want)
	}
	for _, name := range []string{"summary", "description"} {
		if said := alert.Annotations.Get(name); said == "" || strings.Contains(said, "<error") || strings.Contains(said, "<no value>") {
			t.Errorf("its %s is %q", name, said)
		}
	}
	t.Log(alert.Annotations.Get("description"))
}

func expectSilent(t *testing.T, rule rulefmt.Rule, story scenario) {
	if at, alert := evaluateUntilFiring(t, rule, story.series, story.endsAt, maxEvaluationTime); alert != nil {
		t.Errorf("it fires at %s: %s", at, alert.Annotations.Get("description"))
	}
}
