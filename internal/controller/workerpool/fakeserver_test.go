package workerpool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errProcessDead is the response to a write of a dead process.
var errProcessDead = errors.New("this process is dead")

// A fakeAPIServer has the ConfigMaps and the revisions of a pool. Objects are replaced, never modified.
type fakeAPIServer struct {
	storedObjects
	version     int             // of the last write
	lateCreates []client.Object // Creates of dead processes that may still be carried out
}

// storedObjects is the content of an API server, or a cache, at one moment.
type storedObjects struct {
	configs   map[string]*corev1.ConfigMap
	revisions map[string]*appsv1.ControllerRevision
}

func newAPIServer() *fakeAPIServer {
	return &fakeAPIServer{storedObjects: storedObjects{map[string]*corev1.ConfigMap{}, map[string]*appsv1.ControllerRevision{}}}
}

func (s *fakeAPIServer) create(object client.Object) error {
	s.version++
	name, version := object.GetName(), strconv.Itoa(s.version)
	var exists bool
	switch object := object.(type) {
	case *corev1.ConfigMap:
		if _, exists = s.configs[name]; !exists {
			object.UID, object.ResourceVersion = types.UID("uid-"+version), version
			s.configs[name] = object.DeepCopy()
		}
	case *appsv1.ControllerRevision:
		if _, exists = s.revisions[name]; !exists {
			object.UID, object.ResourceVersion = types.UID("uid-"+version), version
			s.revisions[name] = object.DeepCopy()
		}
	}
	if exists {
		return apierrors.NewAlreadyExists(schema.GroupResource{}, name)
	}
	return nil
}

func (s *fakeAPIServer) update(object *corev1.ConfigMap) error {
	present := s.configs[object.Name]
	switch {
	case present == nil:
		return apierrors.NewNotFound(schema.GroupResource{}, object.Name)
	case present.ResourceVersion != object.ResourceVersion || object.UID != "" && object.UID != present.UID:
		return apierrors.NewConflict(schema.GroupResource{}, object.Name, errors.New("it was changed"))
	}
	s.version++
	object.UID, object.ResourceVersion = present.UID, strconv.Itoa(s.version)
	s.configs[object.Name] = object.DeepCopy()
	return nil
}

// newestNumber returns the number of the newest revision.
func (s *fakeAPIServer) newestNumber() (number int64) {
	for _, revision := range s.revisions {
		number = max(number, revision.Revision)
	}
	return number
}

// A fakeClient is a process's access to the API server: it reads from its caches, if these are stale, and dies after so many writes.
type fakeClient struct {
	client.Client
	server          *fakeAPIServer
	configs         map[string]*corev1.ConfigMap          // nil when the cache is current
	revisions       map[string]*appsv1.ControllerRevision // likewise
	remainingWrites int                                   // remaining
}

func (c *fakeClient) freezeCaches() {
	c.freezeRevisionCache()
	c.configs = maps.Clone(c.server.configs)
}

// copyCachesOf copies the content of another connection's caches.
func (c *fakeClient) copyCachesOf(other *fakeClient) {
	c.configs, c.revisions = other.configs, other.revisions
}

func (c *fakeClient) freezeRevisionCache() { c.revisions = maps.Clone(c.server.revisions) }

func (c *fakeClient) refreshCaches() { c.configs, c.revisions = nil, nil }

// useWrite reports whether the process survives for another write.
func (c *fakeClient) useWrite() bool {
	c.remainingWrites--
	return c.remainingWrites >= 0
}

func (c *fakeClient) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	from := c.server.configs
	if c.configs != nil {
		from = c.configs
	}
	current := from[key.Name]
	if current == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	current.DeepCopyInto(object.(*corev1.ConfigMap))
	return nil
}

func (c *fakeClient) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *corev1.ConfigMapList:
		from := c.server.configs
		if c.configs != nil {
			from = c.configs
		}
		for _, name := range slices.Sorted(maps.Keys(from)) {
			list.Items = append(list.Items, *from[name].DeepCopy())
		}
	case *appsv1.ControllerRevisionList:
		from := c.server.revisions
		if c.revisions != nil {
			from = c.revisions
		}
		for _, name := range slices.Sorted(maps.Keys(from)) {
			list.Items = append(list.Items, *from[name].DeepCopy())
		}
	default:
		return fmt.Errorf("list %T: not simulated", list)
	}
	return nil
}

// Create may be carried out after the death of the requesting process.
func (c *fakeClient) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	if !c.useWrite() {
		if c.remainingWrites == -1 {
			c.server.lateCreates = append(c.server.lateCreates, object.DeepCopyObject().(client.Object))
		}
		return errProcessDead
	}
	return c.server.create(object)
}

func (c *fakeClient) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	if !c.useWrite() {
		return errProcessDead
	}
	return c.server.update(object.(*corev1.ConfigMap))
}

func (c *fakeClient) Delete(_ context.Context, object client.Object, _ ...client.DeleteOption) error {
	if !c.useWrite() {
		return errProcessDead
	}
	delete(c.server.revisions, object.GetName())
	return nil
}
