package placement

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

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

// maxUID is more than a UID of the API server is long.
const maxUID = 64

// validate refuses what no API server would ask: anyone who reaches the webhook can ask, and what is asked is remembered.
func (a Ask) validate() error {
	switch {
	case len(a.Request) > maxUID:
		return fmt.Errorf("the UID of the request has %d bytes: at most %d are allowed", len(a.Request), maxUID)
	case len(validation.IsValidLabelValue(a.Hash)) > 0:
		return errors.New("the hash of the pod's template is not a label value")
	case len(a.Pod) > validation.DNS1123SubdomainMaxLength:
		return errors.New("the name of the pod is too long")
	}
	return nil
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
