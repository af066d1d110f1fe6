package placement

import (
	"context"

	"github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

// Ask is what must be known of a pod that is about to be made, to say where it goes.
type Ask struct {
	Workload survey.Key
	Hash     string // of the template that it is made from, "" for a StatefulSet's
	Pod      string // its name, "" when it has none yet
	Request  string // tells the API server's request from others: who asks again gets the same answer
	DryRun   bool   // nothing is taken
}

// Answer is where a pod goes.
type Answer struct {
	Managed bool // if not, the pod stays as it is
	Number  int
	Class   spread.Class
}

// An Asker knows where pods go.
type Asker interface {
	Place(ctx context.Context, ask Ask) (Answer, error)
}
