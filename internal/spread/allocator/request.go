package allocator

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

// Request is the input of the decision where a new pod goes.
type Request struct {
	Workload     workload.Key
	TemplateHash string // of the pod template, "" for a StatefulSet's
	PodName      string // its name, "" if not yet generated
	UID          string // identifies the API server's request: a repeated one gets the same answer
	DryRun       bool   // nothing is reserved
}

// maxUIDLength is longer than any UID of the API server.
const maxUIDLength = 64

// Validate rejects what no API server would send: anyone who reaches the webhook can call it, and its requests are remembered.
func (r Request) Validate() error {
	switch {
	case len(r.UID) > maxUIDLength:
		return fmt.Errorf("the UID of the request has %d bytes: at most %d are allowed", len(r.UID), maxUIDLength)
	case len(validation.IsValidLabelValue(r.TemplateHash)) > 0:
		return errors.New("the hash of the pod's template is not a label value")
	case len(r.PodName) > validation.DNS1123SubdomainMaxLength:
		return errors.New("the name of the pod is too long")
	}
	return nil
}

// Placement is where a pod goes.
type Placement struct {
	Managed bool // if not, the pod is not changed
	Number  int
	Class   split.Class
}

// A Placer decides where pods go.
type Placer interface {
	Place(ctx context.Context, ask Request) (Placement, error)
}
