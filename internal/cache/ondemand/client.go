// Package ondemand is a client for kinds of which most objects are not ours: its cache holds the metadata of all of them, and contents
// are read from the API server on demand. All ConfigMaps and Services of the cluster, whatever their size, cost only their metadata.
// The same holds for objects of our kinds, and those that they control, of which the cache keeps only a part.
//
// It promises:
//   - Get and List return nothing older than the cache.
//   - The contents of an object are read once per version, as long as there is room for them. The room is bounded.
//   - Strings of contents are shared by all readers of the same version.
package ondemand

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listThreshold is how many contents have to be missing before they are listed instead of read one by one.
const listThreshold = 4

// New returns a client that reads the contents of ConfigMaps and Services on demand. The inner client reads from a cache, live from the API
// server.
func New(inner client.Client, live client.Reader) client.Client {
	return &onDemandClient{Client: inner, live: live, contents: newContentCache(maxContentBytes)}
}

type onDemandClient struct {
	client.Client
	live     client.Reader
	contents *contentCache
}

// ConfigMaps returns what a cache has to hold of ConfigMaps.
func ConfigMaps() *metav1.PartialObjectMetadata { return metadata("ConfigMap") }

// Services returns what a cache has to hold of Services.
func Services() *metav1.PartialObjectMetadata { return metadata("Service") }

func metadata(kind string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}}
}

// Get implements client.Reader.
func (r *onDemandClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	var cached *metav1.PartialObjectMetadata
	switch into.(type) {
	case *corev1.ConfigMap:
		cached = ConfigMaps()
	case *corev1.Service:
		cached = Services()
	default:
		if err := r.Client.Get(ctx, key, into, options...); err != nil || !isPartial(into) {
			return err
		}
		return r.readWhole(ctx, key, into)
	}
	if err := r.Client.Get(ctx, key, cached, options...); err != nil {
		return err
	}
	if r.contents.copyTo(cached, into) {
		return nil
	}
	if err := r.live.Get(ctx, key, into); err != nil {
		return err
	}
	r.contents.add(into)
	return nil
}

// List implements client.Reader.
func (r *onDemandClient) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	switch into := into.(type) {
	case *corev1.ConfigMapList:
		return r.listConfigMaps(ctx, into, options)
	case *corev1.ServiceList:
		return errors.New("services are read one by one")
	}
	if err := r.Client.List(ctx, into, options...); err != nil {
		return err
	}
	return r.completeList(ctx, into, options)
}

func (r *onDemandClient) listConfigMaps(ctx context.Context, into *corev1.ConfigMapList, options []client.ListOption) error {
	cached := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}}
	if err := r.Client.List(ctx, cached, options...); err != nil {
		return err
	}
	into.Items = make([]corev1.ConfigMap, 0, len(cached.Items))
	missing := make([]*metav1.PartialObjectMetadata, 0, listThreshold)
	for n := range cached.Items {
		object := corev1.ConfigMap{}
		if !r.contents.copyTo(&cached.Items[n], &object) {
			missing = append(missing, &cached.Items[n])
			continue
		}
		into.Items = append(into.Items, object)
	}
	if len(missing) >= listThreshold {
		return r.listLive(ctx, into, options)
	}
	for _, object := range missing {
		config := corev1.ConfigMap{}
		err := r.live.Get(ctx, client.ObjectKeyFromObject(object), &config)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read ConfigMap %q: %w", object.Name, err)
		}
		r.contents.add(&config)
		into.Items = append(into.Items, config)
	}
	return nil
}

func (r *onDemandClient) listLive(ctx context.Context, into *corev1.ConfigMapList, options []client.ListOption) error {
	into.Items = nil
	if err := r.live.List(ctx, into, options...); err != nil {
		return err
	}
	for n := range into.Items {
		r.contents.add(&into.Items[n])
	}
	return nil
}

// copyInto copies one ConfigMap or Service to another. Maps are copied, strings are shared.
func copyInto(from runtime.Object, into client.Object) {
	switch into := into.(type) {
	case *corev1.ConfigMap:
		from.(*corev1.ConfigMap).DeepCopyInto(into)
	case *corev1.Service:
		from.(*corev1.Service).DeepCopyInto(into)
	}
}
