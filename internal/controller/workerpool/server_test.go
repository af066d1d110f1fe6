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

// errDead is the response to a write of a dead process.
var errDead = errors.New("this process is dead")

// An apiServer has the ConfigMaps and the revisions of a pool. Objects are replaced, never modified.
type apiServer struct {
	stored
	version int             // of the last write
	late    []client.Object // Creates of dead processes that may still be carried out
}

// stored is the content of an API server, or a cache, at one moment.
type stored struct {
	configs   map[string]*corev1.ConfigMap
	revisions map[string]*appsv1.ControllerRevision
}

func newAPIServer() *apiServer {
	return &apiServer{stored: stored{map[string]*corev1.ConfigMap{}, map[string]*appsv1.ControllerRevision{}}}
}

func (s *apiServer) create(object client.Object) error {
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

func (s *apiServer) update(object *corev1.ConfigMap) error {
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

// newest returns the number of the newest revision.
func (s *apiServer) newest() (number int64) {
	for _, revision := range s.revisions {
		number = max(number, revision.Revision)
	}
	return number
}

// A connection is a process's access to the API server: it reads from its caches, if these are stale, and dies after so many writes.
type connection struct {
	client.Client
	server    *apiServer
	configs   map[string]*corev1.ConfigMap          // nil when the cache is current
	revisions map[string]*appsv1.ControllerRevision // likewise
	writes    int                                   // remaining
}

func (c *connection) fallBehind() {
	c.fallBehindOnRevisions()
	c.configs = maps.Clone(c.server.configs)
}

// behindAs copies the content of another connection's caches.
func (c *connection) behindAs(other *connection) {
	c.configs, c.revisions = other.configs, other.revisions
}

func (c *connection) fallBehindOnRevisions() { c.revisions = maps.Clone(c.server.revisions) }

func (c *connection) catchUp() { c.configs, c.revisions = nil, nil }

// spend reports whether the process survives for another write.
func (c *connection) spend() bool {
	c.writes--
	return c.writes >= 0
}

func (c *connection) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	from := c.server.configs
	if c.configs != nil {
		from = c.configs
	}
	found := from[key.Name]
	if found == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	found.DeepCopyInto(object.(*corev1.ConfigMap))
	return nil
}

func (c *connection) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
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
func (c *connection) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	if !c.spend() {
		if c.writes == -1 {
			c.server.late = append(c.server.late, object.DeepCopyObject().(client.Object))
		}
		return errDead
	}
	return c.server.create(object)
}

func (c *connection) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	if !c.spend() {
		return errDead
	}
	return c.server.update(object.(*corev1.ConfigMap))
}

func (c *connection) Delete(_ context.Context, object client.Object, _ ...client.DeleteOption) error {
	if !c.spend() {
		return errDead
	}
	delete(c.server.revisions, object.GetName())
	return nil
}
