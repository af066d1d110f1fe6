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
	// relistInterval is how often objects are listed from the API server while a cache is behind.
	relistInterval = time.Second
	// compareInterval is how often the cache is compared in between.
	compareInterval = 20 * time.Millisecond
	// pageSize is the limit of one list request.
	pageSize = 500
)

// A Kind is a set of objects in the cache.
type Kind struct {
	List       client.ObjectList
	Options    []client.ListOption
	Namespaces []string // none: the whole cluster
}

// AwaitCurrent waits until the caches of some kinds hold everything that the API server holds now. Caches are synced once, when the program
// starts. A watch that broke since may be far behind, while the Lease is won over another connection.
//
// It lists names and versions. There is no cheaper way: the resource version of a list counts the changes of all kinds, and a watch sees
// only changes of its own kind. Like the sync of caches, it bypasses the client's rate limit: a new leader serves nothing until it is done.
func (o *Operator) AwaitCurrent(ctx context.Context, kinds ...Kind) error {
	for _, kind := range kinds {
		gvk, err := apiutil.GVKForObject(kind.List, o.GetScheme())
		if err != nil {
			return err
		}
		if err := awaitCurrent(ctx, o.Manager.GetAPIReader(), o.GetClient(), gvk, kind); err != nil {
			return fmt.Errorf("await the cache of %s: %w", gvk.Kind, err)
		}
	}
	return nil
}

func awaitCurrent(ctx context.Context, live, cached client.Reader, gvk schema.GroupVersionKind, kind Kind) error {
	return wait.PollUntilContextCancel(ctx, relistInterval, true, func(ctx context.Context) (bool, error) {
		stored, err := readStoredVersions(ctx, live, gvk, kind)
		if err != nil {
			logf.FromContext(ctx).Info("cannot compare the cache with the API server, retrying", "kind", gvk.Kind, "error", err.Error())
			return false, nil
		}
		compareCtx, cancel := context.WithTimeout(ctx, relistInterval)
		defer cancel()
		err = wait.PollUntilContextCancel(compareCtx, compareInterval, true, func(ctx context.Context) (bool, error) {
			inCache, err := readCachedVersions(ctx, cached, kind.List,
				slices.Concat(kind.Options, []client.ListOption{client.UnsafeDisableDeepCopy}))
			return err == nil && stored.isReachedBy(inCache), err
		})
		if compareCtx.Err() != nil {
			return false, nil
		}
		return err == nil, err
	})
}

// A versionSnapshot holds the versions of all objects of a kind at one moment.
type versionSnapshot struct {
	listVersions map[string]string // resource version of each list, by namespace
	versions     map[types.UID]objectVersion
}

type objectVersion struct{ namespace, version string }

// isReachedBy reports whether a cache holds everything in the snapshot, and no older objects that are not in it.
func (s versionSnapshot) isReachedBy(cache versionSnapshot) bool {
	for uid, stored := range s.versions {
		if inCache, found := cache.versions[uid]; !found || isOlder(inCache.version, stored.version) {
			return false
		}
	}
	for uid, inCache := range cache.versions {
		if _, stored := s.versions[uid]; !stored && isOlder(inCache.version, s.listVersionOf(inCache.namespace)) {
			return false // deleted before
		}
	}
	return true
}

func (s versionSnapshot) listVersionOf(namespace string) string {
	if version, found := s.listVersions[namespace]; found {
		return version
	}
	return s.listVersions[metav1.NamespaceAll]
}

func isOlder(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order < 0
}

// readStoredVersions reads the versions from the API server.
func readStoredVersions(ctx context.Context, live client.Reader, gvk schema.GroupVersionKind, kind Kind) (versionSnapshot, error) {
	result := versionSnapshot{listVersions: map[string]string{}, versions: map[types.UID]objectVersion{}}
	namespaces := kind.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(gvk)
		if err := result.addPages(ctx, live, page, slices.Concat(kind.Options, []client.ListOption{client.InNamespace(namespace)})); err != nil {
			return versionSnapshot{}, err
		}
		result.listVersions[namespace] = page.ResourceVersion
	}
	return result, nil
}

// addPages lists from the API server, page by page.
func (s versionSnapshot) addPages(ctx context.Context, live client.Reader, page *metav1.PartialObjectMetadataList,
	options []client.ListOption) error {
	for {
		if err := live.List(ctx, page, slices.Concat(options, []client.ListOption{client.Limit(pageSize),
			client.Continue(page.Continue)})...); err != nil {
			return fmt.Errorf("list %s: %w", page.Kind, err)
		}
		for n := range page.Items {
			s.versions[page.Items[n].UID] = objectVersion{page.Items[n].Namespace, page.Items[n].ResourceVersion}
		}
		if page.Continue == "" {
			return nil
		}
	}
}

// readCachedVersions reads the cache.
func readCachedVersions(ctx context.Context, cached client.Reader, list client.ObjectList, options []client.ListOption) (versionSnapshot,
	error) {
	result := versionSnapshot{versions: map[types.UID]objectVersion{}}
	if err := cached.List(ctx, list, options...); err != nil {
		return result, fmt.Errorf("list %T: %w", list, err)
	}
	return result, meta.EachListItem(list, func(item runtime.Object) error {
		accessor, err := meta.Accessor(item)
		if err == nil {
			result.versions[accessor.GetUID()] = objectVersion{accessor.GetNamespace(), accessor.GetResourceVersion()}
		}
		return err
	})
}
