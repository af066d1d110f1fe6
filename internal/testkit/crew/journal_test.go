package crew

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(second int, event, uid string, epoch int64) Entry {
	return Entry{Time: noon.Add(time.Duration(second) * time.Second), Event: event, UID: uid, Epoch: epoch}
}

func item(of Entry, number int32) Entry {
	of.Item = &number
	return of
}

func TestVerify(t *testing.T) {
	for name, c := range map[string]struct {
		journal Journal
		want    string
	}{
		"nothing":            {nil, ""},
		"one after another":  {Journal{at(0, "start", "a", 1), at(1, "finish", "a", 1), at(1, "start", "a", 2), at(2, "finish", "a", 2)}, ""},
		"different tasks":    {Journal{at(0, "start", "a", 2), at(1, "start", "b", 1), at(2, "finish", "a", 2)}, ""},
		"different items":    {Journal{item(at(0, "start", "a", 2), 0), item(at(1, "start", "a", 1), 1)}, ""},
		"overlap":            {Journal{at(0, "start", "a", 1), at(1, "start", "a", 2), at(2, "finish", "a", 1)}, "two attempts at once"},
		"never finished":     {Journal{at(0, "start", "a", 1), at(9, "start", "a", 2)}, "two attempts at once"},
		"the same epoch":     {Journal{at(0, "start", "a", 1), at(1, "finish", "a", 1), at(2, "start", "a", 1)}, "epochs do not grow"},
		"an earlier epoch":   {Journal{at(0, "start", "a", 5), at(1, "finish", "a", 5), at(2, "start", "a", 4)}, "epochs do not grow"},
		"finish of an other": {Journal{at(0, "start", "a", 2), at(1, "finish", "a", 1), at(2, "start", "a", 3)}, "two attempts at once"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.journal.Verify()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestReadSortsAndSkipsWhatIsHalfWritten(t *testing.T) {
	folder := t.TempDir()
	lines := `{"time":"2026-01-01T12:00:02Z","event":"finish","uid":"a","epoch":4294967297,"outcome":"succeeded"}
{"time":"2026-01-01T12:00:01Z","event":"start","uid":"a","item":3,"epoch":4294967297}
{"time":"2026-01-01T12:0`
	if err := os.WriteFile(filepath.Join(folder, journalFile), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	got := read(folder)
	if len(got) != 2 || got[0].Event != "start" || *got[0].Item != 3 || got[1].Outcome != "succeeded" || got[1].Epoch != 1<<32+1 {
		t.Errorf("read %+v", got)
	}
}
