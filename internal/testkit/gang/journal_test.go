package gang

import (
	"reflect"
	"strings"
	"testing"
)

func did(process int64, event, job string) Entry {
	return Entry{Event: event, Worker: "w-" + string(rune('0'+process)), Process: process, Job: job}
}

func TestVerify(t *testing.T) {
	for name, c := range map[string]struct {
		journal Journal
		want    string
	}{
		"nothing":                {nil, ""},
		"one after another":      {Journal{did(0, started, "a"), did(0, stopped, "a"), did(1, started, "a")}, ""},
		"different jobs":         {Journal{did(0, started, "a"), did(1, started, "b")}, ""},
		"after the process":      {Journal{did(0, started, "a"), did(0, started, "b"), did(0, exited, ""), did(1, started, "a"), did(1, started, "b")}, ""},
		"overlap":                {Journal{did(0, started, "a"), did(1, started, "a"), did(0, stopped, "a")}, "two owners"},
		"twice by the same":      {Journal{did(0, started, "a"), did(0, started, "a")}, "two owners"},
		"another has stopped":    {Journal{did(0, started, "a"), did(1, stopped, "a"), did(2, started, "a")}, "two owners"},
		"another process exited": {Journal{did(0, started, "a"), did(1, exited, ""), did(2, started, "a")}, "two owners"},
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
		did(0, started, "b"), did(0, started, "a"), did(1, started, "c"), did(1, stopped, "c"), did(2, started, "d"), did(2, exited, ""), did(1, started, "d"),
	}
	want := map[string][]string{"w-0": {"a", "b"}, "w-1": {"d"}}
	if got := journal.Running(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTheDeadSayNothing(t *testing.T) {
	var all notes
	for _, entry := range []Entry{did(0, started, "a"), did(0, exited, ""), did(0, stopped, "a"), did(0, started, "b"), did(1, started, "a")} {
		all.add(entry)
	}
	if got := all.of(""); len(got) != 3 || got.Verify() != nil || !all.dead(0) || all.dead(1) {
		t.Errorf("got %v", got)
	}
}
