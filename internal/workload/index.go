package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PodLister lists the pods of a workload, in no order. They belong to the cache and must not be changed.
type PodLister func(ctx context.Context, of Key) ([]*corev1.Pod, error)

// podIndexName indexes pods by their workload.
const podIndexName = "survey.workload"

// IndexPods indexes the pods of a cache by workload, and returns a lister that copies none: admission of each pod of a large workload
// lists them.
func IndexPods(ctx context.Context, podCache cache.Cache) (PodLister, error) {
	informer, err := podCache.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("index pods: %w", err)
	}
	indexed, found := informer.(interface{ GetIndexer() toolscache.Indexer })
	if !found {
		return indexFieldByWorkload(ctx, podCache)
	}
	if err := informer.AddIndexers(toolscache.Indexers{podIndexName: indexByWorkload}); err != nil {
		return nil, fmt.Errorf("index pods: %w", err)
	}
	return func(_ context.Context, key Key) ([]*corev1.Pod, error) {
		objects, err := indexed.GetIndexer().ByIndex(podIndexName, key.String())
		if err != nil {
			return nil, fmt.Errorf("find pods of %s: %w", key, err)
		}
		pods := make([]*corev1.Pod, 0, len(objects))
		for _, object := range objects {
			if pod, isPod := object.(*corev1.Pod); isPod {
				pods = append(pods, pod)
			}
		}
		return pods, nil
	}, nil
}

// indexFieldByWorkload does the same with a cache of some namespaces, which consists of several caches and exposes no index.
func indexFieldByWorkload(ctx context.Context, podCache cache.Cache) (PodLister, error) {
	extract := func(object client.Object) []string {
		keys, _ := indexByWorkload(object) // an object always has a key
		return keys
	}
	if err := podCache.IndexField(ctx, &corev1.Pod{}, podIndexName, extract); err != nil {
		return nil, fmt.Errorf("index pods: %w", err)
	}
	return func(ctx context.Context, key Key) ([]*corev1.Pod, error) {
		list := &corev1.PodList{}
		if err := podCache.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{podIndexName: key.String()},
			client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("find pods of %s: %w", key, err)
		}
		pods := make([]*corev1.Pod, len(list.Items))
		for n := range list.Items {
			pods[n] = &list.Items[n]
		}
		return pods, nil
	}, nil
}

func indexByWorkload(object any) ([]string, error) {
	pod, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	if key, found := OwnerOf(pod); found {
		return []string{key.String()}, nil
	}
	return nil, nil
}
