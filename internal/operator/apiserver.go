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
func awaitAPIServer(ctx context.Context, cluster *rest.Config, timeout time.Duration, log *slog.Logger) error {
	ownConfig := rest.CopyConfig(cluster)
	ownConfig.Timeout = 5 * time.Second
	server, err := discovery.NewDiscoveryClientForConfig(ownConfig)
	if err != nil {
		return fmt.Errorf("make client for discovery: %w", err)
	}
	var lastErr error
	ready := func(ctx context.Context) (bool, error) {
		logged := lastErr != nil
		lastErr = readinessError(ctx, server)
		if lastErr != nil && !logged && ctx.Err() == nil {
			log.Warn("waiting for the API server", "err", lastErr)
		}
		return lastErr == nil, nil //nolint:nilerr // it is tried again
	}
	err = wait.PollUntilContextTimeout(ctx, time.Second, timeout, true, ready)
	if err != nil && lastErr != nil {
		return fmt.Errorf("the API server is not ready: %w: does the kubeconfig name the right cluster?", lastErr)
	}
	return err
}

// readinessError returns why the API server cannot be used yet. If this account may not read /readyz, discovery has to suffice.
func readinessError(ctx context.Context, server *discovery.DiscoveryClient) error {
	if err := server.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("ask whether it is ready: %w", err)
	}
	_, err := server.ServerGroups()
	return err
}
