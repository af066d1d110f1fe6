package plan

import (
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

func TestConstraintsOfAdmission(t *testing.T) {
	for name, test := range map[string]struct {
		input Input
		want  constraints
	}{
		"covered": {Input{Admission: Admission{Covered: true}}, constraints{}},
		"not yet": {Input{}, constraints{frozen: "admission does not see its pods yet", hold: "admission does not see its pods yet",
			recheckAt: noon.Add(time.Second)}},
		"never": {Input{Admission: Admission{Never: "x"}, ReadOnly: true}, constraints{unsupported: "x", frozen: "nothing is moved: x",
			hold: "nothing is moved: x"}},
		"read-only": {Input{ReadOnly: true}, constraints{frozen: "read-only: nothing is moved", hold: "read-only: nothing is moved"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.input.constraints(noon); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestRememberKeepsWhatAPlanFoundOut(t *testing.T) {
	input := Input{}
	input.Remember(Plan{Decision: split.Decision{Classes: split.ClassStates{
		Spot: split.ClassState{NoCapacitySince: noon}, OnDemand: split.ClassState{NoCapacitySince: noon.Add(time.Hour)},
	}}})
	if input.Snapshot.Spot.NoCapacitySince != noon || input.Snapshot.OnDemand.NoCapacitySince != noon.Add(time.Hour) {
		t.Errorf("got %+v", input.Snapshot)
	}
}
