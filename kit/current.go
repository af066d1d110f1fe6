package kit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// relistEvery is how often the API server is asked again while a cache is behind.
	relistEvery = time.Second
	// compareEvery is how often the cache is looked at in between.
	compareEvery = 20 * time.Millisecond
	// pageSize is how many objects are asked for at once.
	pageSize = 500
)

// A Kind is a set of objects in the cache.
type Kind struct {
	List       client.ObjectList
	Options    []client.ListOption
	Namespaces []string // none: the whole cluster
}

// AwaitCurrent waits until the caches of some kinds hold everything that the API server holds now. Caches are synced once, when the program
// starts. A watch that has broken since may be far behind, while the Lease, over another connection, is won.
//
// It lists names and versions, since there is no cheaper way: the resource version of a list counts the changes of all kinds, and a watch
// sees changes of its own kind only. Like caches, it waits for no limit: a new leader serves nothing before.
func (o *Operator) AwaitCurrent(ctx context.Context, kinds ...Kind) error {
	for _, kind := range kinds {
		described, err := apiutil.GVKForObject(kind.List, o.GetScheme())
		if err != nil {
			return err
		}
		if err := awaitCurrent(ctx, o.Manager.GetAPIReader(), o.GetClient(), described, kind); err != nil {
			return fmt.Errorf("await the cache of %s: %w", described.Kind, err)
		}
	}
	return nil
}

func awaitCurrent(ctx context.Context, live, cached client.Reader, described schema.GroupVersionKind, kind Kind) error {
	return wait.PollUntilContextCancel(ctx, relistEvery, true, func(ctx context.Context) (bool, error) {
		stored, err := storedVersions(ctx, live, described, kind)
		if err != nil {
			logf.FromContext(ctx).Info("Cannot tell whether the cache is current", "kind", described.Kind, "error", err.Error())
			return false, nil
		}
		patience, cancel := context.WithTimeout(ctx, relistEvery)
		defer cancel()
		err = wait.PollUntilContextCancel(patience, compareEvery, true, func(ctx context.Context) (bool, error) {
			known, err := versions(ctx, cached, kind.List, slices.Concat(kind.Options, []client.ListOption{client.UnsafeDisableDeepCopy}))
			return err == nil && stored.reachedBy(known), err
		})
		if patience.Err() != nil {
			return false, nil
		}
		return err == nil, err
	})
}

// A snapshot is the versions of all objects of a kind at one moment.
type snapshot struct {
	taken    map[string]string // resource version of each list, by namespace
	versions map[types.UID]object
}

type object struct{ namespace, version string }

// reachedBy reports whether a cache has seen everything that is in the snapshot, and forgotten what is not in it.
func (s snapshot) reachedBy(cache snapshot) bool {
	for uid, stored := range s.versions {
		if known, found := cache.versions[uid]; !found || older(known.version, stored.version) {
			return false
		}
	}
	for uid, known := range cache.versions {
		if _, stored := s.versions[uid]; !stored && older(known.version, s.takenOf(known.namespace)) {
			return false // deleted before
		}
	}
	return true
}

func (s snapshot) takenOf(namespace string) string {
	if taken, found := s.taken[namespace]; found {
		return taken
	}
	return s.taken[metav1.NamespaceAll]
}

func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

// storedVersions reads the versions from the API server.
func storedVersions(ctx context.Context, live client.Reader, described schema.GroupVersionKind, kind Kind) (snapshot, error) {
	all := snapshot{taken: map[string]string{}, versions: map[types.UID]object{}}
	namespaces := kind.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(described)
		if err := all.list(ctx, live, page, slices.Concat(kind.Options, []client.ListOption{client.InNamespace(namespace)})); err != nil {
			return snapshot{}, err
		}
		all.taken[namespace] = page.ResourceVersion
	}
	return all, nil
}

// list adds what the API server holds, page by page.
func (s snapshot) list(ctx context.Context, live client.Reader, page *metav1.PartialObjectMetadataList, options []client.ListOption) error {
	for {
		if err := live.List(ctx, page, slices.Concat(options, []client.ListOption{client.Limit(pageSize), client.Continue(page.Continue)})...); err != nil {
			return fmt.Errorf("list %s: %w", page.Kind, err)
		}
		for n := range page.Items {
			s.versions[page.Items[n].UID] = object{page.Items[n].Namespace, page.Items[n].ResourceVersion}
		}
		if page.Continue == "" {
			return nil
		}
	}
}

// versions reads the cache.
func versions(ctx context.Context, cached client.Reader, list client.ObjectList, options []client.ListOption) (snapshot, error) {
	all := snapshot{versions: map[types.UID]object{}}
	if err := cached.List(ctx, list, options...); err != nil {
		return all, fmt.Errorf("list %T: %w", list, err)
	}
	return all, meta.EachListItem(list, func(item runtime.Object) error {
		found, err := meta.Accessor(item)
		if err == nil {
			all.versions[found.GetUID()] = object{found.GetNamespace(), found.GetResourceVersion()}
		}
		return err
	})
}
