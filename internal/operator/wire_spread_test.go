package operator

import (
	"errors"
	"net/http"
	"testing"
	"time"
)

func TestWebhookIsReachableSomeTimeAfterItServes(t *testing.T) {
	now, down := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), errors.New("not yet")
	of := &webhookGate{now: func() time.Time { return now }, checkServing: func(*http.Request) error { return down }}
	for _, step := range []struct {
		reason string
		later  time.Duration
		down   error
		found  bool
	}{
		{"it does not answer", 0, errors.New("not yet"), false},
		{"it does not answer for long", time.Hour, errors.New("not yet"), false},
		{"it has just begun to answer", 0, nil, false},
		{"not long ago", routeDelay - time.Second, nil, false},
		{"some time ago", time.Second, nil, true},
		{"an answer that fails later is admission's to say", 0, errors.New("gone"), true},
	} {
		now, down = now.Add(step.later), step.down
		if of.isReachable() != step.found {
			t.Errorf("%s: found %t", step.reason, !step.found)
		}
	}
	if (&webhookGate{now: time.Now}).isReachable() {
		t.Error("a webhook that is not served is found")
	}
}
