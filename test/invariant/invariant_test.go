package invariant

import (
	"slices"
	"testing"
)

func TestRecordStart(t *testing.T) {
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
		history := History[int]{LastStarted: 2}
		if got := history.RecordStart(c.epoch, c.running, c.final); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", reason, got, c.want)
		}
		if history.LastStarted != max(2, c.epoch) {
			t.Errorf("%s: started is %d", reason, history.LastStarted)
		}
	}
}

func TestCheckAcknowledged(t *testing.T) {
	for reason, c := range map[string]struct {
		stored StoredTask[int]
		want   []Invariant
	}{
		"recorded":                  {StoredTask[int]{Epoch: 2}, nil},
		"superseded":                {StoredTask[int]{Epoch: 3, Assigned: true}, nil},
		"the task ended before":     {StoredTask[int]{Epoch: 1, Phase: "Cancelled"}, nil},
		"nothing is stored":         {StoredTask[int]{}, []Invariant{AcknowledgedNotStored}},
		"stored as assigned":        {StoredTask[int]{Epoch: 2, Assigned: true}, []Invariant{AcknowledgedNotStored}},
		"an earlier one is stored":  {StoredTask[int]{Epoch: 1}, []Invariant{AcknowledgedNotStored}},
		"an earlier one runs there": {StoredTask[int]{Epoch: 1, Assigned: true}, []Invariant{AcknowledgedNotStored}},
	} {
		history := History[int]{LastAssigned: 2}
		if got := history.CheckAcknowledged(2, c.stored); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", reason, got, c.want)
		}
	}
	history := History[int]{}
	history.RecordAssignment(3)
	if got := history.CheckAcknowledged(2, StoredTask[int]{}); got != nil {
		t.Errorf("a result of an attempt that was superseded: got %v", got)
	}
}

func TestCheckChange(t *testing.T) {
	for reason, c := range map[string]struct {
		before, after StoredTask[int]
		want          []Invariant
	}{
		"assigned":           {StoredTask[int]{}, StoredTask[int]{Epoch: 1, Assigned: true}, nil},
		"finished":           {StoredTask[int]{Epoch: 1, Assigned: true}, StoredTask[int]{Epoch: 1, Phase: "Completed"}, nil},
		"nothing new":        {StoredTask[int]{Epoch: 1, Phase: "Completed"}, StoredTask[int]{Epoch: 1, Phase: "Completed"}, nil},
		"an epoch of before": {StoredTask[int]{Epoch: 2}, StoredTask[int]{Epoch: 1}, []Invariant{EpochDecreased}},
		"another end": {StoredTask[int]{Epoch: 1, Phase: "Completed"}, StoredTask[int]{Epoch: 1, Phase: "Failed"},
			[]Invariant{EpochDecreased}},
		"no end": {StoredTask[int]{Epoch: 1, Phase: "Completed"}, StoredTask[int]{Epoch: 2}, []Invariant{EpochDecreased}},
	} {
		if got := CheckChange(c.before, c.after); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", reason, got, c.want)
		}
	}
}

func TestEveryInvariantHasAName(t *testing.T) {
	for broken := TwoOwners; broken <= StoppedWithoutRequest; broken++ {
		if broken.String() == "" {
			t.Errorf("invariant %d has no name", broken)
		}
	}
}
