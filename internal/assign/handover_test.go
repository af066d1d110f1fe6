package assign

import (
	"slices"
	"strings"
	"testing"
)

// told returns the record of a worker that has confirmed its list at version 1.
func told(worker string, ordinal int, jobs ...string) Record {
	return Record{Worker: worker, Ordinal: ordinal}.Published(1, jobs).Seen("uid-"+worker).Confirmed("uid-"+worker, 1)
}

func share2(worker string, ordinal int, jobs ...string) Share {
	return Share{Worker: worker, Ordinal: ordinal, Jobs: jobs}
}

// text formats a step on one line.
func text(step Step) string {
	words := []string{string(step.Phase)}
	for _, share := range step.Publish {
		words = append(words, share.Worker+"="+strings.Join(share.Jobs, "+"))
	}
	for _, waiting := range step.Waiting {
		words = append(words, "("+waiting.Worker+": "+waiting.Reason+")")
	}
	return strings.Join(words, " ")
}

// apply publishes a step as a version.
func apply(records []Record, step Step, version int64) []Record {
	records = slices.Clone(records)
	for _, share := range step.Publish {
		at := slices.IndexFunc(records, func(r Record) bool { return r.Worker == share.Worker })
		if at < 0 {
			at = len(records)
			records = append(records, Record{Worker: share.Worker, Ordinal: share.Ordinal}.Seen("uid-"+share.Worker))
		}
		records[at] = records[at].Published(version, share.Jobs)
	}
	return records
}

func expect(t *testing.T, step Step, want string) {
	t.Helper()
	if got := text(step); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

var (
	shared3 = []Record{told("w-0", 0, "a", "b"), told("w-1", 1, "c", "d"), told("w-2", 2, "e")}
	toW2    = []Share{share2("w-0", 0, "a"), share2("w-1", 1, "c", "d"), share2("w-2", 2, "b", "e")}
)

func TestExclusiveRevokesThenGrants(t *testing.T) {
	step := Handover(toW2, shared3, Exclusive)
	expect(t, step, "Revoke w-0=a")
	records := apply(shared3, step, 2)
	expect(t, Handover(toW2, records, Exclusive), "Wait (w-0: it may still hold b until it confirms version 2)")
	records[0] = records[0].Confirmed("uid-w-0", 2)
	step = Handover(toW2, records, Exclusive)
	expect(t, step, "Grant w-2=b+e")
	records = apply(records, step, 3)
	expect(t, Handover(toW2, records, Exclusive), "Wait (w-2: it has not confirmed version 3)")
	records[2] = records[2].Confirmed("uid-w-2", 3)
	expect(t, Handover(toW2, records, Exclusive), "Done")
}

func TestOverlapGrantsThenRevokes(t *testing.T) {
	step := Handover(toW2, shared3, Overlap)
	expect(t, step, "Grant w-2=b+e")
	records := apply(shared3, step, 2)
	expect(t, Handover(toW2, records, Overlap), "Wait (w-2: it has not confirmed version 2)")
	records[2] = records[2].Confirmed("uid-w-2", 2)
	step = Handover(toW2, records, Overlap)
	expect(t, step, "Revoke w-0=a")
	records = apply(records, step, 3)
	records[0] = records[0].Confirmed("uid-w-0", 3)
	expect(t, Handover(toW2, records, Overlap), "Done")
}

func TestBestEffortWritesOnce(t *testing.T) {
	expect(t, Handover(toW2, shared3, BestEffort), "Switch w-0=a w-2=b+e")
}

// With each of these a worker may still run a job; none may grant it to another worker.
func TestWhatProvesNothing(t *testing.T) {
	waits := "Wait (w-0: it may still hold b until it confirms version 2)"
	for _, c := range []struct {
		reason string
		after  func(Record) Record
		want   string
	}{
		{"it confirms the version before", func(r Record) Record { return r.Confirmed("uid-w-0", 1) }, waits},
		{"it confirms a version that was never published to it", func(r Record) Record { return r.Confirmed("uid-w-0", 3) }, waits},
		{"another pod answers at its address", func(r Record) Record { return r.Confirmed("uid-w-9", 2) }, waits},
		{"the worker does not identify itself", func(r Record) Record { return r.Confirmed("", 2) }, waits},
		{"the pod was replaced, and the new one began before the revocation", func(r Record) Record { return r.Seen("uid-new") }, waits},
		{"the old pod confirms after it was replaced", func(r Record) Record { return r.Seen("uid-new").Confirmed("uid-w-0", 2) }, waits},
		{"no worker only before the revocation", func(r Record) Record {
			return Record{Worker: "w-0", Lists: r.Lists[:1]}.Vacant().Published(2, []string{"a"})
		}, waits},
		{"it confirms", func(r Record) Record { return r.Confirmed("uid-w-0", 2) }, "Grant w-2=b+e"},
		{"the new pod confirms", func(r Record) Record { return r.Seen("uid-new").Confirmed("uid-new", 2) }, "Grant w-2=b+e"},
		{"no worker after the revocation", Record.Vacant, "Grant w-2=b+e"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			records := apply(shared3, Handover(toW2, shared3, Exclusive), 2)
			records[0] = c.after(records[0])
			expect(t, Handover(toW2, records, Exclusive), c.want)
		})
	}
}

