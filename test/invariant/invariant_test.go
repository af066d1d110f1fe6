package invariant

import (
	"slices"
	"testing"
)

func TestStart(t *testing.T) {
	for reason, c := range map[string]struct {
		epoch   int
		running int
		final   bool
		want    []Invariant
	}{
		"the next attempt":         {3, 1, false, nil},
		"while another one runs":   {3, 2, false, []Invariant{TwoOwners}},
		"the same epoch again":     {2, 1, false, []Invariant{EpochNotNewer}},
		"an older epoch":           {1, 1, false, []Invariant{EpochNotNewer}},
		"after the task has ended": {3, 1, true, []Invariant{StartAfterFinal}},
	} {
		history := History[int]{Started: 2}
		if got := history.Start(c.epoch, c.running, c.final); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", reason, got, c.want)
		}
		if history.Started != max(2, c.epoch) {
			t.Errorf("%s: started is %d", reason, history.Started)
		}
	}
}

func TestAcknowledge(t *testing.T) {
	for reason, c := range map[string]struct {
		stored Stored[int]
		want   []Invariant
	}{
		"recorded":                  {Stored[int]{Epoch: 2}, nil},
		"superseded":                {Stored[int]{Epoch: 3, Assigned: true}, nil},
		"the task ended before":     {Stored[int]{Epoch: 1, Phase: "Cancelled"}, nil},
		"nothing is stored":         {Stored[int]{}, []Invariant{AcknowledgedNotStored}},
		"stored as assigned":        {Stored[int]{Epoch: 2, Assigned: true}, []Invariant{AcknowledgedNotStored}},
		"an earlier one is stored":  {Stored[int]{Epoch: 1}, []Invariant{AcknowledgedNotStored}},
		"an earlier one runs there": {Stored[int]{Epoch: 1, Assigned: true}, []Invariant{AcknowledgedNotStored}},
	} {
		history := History[int]{Given: 2}
		if got := history.Acknowledge(2, c.stored); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", reason, got, c.want)
		}
	}
	history := History[int]{}
	history.Give(3)
	if got := history.Acknowledge(2, Stored[int]{}); got != nil {
		t.Errorf("a result of an attempt that was superseded: got %v", got)
	}
}

func TestChange(t *testing.T) {
	for reason, c := range map[string]struct {
		before, after Stored[int]
		want          []Invariant
	}{
		"assigned":           {Stored[int]{}, Stored[int]{Epoch: 1, Assigned: true}, nil},
		"finished":           {Stored[int]{Epoch: 1, Assigned: true}, Stored[int]{Epoch: 1, Phase: "Completed"}, nil},
		"nothing new":        {Stored[int]{Epoch: 1, Phase: "Completed"}, Stored[int]{Epoch: 1, Phase: "Completed"}, nil},
		"an epoch of before": {Stored[int]{Epoch: 2}, Stored[int]{Epoch: 1}, []Invariant{EpochDecreased}},
		"another end":        {Stored[int]{Epoch: 1, Phase: "Completed"}, Stored[int]{Epoch: 1, Phase: "Failed"}, []Invariant{EpochDecreased}},
		"no end":             {Stored[int]{Epoch: 1, Phase: "Completed"}, Stored[int]{Epoch: 2}, []Invariant{EpochDecreased}},
	} {
		if got := Change(c.before, c.after); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", reason, got, c.want)
		}
	}
}

func TestEveryInvariantHasAName(t *testing.T) {
	for broken := TwoOwners; broken <= StoppedUnasked; broken++ {
		if broken.String() == "" {
			t.Errorf("invariant %d has no name", broken)
		}
	}
}
