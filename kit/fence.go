package kit

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Fenced returns a client that writes only while this process leads. Other writes fail with ErrNotLeading, and a write in progress is
// cancelled when leadership ends. Reads are not restricted.
func Fenced(inner client.Client, leadership *Leadership) client.Client {
	return &fencedClient{Client: inner, fence: fence{leadership}}
}

// fenceNewClient wraps the function that creates a manager's client.
func fenceNewClient(inner client.NewClientFunc, leadership *Leadership) client.NewClientFunc {
	if inner == nil {
		inner = client.New
	}
	return func(config *rest.Config, options client.Options) (client.Client, error) {
		c, err := inner(config, options)
		if err != nil {
			return nil, err
		}
		return Fenced(c, leadership), nil
	}
}

type fence struct{ leadership *Leadership }

// do runs the write if this process leads.
func (f fence) do(ctx context.Context, write func(context.Context) error) error {
	if !f.leadership.Fresh() {
		return ErrNotLeading
	}
	writeCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(f.leadership.leaderCtx, func() { cancel(ErrNotLeading) })()
	err := write(writeCtx)
	if err != nil && errors.Is(context.Cause(writeCtx), ErrNotLeading) {
		return fmt.Errorf("given up: %w: %w", ErrNotLeading, err)
	}
	return err
}

type fencedClient struct {
	client.Client
	fence fence
}

func (c *fencedClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return c.fence.do(ctx, func(ctx context.Context) error { return c.Client.Create(ctx, object, options...) })
}

func (c *fencedClient) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	return c.fence.do(ctx, func(ctx context.Context) error { return c.Client.Delete(ctx, object, options...) })
}

func (c *fencedClient) DeleteAllOf(ctx context.Context, object client.Object, options ...client.DeleteAllOfOption) error {
	return c.fence.do(ctx, func(ctx context.Context) error { return c.Client.DeleteAllOf(ctx, object, options...) })
}

func (c *fencedClient) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return c.fence.do(ctx, func(ctx context.Context) error { return c.Client.Update(ctx, object, options...) })
}

func (c *fencedClient) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	return c.fence.do(ctx, func(ctx context.Context) error { return c.Client.Patch(ctx, object, patch, options...) })
}

func (c *fencedClient) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	return c.fence.do(ctx, func(ctx context.Context) error { return c.Client.Apply(ctx, object, options...) })
}

func (c *fencedClient) Status() client.SubResourceWriter { return c.SubResource("status") }

func (c *fencedClient) SubResource(name string) client.SubResourceClient {
	return &fencedSubResource{SubResourceClient: c.Client.SubResource(name), fence: c.fence}
}

// A fencedSubResource writes a subresource, such as status or scale or eviction.
type fencedSubResource struct {
	client.SubResourceClient
	fence fence
}

func (c *fencedSubResource) Create(ctx context.Context, object, subResource client.Object,
	options ...client.SubResourceCreateOption) error {
	return c.fence.do(ctx, func(ctx context.Context) error {
		return c.SubResourceClient.Create(ctx, object, subResource, options...)
	})
}

func (c *fencedSubResource) Update(ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	return c.fence.do(ctx, func(ctx context.Context) error { return c.SubResourceClient.Update(ctx, object, options...) })
}

func (c *fencedSubResource) Patch(ctx context.Context, object client.Object, patch client.Patch,
	options ...client.SubResourcePatchOption) error {
	return c.fence.do(ctx, func(ctx context.Context) error {
		return c.SubResourceClient.Patch(ctx, object, patch, options...)
	})
}

func (c *fencedSubResource) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	return c.fence.do(ctx, func(ctx context.Context) error { return c.SubResourceClient.Apply(ctx, object, options...) })
}