func TestOverdueHoldsBackOnlyItsOwnJobs(t *testing.T) {
	target := []Share{share2("w-0", 0, "a"), share2("w-1", 1, "c"), share2("w-2", 2, "b", "d", "e")}
	records := apply(shared3, Handover(target, shared3, Exclusive), 2)
	records[1] = records[1].Confirmed("uid-w-1", 2)
	records[0].Overdue = true
	step := Handover(target, records, Exclusive)
	expect(t, step, "Grant w-2=d+e")
	records = apply(records, step, 3)
	records[2] = records[2].Confirmed("uid-w-2", 3)
	expect(t, Handover(target, records, Exclusive), "Wait (w-0: it has not confirmed version 2, and may still hold b)")
}

// The plan changes while a grant is published and not confirmed: the new owner may hold the job already.
func TestReplanWhileAGrantIsInFlight(t *testing.T) {
	records := apply(shared3, Handover(toW2, shared3, Exclusive), 2)
	records[0] = records[0].Confirmed("uid-w-0", 2)
	records = apply(records, Handover(toW2, records, Exclusive), 3)
	if held, _ := Basis(Restore(toW2, 0), records).Of(2); !slices.Equal(held.Jobs, []string{"b", "e"}) {
		t.Errorf("w-2 may hold b: %v", held)
	}
	back := []Share{share2("w-0", 0, "a", "b"), share2("w-1", 1, "c", "d"), share2("w-2", 2, "e")}
	step := Handover(back, records, Exclusive)
	expect(t, step, "Revoke w-2=e")
	records = apply(records, step, 4)
	expect(t, Handover(back, records, Exclusive), "Wait (w-2: it may still hold b until it confirms version 4)")
}

// A planned job is not held: the old owner counts while it has not confirmed.
func TestBasisIsWhoMayHold(t *testing.T) {
	records := apply(shared3, Handover(toW2, shared3, Exclusive), 2)
	basis := Basis(Restore(toW2, 0), records)
	if held, _ := basis.Of(0); !slices.Equal(held.Jobs, []string{"a", "b"}) {
		t.Errorf("w-0 may hold b still: %v", basis.Shares())
	}
	records[0] = records[0].Confirmed("uid-w-0", 2)
	if wanted, _ := Basis(Restore(toW2, 0), records).Of(2); !slices.Contains(wanted.Jobs, "b") {
		t.Errorf("b has no holder and may go where the plan wants it: %v", wanted)
	}
}

func TestRehearseIsTwoSteps(t *testing.T) {
	for handoff, want := range map[Handoff]string{
		Exclusive: "Revoke w-0=a; Grant w-2=b+e", Overlap: "Grant w-2=b+e; Revoke w-0=a", BestEffort: "Switch w-0=a w-2=b+e",
	} {
		var steps []string
		for _, step := range Rehearse(toW2, shared3, handoff) {
			steps = append(steps, text(step))
		}
		if got := strings.Join(steps, "; "); got != want {
			t.Errorf("%s: %s", handoff, got)
		}
	}
}

func TestARehearsalEndsThoughRecordsContradictThemselves(t *testing.T) {
	twice := Record{Worker: "w0", UID: "u"}.Published(3, []string{"a"}).Published(3, []string{"b"})
	if steps := Rehearse([]Share{{Worker: "w0", Jobs: []string{"c"}}}, []Record{twice}, Exclusive); len(steps) == 0 {
		t.Error("nothing would be published")
	}
}
