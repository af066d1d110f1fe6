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

// staleReadGuard remembers the last version of each object that was written here. The cache may still hold an earlier one, and a report
// made of that is worth nothing, even if it finds nothing to change: A was stored, B was written over it, the world is back at A, and so is
// the cache; without this check A would never be written again.
type staleReadGuard struct {
	lock     sync.Mutex
	versions ExpiringMap[types.UID, string] // resource versions
}

// maxCacheLag is when a cache has surely seen a write.
const maxCacheLag = 5 * time.Minute

func (w *staleReadGuard) recordWrite(object client.Object) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.versions.MinTTL = maxCacheLag
	w.versions.Put(object.GetUID(), object.GetResourceVersion())
}

// checkCurrent returns a conflict for an object that is older than what was written.
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
	return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), errors.New("the cache has yet to hear of our last write"))
}
