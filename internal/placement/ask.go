package placement

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

// Ask is what is needed to decide where a new pod goes.
type Ask struct {
	Workload survey.Key
	Hash     string // of the pod template, "" for a StatefulSet's
	Pod      string // its name, "" if not yet generated
	Request  string // identifies the API server's request: a repeated one gets the same answer
	DryRun   bool   // nothing is reserved
}

// maxUID is longer than any UID of the API server.
const maxUID = 64

// validate rejects what no API server would send: anyone who reaches the webhook can call it, and its requests are remembered.
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
	Managed bool // if not, the pod is not changed
	Number  int
	Class   spread.Class
}

// An Asker decides where pods go.
type Asker interface {
	Place(ctx context.Context, ask Ask) (Answer, error)
}
