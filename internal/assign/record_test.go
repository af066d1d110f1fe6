package assign_test

import (
	"testing"

	"github.com/swarm-io/swarm-operator/internal/assign"
)

// told returns a worker whose pod has confirmed its first list, version 1.
func told() assign.Record {
	return assign.Record{Worker: "w-0"}.Seen("first").Published(1, []string{"a"}).Confirmed("first", 1)
}

// A new pod may have started with any list, regardless of what its predecessor confirmed.
func TestConfirmationIsOfOnePodAndOneVersion(t *testing.T) {
	for reason, c := range map[string]struct {
		record  assign.Record
		settled bool
	}{
		"confirmed":                       {told(), true},
		"seen again":                      {told().Seen("first"), true},
		"another pod":                     {told().Seen("second"), false},
		"another pod that has confirmed":  {told().Seen("second").Confirmed("second", 1), true},
		"a late answer of the former pod": {told().Seen("second").Confirmed("first", 1), false},
		"another list":                    {told().Published(2, []string{"b"}), false},
		"a version that never was":        {told().Published(2, []string{"b"}).Confirmed("first", 3), false},
		"an answer of no pod":             {told().Vacant().Confirmed("", 1), false},
		"vacant, with jobs published":     {told().Vacant(), false},
		"vacant, with no jobs published":  {told().Published(2, nil).Vacant(), true},
		"never told anything":             {assign.Record{Worker: "w-0"}.Seen("first"), true},
	} {
		if got := c.record.Settled(); got != c.settled {
			t.Errorf("%s: settled %t", reason, got)
		}
	}
}

func TestNoJobsAreAPlanOfNothing(t *testing.T) {
	decision := assign.Plan(assign.Input{Workers: []assign.Worker{{Name: "w-0"}}})
	if decision.Refused != "" || len(decision.Unassigned) > 0 {
		t.Errorf("got %+v", decision)
	}
}

// revisionOf plans a list of jobs for two workers.
func revisionOf(t *testing.T, names ...string) *assign.Revision {
	t.Helper()
	var jobs []assign.Job
	for _, name := range names {
		jobs = append(jobs, assign.Job{Name: name, Weight: 1})
	}
	list, problems := assign.List(jobs)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return assign.Plan(assign.Input{Jobs: list, Workers: []assign.Worker{{Name: "w-0"}, {Name: "w-1", Ordinal: 1}}, Strategy: assign.Contiguous}).Next
}

// A revision equal to the last one is not stored again, even if the list of jobs was read again.
func TestRevisionsAreTheSameByTheirJobs(t *testing.T) {
	first := revisionOf(t, "a", "b", "c", "d")
	if !first.Same(revisionOf(t, "a", "b", "c", "d")) {
		t.Error("the same jobs in another list are another revision")
	}
	for _, other := range []*assign.Revision{nil, revisionOf(t, "a", "b", "c", "e"), revisionOf(t, "b", "a", "c", "d"), revisionOf(t, "a", "b")} {
		if first.Same(other) {
			t.Errorf("the same as %v", other)
		}
	}
}
