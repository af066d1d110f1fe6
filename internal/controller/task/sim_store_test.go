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
	mu          sync.Mutex
	version     int64
	uids        int
	tasks       map[types.NamespacedName]*v1alpha1.Task
	log         []change
	changed     chan struct{} // closed at every change
	writeCounts map[string]int
	clockBehind time.Duration // the clock of the API server
}

// A change is a watch event: a creation has no before, a deletion no after.
type change struct {
	before, after *v1alpha1.Task
	at            time.Time
}

func newStore() *store {
	return &store{tasks: map[types.NamespacedName]*v1alpha1.Task{}, changed: make(chan struct{}), writeCounts: map[string]int{}}
}

func namespacedName(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

// record appends to the log. The caller must hold the lock.
func (s *store) record(before, after *v1alpha1.Task) {
	s.version++
	if after != nil {
		after.ResourceVersion = strconv.FormatInt(s.version, 10)
		s.tasks[namespacedName(after.Name)] = after
	} else {
		delete(s.tasks, namespacedName(before.Name))
	}
	s.log = append(s.log, change{before: before, after: after, at: time.Now()})
	close(s.changed)
	s.changed = make(chan struct{})
}

// next returns the change at a position of the log, and waits for it; false if the context ends before.
func (s *store) next(ctx context.Context, at int) (change, bool) {
	for {
		s.mu.Lock()
		news := s.changed
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

// changeCount counts the writes.
func (s *store) changeCount() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.log))
}

func (s *store) create(task *v1alpha1.Task) *v1alpha1.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uids++
	created := task.DeepCopy()
	created.UID, created.Generation = types.UID("uid-"+strconv.Itoa(s.uids)), 1
	created.CreationTimestamp = metav1.NewTime(time.Now().Add(-s.clockBehind).Truncate(time.Second))
	s.record(nil, created)
	return created.DeepCopy()
}

func (s *store) delete(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stored := s.tasks[name]; stored != nil {
		s.record(stored, nil)
	}
}

// updateSpec is a user's change of the spec.
func (s *store) updateSpec(name types.NamespacedName, change func(*v1alpha1.TaskSpec)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stored := s.tasks[name]; stored != nil {
		changed := stored.DeepCopy()
		change(&changed.Spec)
		changed.Generation++
		s.record(stored, changed)
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

func (s *store) writeCount(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeCounts[name]
}

var tasksResource = schema.GroupResource{Group: "swarm.io", Resource: "tasks"}

// updateStatus stores a status based on the given version of the object.
func (s *store) updateStatus(task *v1alpha1.Task, baseVersion string) (*v1alpha1.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := s.tasks[namespacedName(task.Name)]
	switch {
	case stored == nil:
		return nil, apierrors.NewNotFound(tasksResource, task.Name)
	case stored.ResourceVersion != baseVersion:
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
	if violation := brokenRule(&stored.Status, &changed.Status); violation != "" {
		return nil, apierrors.NewBadRequest(violation)
	}
	s.writeCounts[task.Name]++
	s.record(stored, changed)
	return changed.DeepCopy(), nil
}

// reasonPattern is the pattern of status.reason in the schema.
var reasonPattern = regexp.MustCompile(`^([A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?)?$`)

// isDecodable reports whether the API server can read a value, with the decoder that it uses.
func isDecodable(raw []byte) bool {
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
	for _, assigned := range after.AssignedAgents {
		if assigned.Epoch != after.Epoch {
			return "the attempt that is shown is not the latest"
		}
	}
	return schemaViolation(after)
}

// schemaViolation returns what the schema would refuse.
func schemaViolation(status *v1alpha1.TaskStatus) string {
	switch {
	case len(status.Message) > 4096 || len(status.Reason) > 128:
		return "message or reason is too long"
	case !reasonPattern.MatchString(status.Reason) || status.Phase.Final() && status.Reason == "":
		return "the reason does not match its pattern"
	case status.Result != nil && !isDecodable(status.Result.Raw):
		return "the result cannot be decoded"
	}
	return ""
}
