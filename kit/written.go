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

// written remembers the last version of each object that was written here. The cache may still hold an earlier one, and a report made of
// that is worth nothing, even if it finds nothing to change: A was stored, B was written over it, the world is back at A, and so is the
// cache; without this check A would never be written again.
type written struct {
	lock sync.Mutex
	last Recent[types.UID, string] // resource versions
}

// caughtUp is when a cache has surely seen a write.
const caughtUp = 5 * time.Minute

func (w *written) note(object client.Object) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.last.Keep = caughtUp
	w.last.Put(object.GetUID(), object.GetResourceVersion())
}

// current returns a conflict for an object that is older than what was written.
func (w *written) current(object client.Object) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	known, wrote := w.last.Get(object.GetUID())
	if !wrote {
		return nil
	}
	if order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), known); err != nil || order >= 0 {
		w.last.Delete(object.GetUID())
		return nil
	}
	return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), errors.New("the cache has yet to hear of our last write"))
}
