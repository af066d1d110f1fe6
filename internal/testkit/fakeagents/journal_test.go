package fakeagents

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var startTime = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func entryAt(second int, event, uid string, epoch int64) Entry {
	return Entry{Time: startTime.Add(time.Duration(second) * time.Second), Event: event, UID: uid, Epoch: epoch}
}

func withItem(entry Entry, number int32) Entry {
	entry.Item = &number
	return entry
}

func TestVerify(t *testing.T) {
	for name, c := range map[string]struct {
		journal Journal
		want    string
	}{
		"nothing": {nil, ""},
		"one after another": {Journal{entryAt(0, "start", "a", 1), entryAt(1, "finish", "a", 1), entryAt(1, "start", "a", 2),
			entryAt(2, "finish", "a", 2)}, ""},
		"different tasks": {Journal{entryAt(0, "start", "a", 2), entryAt(1, "start", "b", 1), entryAt(2, "finish", "a", 2)}, ""},
		"different items": {Journal{withItem(entryAt(0, "start", "a", 2), 0), withItem(entryAt(1, "start", "a", 1), 1)}, ""},
		"overlap": {Journal{entryAt(0, "start", "a", 1), entryAt(1, "start", "a", 2), entryAt(2, "finish", "a", 1)},
			"two attempts at once"},
		"never finished": {Journal{entryAt(0, "start", "a", 1), entryAt(9, "start", "a", 2)}, "two attempts at once"},
		"the same epoch": {Journal{entryAt(0, "start", "a", 1), entryAt(1, "finish", "a", 1), entryAt(2, "start", "a", 1)},
			"epochs do not grow"},
		"an earlier epoch": {Journal{entryAt(0, "start", "a", 5), entryAt(1, "finish", "a", 5), entryAt(2, "start", "a", 4)},
			"epochs do not grow"},
		"finish of an other": {Journal{entryAt(0, "start", "a", 2), entryAt(1, "finish", "a", 1), entryAt(2, "start", "a", 3)},
			"two attempts at once"},
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
	got := readJournal(folder)
	if len(got) != 2 || got[0].Event != "start" || *got[0].Item != 3 || got[1].Outcome != "succeeded" || got[1].Epoch != 1<<32+1 {
		t.Errorf("read %+v", got)
	}
}
