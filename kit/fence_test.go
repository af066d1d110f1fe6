package kit

import (
	"context"
	"errors"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var errReached = errors.New("the write reached the API server")

// newReachedClient is a client whose every write fails with errReached.
func newReachedClient() client.Client {
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return errReached
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return errReached
		},
		DeleteAllOf: func(context.Context, client.WithWatch, client.Object, ...client.DeleteAllOfOption) error {
			return errReached
		},
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return errReached
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errReached
		},
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return errReached
		},
		SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
			return errReached
		},
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return errReached
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return errReached
		},
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			return errReached
		},
	}).Build()
}

// writes are all the ways in which a client writes.
func writes(ctx context.Context, c client.Client) map[string]func() error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "a"}}
	patch, applied := client.RawPatch("application/merge-patch+json", []byte("{}")), coreac.Pod("a", "demo")
	return map[string]func() error{
		"create":        func() error { return c.Create(ctx, pod) },
		"delete":        func() error { return c.Delete(ctx, pod) },
		"delete all":    func() error { return c.DeleteAllOf(ctx, pod) },
		"update":        func() error { return c.Update(ctx, pod) },
		"patch":         func() error { return c.Patch(ctx, pod, patch) },
		"apply":         func() error { return c.Apply(ctx, applied) },
		"update status": func() error { return c.Status().Update(ctx, pod) },
		"patch status":  func() error { return c.Status().Patch(ctx, pod, patch) },
		"apply status":  func() error { return c.Status().Apply(ctx, applied) },
		"evict":         func() error { return c.SubResource("eviction").Create(ctx, pod, pod) },
	}
}

func TestEveryWriteIsFenced(t *testing.T) {
	l := newLeadership(Election{Identity: "pod-1"})
	c := Fenced(newReachedClient(), l)
	for name, write := range writes(t.Context(), c) {
		if err := write(); !errors.Is(err, ErrNotLeading) || errors.Is(err, errReached) {
			t.Errorf("%s before leadership: %v", name, err)
		}
	}
	l.recordRenewal(l.clock(), 1)
	for name, write := range writes(t.Context(), c) {
		if err := write(); !errors.Is(err, errReached) {
			t.Errorf("%s by the leader: %v", name, err)
		}
	}
	l.resign()
	for name, write := range writes(t.Context(), c) {
		if err := write(); !errors.Is(err, ErrNotLeading) || errors.Is(err, errReached) {
			t.Errorf("%s after leadership: %v", name, err)
		}
	}
}

func TestReadsAreFree(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "a"}}
	c := Fenced(fake.NewClientBuilder().WithObjects(pod).Build(), newLeadership(Election{Identity: "pod-1"}))
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{}); err != nil {
		t.Errorf("a standby cannot read: %v", err)
	}
}

func TestClientOfAManagerIsFenced(t *testing.T) {
	l, refused := newLeadership(Election{Identity: "pod-1"}), errors.New("refused")
	made, err := fenceNewClient(func(*rest.Config, client.Options) (client.Client, error) { return newReachedClient(), nil },
		l)(&rest.Config{},
		client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Create(t.Context(), &corev1.Pod{}); !errors.Is(err, ErrNotLeading) {
		t.Errorf("got %v", err)
	}
	_, err = fenceNewClient(func(*rest.Config, client.Options) (client.Client, error) { return nil, refused }, l)(&rest.Config{},
		client.Options{})
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if byDefault, err := fenceNewClient(nil, l)(&rest.Config{Host: "https://127.0.0.1:1"}, client.Options{}); err != nil || byDefault == nil {
		t.Errorf("without a function of its own: %v, %v", byDefault, err)
	}
}

func TestConnectionThatCannotBeMadeIsAnError(t *testing.T) {
	refused := errors.New("refused")
	config := newLeadership(Election{Identity: "pod-1"}).fenceConnections(&rest.Config{Dial: func(context.Context, string, string) (net.Conn,
		error) {
		return nil, refused
	}})
	if connection, err := config.Dial(t.Context(), "tcp", "api:443"); !errors.Is(err, refused) || connection != nil {
		t.Errorf("got %v, %v", connection, err)
	}
}
