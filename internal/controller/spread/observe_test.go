package spread

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/swarm-io/swarm-operator/internal/spread/state"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

var errUnread = errors.New("cannot be read")

// failingClient returns the client of a harness, which fails to read objects or lists of this type.
func (s *harness) failingClient(of any) client.WithWatch {
	fails := fmt.Sprintf("%T", of)
	return interceptor.NewClient(s.cluster, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if fmt.Sprintf("%T", object) == fails {
				return errUnread
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if fmt.Sprintf("%T", list) == fails {
				return errUnread
			}
			return c.List(ctx, list, options...)
		},
	})
}

// A pod on an unknown node looks like one on a deleted node, and a pod without budgets like one that may be evicted.
func TestNothingIsMovedOnReadErrors(t *testing.T) {
	for reason, breakRead := range map[string]func(*harness){
		"pods": func(s *harness) {
			s.controller.listPods = func(context.Context, workload.Key) ([]*corev1.Pod, error) { return nil, errUnread }
		},
		"nodes": func(s *harness) {
			s.nodes.current, s.nodes.cachedReader = nil, s.failingClient(&corev1.NodeList{})
		},
		"a node that is new": func(s *harness) {
			s.nodes.current, s.nodes.liveReader = &state.Nodes{}, s.failingClient(&corev1.Node{})
		},
		"budgets":          func(s *harness) { s.client = s.failingClient(&policyv1.PodDisruptionBudgetList{}) },
		"disruption hours": func(s *harness) { s.client = s.failingClient(&corev1.Namespace{}) },
	} {
		t.Run(reason, func(t *testing.T) {
			s := newMisplacedHarness(t)
			breakRead(s)
			if _, err := s.reconcile(); !errors.Is(err, errUnread) || len(s.writes) > 0 {
				t.Errorf("got %v, wrote %v", err, s.writes)
			}
		})
	}
}

func TestNodeIsRetriedWhenNodesCannotBeListed(t *testing.T) {
	s := newHarness(t, 1)
	s.nodes.current, s.nodes.cachedReader = nil, s.failingClient(&corev1.NodeList{})
	if _, err := s.nodes.Reconcile(t.Context(), readyNode("n", "spot")); !errors.Is(err, errUnread) {
		t.Errorf("got %v", err)
	}
}

func TestDeletedNodesAreBounded(t *testing.T) {
	s := newHarness(t, 1)
	s.mustReconcile()
	for n := range 2*maxDeletedNodes + 1 {
		if s.nodes.markDeleted(fmt.Sprint(n)); len(s.nodes.deletedNodes) > maxDeletedNodes || !s.nodes.isDeleted(fmt.Sprint(n)) {
			t.Fatalf("%d lost nodes are remembered", len(s.nodes.deletedNodes))
		}
	}
}
