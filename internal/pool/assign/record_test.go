package assign_test

import (
	"testing"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// acknowledgedRecord returns a worker whose pod has confirmed its first list, version 1.
func acknowledgedRecord() assign.Record {
	return assign.Record{Worker: "w-0"}.WithPod("first").WithList(1, []string{"a"}).WithAcknowledgement("first", 1)
}

// A new pod may have started with any list, regardless of what its predecessor confirmed.
func TestAcknowledgementCountsForOnePodAndVersion(t *testing.T) {
	for reason, c := range map[string]struct {
		record  assign.Record
		settled bool
	}{
		"confirmed":                       {acknowledgedRecord(), true},
		"seen again":                      {acknowledgedRecord().WithPod("first"), true},
		"another pod":                     {acknowledgedRecord().WithPod("second"), false},
		"another pod that has confirmed":  {acknowledgedRecord().WithPod("second").WithAcknowledgement("second", 1), true},
		"a late answer of the former pod": {acknowledgedRecord().WithPod("second").WithAcknowledgement("first", 1), false},
		"another list":                    {acknowledgedRecord().WithList(2, []string{"b"}), false},
		"a version that never was":        {acknowledgedRecord().WithList(2, []string{"b"}).WithAcknowledgement("first", 3), false},
		"an answer of no pod":             {acknowledgedRecord().WithoutPod().WithAcknowledgement("", 1), false},
		"vacant, with jobs published":     {acknowledgedRecord().WithoutPod(), false},
		"vacant, with no jobs published":  {acknowledgedRecord().WithList(2, nil).WithoutPod(), true},
		"never told anything":             {assign.Record{Worker: "w-0"}.WithPod("first"), true},
	} {
		if got := c.record.IsAcknowledged(); got != c.settled {
			t.Errorf("%s: settled %t", reason, got)
		}
	}
}

func TestPlanWithoutJobsIsEmpty(t *testing.T) {
	decision := assign.Plan(assign.Input{Workers: []assign.Worker{{Name: "w-0"}}})
	if decision.RefusalReason != "" || len(decision.Unassigned) > 0 {
		t.Errorf("got %+v", decision)
	}
}

// planRevision plans a list of jobs for two workers.
func planRevision(t *testing.T, names ...string) *assign.Revision {
	t.Helper()
	var jobs []assign.Job
	for _, name := range names {
		jobs = append(jobs, assign.Job{Name: name, Weight: 1})
	}
	list, problems := assign.NewJobList(jobs)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return assign.Plan(assign.Input{Jobs: list, Workers: []assign.Worker{{Name: "w-0"}, {Name: "w-1", Ordinal: 1}},
		Strategy: assign.Contiguous}).Next
}

// A revision equal to the last one is not stored again, even if the list of jobs was read again.
func TestRevisionsAreTheSameByTheirJobs(t *testing.T) {
	first := planRevision(t, "a", "b", "c", "d")
	if !first.Same(planRevision(t, "a", "b", "c", "d")) {
		t.Error("the same jobs in another list are another revision")
	}
	for _, other := range []*assign.Revision{nil, planRevision(t, "a", "b", "c", "e"), planRevision(t, "b", "a", "c", "d"),
		planRevision(t, "a", "b")} {
		if first.Same(other) {
			t.Errorf("the same as %v", other)
		}
	}
}
