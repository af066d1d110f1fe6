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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/state"
	"github.com/swarm-io/swarm-operator/kit"
)

const (
	// notifyDelay is how long changes of nodes are collected before all workloads are reconciled: many come and go together.
	notifyDelay = 50 * time.Millisecond
	// maxDeletedNodes limits the deleted nodes that are remembered by name.
	maxDeletedNodes = 1024
)

// nodeTracker evaluates every node when it changes, and not for every workload.
type nodeTracker struct {
	settings     snapshot.Settings
	cachedReader client.Reader
	liveReader   client.Reader // past the cache
	onChange     func()
	now          func() time.Time

	lock          sync.Mutex
	current       *state.Nodes // immutable, so that readers need no lock; nil until first used
	deletedNodes  map[string]bool
	notifyPending bool // changed is about to be called
}

// Reconcile evaluates a node.
func (n *nodeTracker) Reconcile(ctx context.Context, node *corev1.Node) (kit.Result, error) {
	if _, err := n.load(ctx); err != nil {
		return kit.Done(), err
	}
	n.update(n.settings.Node(node))
	return kit.Done(), nil
}

// load returns the known nodes, complete from the first call on: a pod on a missing node would be moved.
func (n *nodeTracker) load(ctx context.Context) (state.Nodes, error) {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.current != nil {
		return *n.current, nil
	}
	list := &corev1.NodeList{}
	if err := n.cachedReader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return state.Nodes{}, fmt.Errorf("list nodes: %w", err)
	}
	nodes := state.NewNodes(n.settings, list.Items, n.now())
	n.current, n.deletedNodes = &nodes, map[string]bool{}
	return nodes, nil
}

// update updates the state of a node.
func (n *nodeTracker) update(node snapshot.Node) {
	n.lock.Lock()
	defer n.lock.Unlock()
	before, exists := n.current.ByName[node.Name]
	delete(n.deletedNodes, node.Name)
	node = state.WithInterruptedAt(before, node, n.now())
	if exists && equality.Semantic.DeepEqual(before, node) {
		return
	}
	next := *n.current
	next.ByName = maps.Clone(next.ByName)
	next.ByName[node.Name] = node
	if state.AcceptsPods(node) && (!exists || beganAccepting(before, node)) {
		*next.AvailableAt(node.Class) = n.now()
	}
	n.current = &next
	if !exists || !equalForWorkloads(before, node) {
		n.notify()
	}
}

// beganAccepting reports whether a node that accepts pods accepted fewer before: none, those of the other class, or only pods with more
// tolerations.
func beganAccepting(before, after snapshot.Node) bool {
	return !state.AcceptsPods(before) || before.Class != after.Class || slices.ContainsFunc(before.Taints, func(taint corev1.Taint) bool {
		return !slices.ContainsFunc(after.Taints, func(left corev1.Taint) bool { return left.MatchTaint(&taint) && left.Value == taint.Value })
	})
}

// equalForWorkloads reports whether a change makes no difference to any workload.
func equalForWorkloads(before, after snapshot.Node) bool {
	before.Labels, after.Labels = nil, nil
	return equality.Semantic.DeepEqual(before, after)
}

// remove removes a deleted node.
func (n *nodeTracker) remove(name types.NamespacedName) {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.current == nil {
		return
	}
	if _, known := n.current.ByName[name.Name]; !known {
		return
	}
	next := *n.current
	next.ByName = maps.Clone(next.ByName)
	delete(next.ByName, name.Name)
	n.current = &next
	n.markDeleted(name.Name)
	n.notify()
}

// markDeleted remembers that a node was deleted.
func (n *nodeTracker) markDeleted(name string) {
	if len(n.deletedNodes) >= maxDeletedNodes {
		clear(n.deletedNodes) // unknown nodes are looked up again
	}
	n.deletedNodes[name] = true
}

// notify notifies all workloads, after a short delay.
func (n *nodeTracker) notify() {
	if n.notifyPending {
		return
	}
	n.notifyPending = true
	time.AfterFunc(notifyDelay, func() {
		n.lock.Lock()
		n.notifyPending = false
		n.lock.Unlock()
		n.onChange()
	})
}

// snapshotFor returns the snapshot for some pods. The cache may have a pod before its node, and a pod without a node would be moved, so
// that an unknown node is looked up past the cache.
func (n *nodeTracker) snapshotFor(ctx context.Context, pods []*corev1.Pod) (state.Nodes, error) {
	snap, err := n.load(ctx)
	if err != nil {
		return snap, err
	}
	cloned := false
	for _, pod := range pods {
		if _, known := snap.ByName[pod.Spec.NodeName]; known || pod.Spec.NodeName == "" || n.isDeleted(pod.Spec.NodeName) {
			continue
		}
		node, err := n.getLive(ctx, pod.Spec.NodeName)
		if err != nil {
			return snap, err
		}
		if node == nil {
			continue
		}
		if !cloned {
			snap.ByName, cloned = maps.Clone(snap.ByName), true
		}
		snap.ByName[node.Name] = n.settings.Node(node)
	}
	return snap, nil
}

func (n *nodeTracker) isDeleted(name string) bool {
	n.lock.Lock()
	defer n.lock.Unlock()
	return n.deletedNodes[name]
}

// getLive reads a node from the API server, nil if it does not exist.
func (n *nodeTracker) getLive(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := n.liveReader.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		n.lock.Lock()
		defer n.lock.Unlock()
		n.markDeleted(name)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up node %q: %w", name, err)
	}
	return node, nil
}
