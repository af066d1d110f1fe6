package assign

import (
	"slices"
	"strings"
	"testing"
)

// acknowledgedRecord returns the record of a worker that has confirmed its list at version 1.
func acknowledgedRecord(worker string, ordinal int, jobs ...string) Record {
	return Record{Worker: worker, Ordinal: ordinal}.WithList(1, jobs).WithPod("uid-"+worker).WithAcknowledgement("uid-"+worker, 1)
}

func newShare(worker string, ordinal int, jobs ...string) Share {
	return Share{Worker: worker, Ordinal: ordinal, Jobs: jobs}
}

// formatStep formats a step on one line.
func formatStep(step Step) string {
	words := []string{string(step.Phase)}
	for _, share := range step.Publish {
		words = append(words, share.Worker+"="+strings.Join(share.Jobs, "+"))
	}
	for _, waiting := range step.Pending {
		words = append(words, "("+waiting.Worker+": "+waiting.Reason+")")
	}
	return strings.Join(words, " ")
}

// publish publishes a step as a version.
func publish(records []Record, step Step, version int64) []Record {
	records = slices.Clone(records)
	for _, share := range step.Publish {
		at := slices.IndexFunc(records, func(r Record) bool { return r.Worker == share.Worker })
		if at < 0 {
			at = len(records)
			records = append(records, Record{Worker: share.Worker, Ordinal: share.Ordinal}.WithPod("uid-"+share.Worker))
		}
		records[at] = records[at].WithList(version, share.Jobs)
	}
	return records
}

func expectStep(t *testing.T, step Step, want string) {
	t.Helper()
	if got := formatStep(step); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

var (
	threeRecords = []Record{acknowledgedRecord("w-0", 0, "a", "b"), acknowledgedRecord("w-1", 1, "c", "d"), acknowledgedRecord("w-2", 2, "e")}
	moveToW2     = []Share{newShare("w-0", 0, "a"), newShare("w-1", 1, "c", "d"), newShare("w-2", 2, "b", "e")}
)

func TestExclusiveRevokesThenGrants(t *testing.T) {
	step := Handover(moveToW2, threeRecords, Exclusive)
	expectStep(t, step, "Revoke w-0=a")
	records := publish(threeRecords, step, 2)
	expectStep(t, Handover(moveToW2, records, Exclusive), "Wait (w-0: it may still hold b until it confirms version 2)")
	records[0] = records[0].WithAcknowledgement("uid-w-0", 2)
	step = Handover(moveToW2, records, Exclusive)
	expectStep(t, step, "Grant w-2=b+e")
	records = publish(records, step, 3)
	expectStep(t, Handover(moveToW2, records, Exclusive), "Wait (w-2: it has not confirmed version 3)")
	records[2] = records[2].WithAcknowledgement("uid-w-2", 3)
	expectStep(t, Handover(moveToW2, records, Exclusive), "Done")
}

func TestOverlapGrantsThenRevokes(t *testing.T) {
	step := Handover(moveToW2, threeRecords, Overlap)
	expectStep(t, step, "Grant w-2=b+e")
	records := publish(threeRecords, step, 2)
	expectStep(t, Handover(moveToW2, records, Overlap), "Wait (w-2: it has not confirmed version 2)")
	records[2] = records[2].WithAcknowledgement("uid-w-2", 2)
	step = Handover(moveToW2, records, Overlap)
	expectStep(t, step, "Revoke w-0=a")
	records = publish(records, step, 3)
	records[0] = records[0].WithAcknowledgement("uid-w-0", 3)
	expectStep(t, Handover(moveToW2, records, Overlap), "Done")
}

func TestBestEffortWritesOnce(t *testing.T) {
	expectStep(t, Handover(moveToW2, threeRecords, BestEffort), "Switch w-0=a w-2=b+e")
}

// With each of these a worker may still run a job; none may grant it to another worker.
func TestHandoverNeedsProofOfRelease(t *testing.T) {
	waits := "Wait (w-0: it may still hold b until it confirms version 2)"
	for _, c := range []struct {
		reason string
		after  func(Record) Record
		want   string
	}{
		{"it confirms the version before", func(r Record) Record { return r.WithAcknowledgement("uid-w-0", 1) }, waits},
		{"it confirms a version that was never published to it", func(r Record) Record { return r.WithAcknowledgement("uid-w-0", 3) }, waits},
		{"another pod answers at its address", func(r Record) Record { return r.WithAcknowledgement("uid-w-9", 2) }, waits},
		{"the worker does not identify itself", func(r Record) Record { return r.WithAcknowledgement("", 2) }, waits},
		{"the pod was replaced, and the new one began before the revocation", func(r Record) Record { return r.WithPod("uid-new") }, waits},
		{"the old pod confirms after it was replaced", func(r Record) Record { return r.WithPod("uid-new").WithAcknowledgement("uid-w-0", 2) },
			waits},
		{"no worker only before the revocation", func(r Record) Record {
			return Record{Worker: "w-0", Lists: r.Lists[:1]}.WithoutPod().WithList(2, []string{"a"})
		}, waits},
		{"it confirms", func(r Record) Record { return r.WithAcknowledgement("uid-w-0", 2) }, "Grant w-2=b+e"},
		{"the new pod confirms", func(r Record) Record { return r.WithPod("uid-new").WithAcknowledgement("uid-new", 2) }, "Grant w-2=b+e"},
		{"no worker after the revocation", Record.WithoutPod, "Grant w-2=b+e"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			records := publish(threeRecords, Handover(moveToW2, threeRecords, Exclusive), 2)
			records[0] = c.after(records[0])
			expectStep(t, Handover(moveToW2, records, Exclusive), c.want)
		})
	}
}

