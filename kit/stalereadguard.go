package kit

import (
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// staleReadGuard remembers the last version of each object that this process wrote. The cache may still hold an earlier one, and a report
// based on that is wrong even if it finds nothing to change. For example, A was stored and then B, the state is back at A, and the cache
// still holds A: without this check, A would never be written again.
type staleReadGuard struct {
	lock     sync.Mutex
	versions ExpiringMap[types.UID, string] // resource versions
}

// maxCacheLag is the time after which a cache has surely seen a write.
const maxCacheLag = 5 * time.Minute

func (w *staleReadGuard) recordWrite(object client.Object) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.versions.MinTTL = maxCacheLag
	w.versions.Put(object.GetUID(), object.GetResourceVersion())
}

// checkCurrent returns a conflict for an object that is older than the last write.
func (w *staleReadGuard) checkCurrent(object client.Object) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	lastVersion, found := w.versions.Get(object.GetUID())
	if !found {
		return nil
	}
	if order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), lastVersion); err != nil || order >= 0 {
		w.versions.Delete(object.GetUID())
		return nil
	}
	return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), errors.New("the cache does not hold our last write yet"))
}
