package audit

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

const (
	early = `{"verb":"get","userAgent":"a/1","user":{"username":"u"},"objectRef":{"resource":"pods"},` +
		`"requestReceivedTimestamp":"2026-01-01T00:00:01.000000Z"}` + "\n"
	late = `{"verb":"patch","userAgent":"a/1","user":{"username":"v"},"objectRef":{"resource":"tasks"},` +
		`"responseStatus":{"code":403},"requestReceivedTimestamp":"2026-01-01T00:00:09.000000Z"}` + "\n" +
		`{"verb":"get","userAgent":"b/1","user":{"username":"u"},"requestReceivedTimestamp":"2026-01-01T00:00:10.000000Z"}` + "\n" +
		`{"verb":"get","userAgent":"a/1","us`
)

func TestRead(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit-1.log")
	for name, content := range map[string]string{log: late, filepath.Join(filepath.Dir(log), "audit-1-2026.log"): early} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		filter Filter
		verbs  string
	}{
		{Filter{}, "get patch get "},
		{Filter{UserAgent: "a/"}, "get patch "},
		{Filter{Username: "u"}, "get get "},
		{Filter{UserAgent: "a/", Since: time.Date(2026, 1, 1, 0, 0, 2, 0, time.UTC)}, "patch "},
	} {
		requests, err := Read(log, c.filter)
		var verbs string
		for _, request := range requests {
			verbs += request.Verb + " "
		}
		if err != nil || verbs != c.verbs {
			t.Errorf("%+v: %q, %v", c.filter, verbs, err)
		}
	}
	requests, err := Read(log, Filter{Username: "v"})
	if err != nil || len(requests) != 1 || requests[0].Response.Code != 403 || !requests[0].IsWrite() {
		t.Errorf("got %v, %v", requests, err)
	}
}
