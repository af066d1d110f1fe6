package testcluster

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A WatchHandler handles the events of a watch, and that the API server has ended it: events may be missed.
type WatchHandler struct {
	Event       func(watch.Event)
	Interrupted func()
}

// Watch watches objects until the spec ends.
func Watch(ctx context.Context, api client.WithWatch, list client.ObjectList, handler WatchHandler, options ...client.ListOption) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	watcher, err := api.Watch(ctx, list, options...)
	Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			handler.Event(event)
		}
		if ctx.Err() == nil {
			handler.Interrupted()
		}
	}()
	DeferCleanup(func() {
		cancel()
		<-done
	})
}
