package task

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// A store simulates the API server for Tasks: growing versions, optimistic locking, the rules that are CEL in the real one, and a log of
// changes for watches.
type store struct {
	mu      sync.Mutex
	version int64
	uids    int
	tasks   map[types.NamespacedName]*v1alpha1.Task
	log     []change
	news    chan struct{} // closed at every change
	writes  map[string]int
	behind  time.Duration // the clock of the API server
}

// A change is a watch event: a creation has no before, a deletion no after.
type change struct {
	before, after *v1alpha1.Task
	at            time.Time
}

func newStore() *store {
	return &store{tasks: map[types.NamespacedName]*v1alpha1.Task{}, news: make(chan struct{}), writes: map[string]int{}}
}

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

// note appends to the log. The caller must hold the lock.
func (s *store) note(before, after *v1alpha1.Task) {
	s.version++
	if after != nil {
		after.ResourceVersion = strconv.FormatInt(s.version, 10)
		s.tasks[named(after.Name)] = after
	} else {
		delete(s.tasks, named(before.Name))
	}
	s.log = append(s.log, change{before: before, after: after, at: time.Now()})
	close(s.news)
	s.news = make(chan struct{})
}

// next returns the change at a position of the log, and waits for it; false if the context ends before.
func (s *store) next(ctx context.Context, at int) (change, bool) {
	for {
		s.mu.Lock()
		news := s.news
		if at < len(s.log) {
			defer s.mu.Unlock()
			return s.log[at], true
		}
		s.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return change{}, false
		}
	}
}

// changes counts the writes.
func (s *store) changes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.log))
}

func (s *store) create(task *v1alpha1.Task) *v1alpha1.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uids++
	made := task.DeepCopy()
	made.UID, made.Generation = types.UID("uid-"+strconv.Itoa(s.uids)), 1
	made.CreationTimestamp = metav1.NewTime(time.Now().Add(-s.behind).Truncate(time.Second))
	s.note(nil, made)
	return made.DeepCopy()
}

func (s *store) delete(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stored := s.tasks[name]; stored != nil {
		s.note(stored, nil)
	}
}

// desire is a user's change of the spec.
func (s *store) desire(name types.NamespacedName, change func(*v1alpha1.TaskSpec)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stored := s.tasks[name]; stored != nil {
		changed := stored.DeepCopy()
		change(&changed.Spec)
		changed.Generation++
		s.note(stored, changed)
	}
}

// get returns the stored task, or nil.
func (s *store) get(name types.NamespacedName) *v1alpha1.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stored := s.tasks[name]; stored != nil {
		return stored.DeepCopy()
	}
	return nil
}

func (s *store) all() []v1alpha1.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]v1alpha1.Task, 0, len(s.tasks))
	for _, stored := range s.tasks {
		list = append(list, *stored.DeepCopy())
	}
	return list
}

func (s *store) written(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes[name]
}

var tasksResource = schema.GroupResource{Group: "swarm.io", Resource: "tasks"}

// put stores a status based on the given version of the object.
func (s *store) put(task *v1alpha1.Task, madeOf string) (*v1alpha1.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := s.tasks[named(task.Name)]
	switch {
	case stored == nil:
		return nil, apierrors.NewNotFound(tasksResource, task.Name)
	case stored.ResourceVersion != madeOf:
		return nil, apierrors.NewConflict(tasksResource, task.Name, errors.New("the object has been modified"))
	}
	changed := stored.DeepCopy()
	changed.Status = v1alpha1.TaskStatus{}
	raw, err := json.Marshal(task.Status) // as on the wire: times lose their fractions
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &changed.Status); err != nil {
		return nil, err
	}
	if broken := brokenRule(&stored.Status, &changed.Status); broken != "" {
		return nil, apierrors.NewBadRequest(broken)
	}
	s.writes[task.Name]++
	s.note(stored, changed)
	return changed.DeepCopy(), nil
}

// reasonPattern is the pattern of status.reason in the schema.
var reasonPattern = regexp.MustCompile(`^([A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?)?$`)

// decodes reports whether the API server can read a value, with the decoder that it uses.
func decodes(raw []byte) bool {
	var value any
	return utf8.Valid(raw) && kjson.UnmarshalCaseSensitivePreserveInts(raw, &value) == nil
}

// brokenRule returns which validation rule a write would violate.
func brokenRule(before, after *v1alpha1.TaskStatus) string {
	switch {
	case after.Epoch < before.Epoch:
		return "epoch never decreases"
	case before.Phase.Final() && after.Phase != before.Phase:
		return "a finished task keeps its phase"
	case (after.Progress == 100) != (after.Phase == v1alpha1.TaskCompleted):
		return "progress is 100 exactly when the phase is Completed"
	}
	for _, given := range after.AssignedAgents {
		if given.Epoch != after.Epoch {
			return "the attempt that is shown is not the latest"
		}
	}
	return malformed(after)
}

// malformed returns what the schema would refuse.
func malformed(status *v1alpha1.TaskStatus) string {
	switch {
	case len(status.Message) > 4096 || len(status.Reason) > 128:
		return "message or reason is too long"
	case !reasonPattern.MatchString(status.Reason) || status.Phase.Final() && status.Reason == "":
		return "the reason does not match its pattern"
	case status.Result != nil && !decodes(status.Result.Raw):
		return "the result cannot be decoded"
	}
	return ""
}
