// Command certmanager is cert-manager as far as our component needs it: its own controllers of certificates, its own issuers and its own
// injector of CAs, in one process outside of the cluster that KUBECONFIG names. test/e2e/certmanager runs it.
//
// What cert-manager ships is put together in modules of its own that cannot be fetched; this puts the same packages together. It does not
// elect a leader and listens nowhere, and webhooks of cert-manager are left out: they only refuse what is malformed. Feature gates are
// given as arguments, each like Name=false.
//
// It is a module of its own, so that cert-manager is built with the versions that it was released with.
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
