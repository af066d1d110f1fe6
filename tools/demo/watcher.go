package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// An objectWatcher holds what was last seen of a list of objects. It keeps itself up to date, and signals changes on changed.
type objectWatcher struct {
	source  dynamic.ResourceInterface
	changed chan<- struct{}

	lock       sync.Mutex
	objects    map[string]*unstructured.Unstructured
	watchError string
}

func newObjectWatcher(source dynamic.ResourceInterface, changed chan<- struct{}) *objectWatcher {
	return &objectWatcher{source: source, changed: changed, objects: map[string]*unstructured.Unstructured{}}
}

// run goes on until the context is done: a watch that breaks is begun again.
func (b *objectWatcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := b.watch(ctx)
		b.update(func() {
			b.watchError = ""
			if err != nil {
				b.watchError = fmt.Sprintf("the cluster does not answer: %v", err)
			}
		})
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// watch reads everything once, and then what changes, until the server ends it.
func (b *objectWatcher) watch(ctx context.Context) error {
	list, err := b.source.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	b.update(func() {
		b.watchError, b.objects = "", map[string]*unstructured.Unstructured{}
		for n := range list.Items {
			b.objects[list.Items[n].GetName()] = &list.Items[n]
		}
	})
	changes, err := b.source.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return err
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		object, known := change.Object.(*unstructured.Unstructured)
		if change.Type == watch.Error || !known {
			return nil // too old, most likely: read everything again
		}
		b.update(func() { b.applyEvent(change.Type, object) })
	}
	return nil
}

func (b *objectWatcher) applyEvent(change watch.EventType, object *unstructured.Unstructured) {
	if change == watch.Deleted {
		delete(b.objects, object.GetName())
		return
	}
	b.objects[object.GetName()] = object
}

func (b *objectWatcher) update(change func()) {
	b.lock.Lock()
	change()
	b.lock.Unlock()
	select {
	case b.changed <- struct{}{}:
	default: // a change is already signalled
	}
}

// snapshot are the objects, by name, and what keeps us from seeing them now.
func (b *objectWatcher) snapshot() (objects []*unstructured.Unstructured, trouble string) {
	b.lock.Lock()
	defer b.lock.Unlock()
	for _, name := range slices.Sorted(maps.Keys(b.objects)) {
		objects = append(objects, b.objects[name])
	}
	return objects, b.watchError
}
