// Command certmanager runs the parts of cert-manager that our component needs: its certificate controllers, its issuers and its CA
// injector, in one process outside of the cluster that KUBECONFIG names. test/e2e/certmanager runs it.
//
// The programs of cert-manager are in modules that cannot be downloaded; this one is built from the same packages. It elects no leader,
// listens on no port, and omits the webhooks of cert-manager, which only refuse malformed objects. Arguments are feature gates such as
// Name=false.
//
// It is a separate module, so that cert-manager is built with the dependency versions of its release.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"

	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/util/feature"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(logf.NewContext(ctx, logf.Log), os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		os.Exit(1)
	}
}

// run ends when the context does, or when a part fails.
func run(ctx context.Context, gates []string) error {
	if err := feature.DefaultMutableFeatureGate.Set(strings.Join(gates, ",")); err != nil {
		return fmt.Errorf("set feature gates: %w", err)
	}
	ctrl.SetLogger(logf.Log)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return inject(ctx) })
	group.Go(func() error { return runIssuers(ctx) })
	return group.Wait()
}
