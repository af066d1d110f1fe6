package plan

import (
	"time"

	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

// Input is everything that a plan depends on, except the time.
type Input struct {
	Snapshot       split.Snapshot // what the objects say, without the constraints below
	SeveralBudgets bool           // its hold is that several budgets cover one pod
	Windows        string         // when Ready pods may be moved, "" for always
	Admission      Admission
	ReadOnly       bool
	Refusal        Refusal // that is still in force, the zero value for none
}

// Admission is what admission does about new pods.
type Admission struct {
	Covered bool   // it sees them
	Never   string // why it never will, "" if it may
}

// Refusal is what budgets have refused.
type Refusal struct {
	Reason         string
	RetryAt        time.Time
	SeveralBudgets bool // several budgets cover one pod
}

// NewInput converts objects and what else was read.
func NewInput(settings snapshot.Settings, objects snapshot.Objects, windows string, admission Admission) (Input, error) {
	converted, err := settings.Snapshot(objects)
	return Input{
		Snapshot: converted, Windows: windows, Admission: admission, ReadOnly: settings.ReadOnly,
		// A hold that is not the workload's own comes from budgets.
		SeveralBudgets: converted.Hold != "" && converted.Hold != objects.Workload.Rollout,
	}, err
}

// Remember adds what a plan has found out: the next plan depends on it.
func (i *Input) Remember(p Plan) {
	i.Snapshot.Spot.NoCapacitySince = p.Decision.Classes.Spot.NoCapacitySince
	i.Snapshot.OnDemand.NoCapacitySince = p.Decision.Classes.OnDemand.NoCapacitySince
}
