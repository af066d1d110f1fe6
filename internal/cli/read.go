package cli

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// openPool connects to the cluster and reads a pool.
func (s *session) openPool(ctx context.Context, name string) (cluster, *v1alpha1.WorkerPool, error) {
	at, err := s.open()
	if err != nil {
		return at, nil, err
	}
	pool, err := at.readPool(ctx, name)
	return at, pool, err
}

func (c cluster) readPool(ctx context.Context, name string) (*v1alpha1.WorkerPool, error) {
	pool := &v1alpha1.WorkerPool{}
	err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, pool)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no pool %q in namespace %q: kubectl swarm pools -A lists all there are", name, c.namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("read pool %q: %w", name, err)
	}
	return pool, nil
}
