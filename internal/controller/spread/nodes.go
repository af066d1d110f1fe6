package spread

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	engine "github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
	"github.com/swarm-io/swarm-operator/kit"
)

const (
	// gathering is how long changes of nodes are collected before all workloads are reconciled: many come and go together.
	gathering = 50 * time.Millisecond
	// mostLost limits the deleted nodes that are remembered by name.
	mostLost = 1024
)

// nodes evaluates every node when it changes, and not for every workload.
type nodes struct {
	settings survey.Settings
	cached   client.Reader
	live     client.Reader // past the cache
	changed  func()
	now      func() time.Time

	lock    sync.Mutex
	view    *landscape // nil until first used
	lost    map[string]bool
	pending bool // changed is about to be called
}

// landscape is an immutable snapshot of all nodes, so that readers need no lock.
type landscape struct {
	nodes          map[string]survey.Node
	spot, onDemand time.Time // when a node of that class last began to accept pods
}

// offers reports whether any node of a class accepts pods.
func (l landscape) offers(class engine.Class) bool {
	for _, node := range l.nodes {
		if node.Class == class && welcomes(node) {
			return true
		}
	}
	return false
}

func (l *landscape) returned(class engine.Class) *time.Time {
	if class == engine.Spot {
		return &l.spot
	}
	return &l.onDemand
}

func welcomes(node survey.Node) bool { return node.Schedulable && node.Notice == "" }

// Reconcile evaluates a node.
func (n *nodes) Reconcile(ctx context.Context, node *corev1.Node) (kit.Result, error) {
	if _, err := n.landscape(ctx); err != nil {
		return kit.Done(), err
	}
	n.note(n.settings.Node(node))
	return kit.Done(), nil
}

// landscape returns the known nodes, complete from the first call on: a pod on a missing node would be moved.
func (n *nodes) landscape(ctx context.Context) (landscape, error) {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.view != nil {
		return *n.view, nil
	}
	list := &corev1.NodeList{}
	if err := n.cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return landscape{}, fmt.Errorf("list nodes: %w", err)
	}
	n.view, n.lost = &landscape{nodes: make(map[string]survey.Node, len(list.Items))}, map[string]bool{}
	for i := range list.Items {
		judged := n.noticed(survey.Node{}, n.settings.Node(&list.Items[i]))
		n.view.nodes[judged.Name] = judged
		if last := n.view.returned(judged.Class); welcomes(judged) && readySince(&list.Items[i]).After(*last) {
			*last = readySince(&list.Items[i])
		}
	}
	return *n.view, nil
}

func readySince(node *corev1.Node) time.Time {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// note updates the state of a node.
func (n *nodes) note(judged survey.Node) {
	n.lock.Lock()
	defer n.lock.Unlock()
	before, known := n.view.nodes[judged.Name]
	delete(n.lost, judged.Name)
	judged = n.noticed(before, judged)
	if known && equality.Semantic.DeepEqual(before, judged) {
		return
	}
	next := *n.view
	next.nodes = maps.Clone(next.nodes)
	next.nodes[judged.Name] = judged
	if welcomes(judged) && (!known || begins(before, judged)) {
		*next.returned(judged.Class) = n.now()
	}
	n.view = &next
	if !known || !alike(before, judged) {
		n.tell()
	}
}

// noticed sets the time at which the interruption of a node was first seen.
func (n *nodes) noticed(before, after survey.Node) survey.Node {
	switch {
	case !after.Interrupted():
	case before.Interrupted():
		after.InterruptedAt = before.InterruptedAt
	default:
		after.InterruptedAt = metav1.NewTime(n.now())
	}
	return after
}

// begins reports whether a node that accepts pods accepted fewer before: none, those of the other class, or only pods with more
// tolerations.
func begins(before, after survey.Node) bool {
	return !welcomes(before) || before.Class != after.Class || slices.ContainsFunc(before.Taints, func(taint corev1.Taint) bool {
		return !slices.ContainsFunc(after.Taints, func(left corev1.Taint) bool { return left.MatchTaint(&taint) && left.Value == taint.Value })
	})
}

// alike reports whether a change makes no difference to any workload.
func alike(before, after survey.Node) bool {
	before.Labels, after.Labels = nil, nil
	return equality.Semantic.DeepEqual(before, after)
}

// lose removes a deleted node.
func (n *nodes) lose(name types.NamespacedName) {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.view == nil {
		return
	}
	if _, known := n.view.nodes[name.Name]; !known {
		return
	}
	next := *n.view
	next.nodes = maps.Clone(next.nodes)
	delete(next.nodes, name.Name)
	n.view = &next
	n.miss(name.Name)
	n.tell()
}

// miss remembers that a node was deleted.
func (n *nodes) miss(name string) {
	if len(n.lost) >= mostLost {
		clear(n.lost) // unknown nodes are looked up again
	}
	n.lost[name] = true
}

// tell notifies all workloads, after a short delay.
func (n *nodes) tell() {
	if n.pending {
		return
	}
	n.pending = true
	time.AfterFunc(gathering, func() {
		n.lock.Lock()
		n.pending = false
		n.lock.Unlock()
		n.changed()
	})
}

// around returns the landscape for some pods. The cache may have a pod before its node, and a pod without a node would be moved, so that
// an unknown node is looked up past the cache.
func (n *nodes) around(ctx context.Context, pods []*corev1.Pod) (landscape, error) {
	view, err := n.landscape(ctx)
	if err != nil {
		return view, err
	}
	own := false
	for _, pod := range pods {
		if _, known := view.nodes[pod.Spec.NodeName]; known || pod.Spec.NodeName == "" || n.isLost(pod.Spec.NodeName) {
			continue
		}
		node, err := n.lookUp(ctx, pod.Spec.NodeName)
		if err != nil {
			return view, err
		}
		if node == nil {
			continue
		}
		if !own {
			view.nodes, own = maps.Clone(view.nodes), true
		}
		view.nodes[node.Name] = n.settings.Node(node)
	}
	return view, nil
}

func (n *nodes) isLost(name string) bool {
	n.lock.Lock()
	defer n.lock.Unlock()
	return n.lost[name]
}

// lookUp reads a node from the API server, nil if it does not exist.
func (n *nodes) lookUp(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := n.live.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		n.lock.Lock()
		defer n.lock.Unlock()
		n.miss(name)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up node %q: %w", name, err)
	}
	return node, nil
}