func TestOverdueHoldsBackOnlyItsOwnJobs(t *testing.T) {
	target := []Share{newShare("w-0", 0, "a"), newShare("w-1", 1, "c"), newShare("w-2", 2, "b", "d", "e")}
	records := publish(threeRecords, Handover(target, threeRecords, Exclusive), 2)
	records[1] = records[1].WithAcknowledgement("uid-w-1", 2)
	records[0].Overdue = true
	step := Handover(target, records, Exclusive)
	expectStep(t, step, "Grant w-2=d+e")
	records = publish(records, step, 3)
	records[2] = records[2].WithAcknowledgement("uid-w-2", 3)
	expectStep(t, Handover(target, records, Exclusive), "Wait (w-0: it has not confirmed version 2, and may still hold b)")
}

// The plan changes while a grant is published and not confirmed: the new owner may hold the job already.
func TestReplanWhileAGrantIsInFlight(t *testing.T) {
	records := publish(threeRecords, Handover(moveToW2, threeRecords, Exclusive), 2)
	records[0] = records[0].WithAcknowledgement("uid-w-0", 2)
	records = publish(records, Handover(moveToW2, records, Exclusive), 3)
	if share, _ := BaseRevision(Restore(moveToW2, 0), records).ShareOf(2); !slices.Equal(share.Jobs, []string{"b", "e"}) {
		t.Errorf("w-2 may hold b: %v", share)
	}
	back := []Share{newShare("w-0", 0, "a", "b"), newShare("w-1", 1, "c", "d"), newShare("w-2", 2, "e")}
	step := Handover(back, records, Exclusive)
	expectStep(t, step, "Revoke w-2=e")
	records = publish(records, step, 4)
	expectStep(t, Handover(back, records, Exclusive), "Wait (w-2: it may still hold b until it confirms version 4)")
}

// A planned job is not held: the old owner counts while it has not confirmed.
func TestBaseRevisionKeepsPossibleHolders(t *testing.T) {
	records := publish(threeRecords, Handover(moveToW2, threeRecords, Exclusive), 2)
	basis := BaseRevision(Restore(moveToW2, 0), records)
	if share, _ := basis.ShareOf(0); !slices.Equal(share.Jobs, []string{"a", "b"}) {
		t.Errorf("w-0 may hold b still: %v", basis.Shares())
	}
	records[0] = records[0].WithAcknowledgement("uid-w-0", 2)
	if wanted, _ := BaseRevision(Restore(moveToW2, 0), records).ShareOf(2); !slices.Contains(wanted.Jobs, "b") {
		t.Errorf("b has no holder and may go where the plan wants it: %v", wanted)
	}
}

func TestSimulateHandoverHasTwoSteps(t *testing.T) {
	for handoff, want := range map[Handoff]string{
		Exclusive: "Revoke w-0=a; Grant w-2=b+e", Overlap: "Grant w-2=b+e; Revoke w-0=a", BestEffort: "Switch w-0=a w-2=b+e",
	} {
		var steps []string
		for _, step := range SimulateHandover(moveToW2, threeRecords, handoff) {
			steps = append(steps, formatStep(step))
		}
		if got := strings.Join(steps, "; "); got != want {
			t.Errorf("%s: %s", handoff, got)
		}
	}
}

func TestSimulateHandoverEndsForInconsistentRecords(t *testing.T) {
	twice := Record{Worker: "w0", PodUID: "u"}.WithList(3, []string{"a"}).WithList(3, []string{"b"})
	if steps := SimulateHandover([]Share{{Worker: "w0", Jobs: []string{"c"}}}, []Record{twice}, Exclusive); len(steps) == 0 {
		t.Error("nothing would be published")
	}
}
