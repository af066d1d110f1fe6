package operator

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// awaitAPIServer waits until the API server is ready and serves discovery, for at most patience. If the operator exited whenever the
// API server is down, its kubelet would restart it later and later, and agents cannot wait that long.
func awaitAPIServer(ctx context.Context, cluster *rest.Config, patience time.Duration, log *slog.Logger) error {
	own := rest.CopyConfig(cluster)
	own.Timeout = 5 * time.Second
	server, err := discovery.NewDiscoveryClientForConfig(own)
	if err != nil {
		return fmt.Errorf("make client for discovery: %w", err)
	}
	var last error
	ready := func(ctx context.Context) (bool, error) {
		told := last != nil
		last = unready(ctx, server)
		if last != nil && !told {
			log.Warn("waiting for the API server", "err", last)
		}
		return last == nil, nil //nolint:nilerr // it is tried again
	}
	err = wait.PollUntilContextTimeout(ctx, time.Second, patience, true, ready)
	if err != nil && last != nil {
		return fmt.Errorf("the API server is not ready: %w: does the kubeconfig name the right cluster?", last)
	}
	return err
}

// unready returns why the API server cannot be used yet. If this account may not read /readyz, discovery has to suffice.
func unready(ctx context.Context, server *discovery.DiscoveryClient) error {
	if err := server.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("ask whether it is ready: %w", err)
	}
	_, err := server.ServerGroups()
	return err
}
