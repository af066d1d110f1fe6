package survey

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Pods lists the pods of a workload, in no order. They belong to the cache and must not be changed.
type Pods func(ctx context.Context, of Key) ([]*corev1.Pod, error)

// podIndex indexes pods by their workload.
const podIndex = "survey.workload"

// IndexPods indexes the pods of a cache by workload, and returns a lister that copies none: admission of each pod of a large workload
// lists them.
func IndexPods(ctx context.Context, from cache.Cache) (Pods, error) {
	informer, err := from.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("index pods: %w", err)
	}
	indexed, found := informer.(interface{ GetIndexer() toolscache.Indexer })
	if !found {
		return listPods(ctx, from)
	}
	if err := informer.AddIndexers(toolscache.Indexers{podIndex: byWorkload}); err != nil {
		return nil, fmt.Errorf("index pods: %w", err)
	}
	return func(_ context.Context, of Key) ([]*corev1.Pod, error) {
		filed, err := indexed.GetIndexer().ByIndex(podIndex, of.String())
		if err != nil {
			return nil, fmt.Errorf("find pods of %s: %w", of, err)
		}
		pods := make([]*corev1.Pod, 0, len(filed))
		for _, object := range filed {
			if pod, isPod := object.(*corev1.Pod); isPod {
				pods = append(pods, pod)
			}
		}
		return pods, nil
	}, nil
}

// listPods does the same with a cache of some namespaces, which consists of several caches and exposes no index.
func listPods(ctx context.Context, from cache.Cache) (Pods, error) {
	file := func(object client.Object) []string {
		keys, _ := byWorkload(object) // an object always has a key
		return keys
	}
	if err := from.IndexField(ctx, &corev1.Pod{}, podIndex, file); err != nil {
		return nil, fmt.Errorf("index pods: %w", err)
	}
	return func(ctx context.Context, of Key) ([]*corev1.Pod, error) {
		list := &corev1.PodList{}
		if err := from.List(ctx, list, client.InNamespace(of.Namespace), client.MatchingFields{podIndex: of.String()}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("find pods of %s: %w", of, err)
		}
		pods := make([]*corev1.Pod, len(list.Items))
		for n := range list.Items {
			pods[n] = &list.Items[n]
		}
		return pods, nil
	}, nil
}

func byWorkload(object any) ([]string, error) {
	pod, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	if key, found := OwnerOf(pod); found {
		return []string{key.String()}, nil
	}
	return nil, nil
}
