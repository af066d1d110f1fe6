package fakeworkers

import (
	"reflect"
	"strings"
	"testing"
)

func newEntry(process int64, event, job string) Entry {
	return Entry{Event: event, Worker: "w-" + string(rune('0'+process)), Process: process, Job: job}
}

func TestVerify(t *testing.T) {
	for name, c := range map[string]struct {
		journal Journal
		want    string
	}{
		"nothing":           {nil, ""},
		"one after another": {Journal{newEntry(0, started, "a"), newEntry(0, stopped, "a"), newEntry(1, started, "a")}, ""},
		"different jobs":    {Journal{newEntry(0, started, "a"), newEntry(1, started, "b")}, ""},
		"after the process": {Journal{newEntry(0, started, "a"), newEntry(0, started, "b"), newEntry(0, exited, ""),
			newEntry(1, started, "a"), newEntry(1, started, "b")}, ""},
		"overlap":                {Journal{newEntry(0, started, "a"), newEntry(1, started, "a"), newEntry(0, stopped, "a")}, "two owners"},
		"twice by the same":      {Journal{newEntry(0, started, "a"), newEntry(0, started, "a")}, "two owners"},
		"another has stopped":    {Journal{newEntry(0, started, "a"), newEntry(1, stopped, "a"), newEntry(2, started, "a")}, "two owners"},
		"another process exited": {Journal{newEntry(0, started, "a"), newEntry(1, exited, ""), newEntry(2, started, "a")}, "two owners"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.journal.Verify()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestRunning(t *testing.T) {
	journal := Journal{
		newEntry(0, started, "b"), newEntry(0, started, "a"), newEntry(1, started, "c"), newEntry(1, stopped, "c"), newEntry(2, started, "d"),
		newEntry(2, exited, ""), newEntry(1, started, "d"),
	}
	want := map[string][]string{"w-0": {"a", "b"}, "w-1": {"d"}}
	if got := journal.Running(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDeadProcessesAreNotRecorded(t *testing.T) {
	var all entryLog
	for _, entry := range []Entry{newEntry(0, started, "a"), newEntry(0, exited, ""), newEntry(0, stopped, "a"), newEntry(0, started, "b"),
		newEntry(1, started, "a")} {
		all.add(entry)
	}
	if got := all.inNamespace(""); len(got) != 3 || got.Verify() != nil || !all.isDead(0) || all.isDead(1) {
		t.Errorf("got %v", got)
	}
}
