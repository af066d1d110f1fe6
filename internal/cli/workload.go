package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// poolWorkload is the StatefulSet or Deployment whose pods are the workers.
type poolWorkload struct {
	kind     v1alpha1.WorkloadKind
	name     string
	replicas int
	start    int          // the first ordinal
	pods     []assign.Pod // of a Deployment, whose pods have slots instead of ordinals
}

// newPodName stands for the name of a future pod that only its owner will choose.
const newPodName = "(new)"

func (c cluster) readWorkload(ctx context.Context, pool *v1alpha1.WorkerPool) (poolWorkload, error) {
	result := poolWorkload{kind: cmp.Or(pool.Spec.Workers.Kind, v1alpha1.WorkloadStatefulSet), name: pool.Spec.Workers.Name}
	read := c.readStatefulSet
	if result.usesSlots() {
		read = c.readDeployment
	}
	err := read(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: result.name}, &result)
	if apierrors.IsNotFound(err) {
		return result, fmt.Errorf("there is no %s %q in namespace %q: create it, or delete pool %q", result.kind, result.name, pool.Namespace,
			pool.Name)
	}
	if err != nil {
		return result, fmt.Errorf("read %s %q: %w", result.kind, result.name, err)
	}
	return result, nil
}

func (c cluster) readStatefulSet(ctx context.Context, key client.ObjectKey, target *poolWorkload) error {
	object := &appsv1.StatefulSet{}
	err := c.Get(ctx, key, object)
	target.replicas = int(ptr.Deref(object.Spec.Replicas, 1))
	if object.Spec.Ordinals != nil {
		target.start = int(object.Spec.Ordinals.Start)
	}
	return err
}

func (c cluster) readDeployment(ctx context.Context, key client.ObjectKey, target *poolWorkload) error {
	object := &appsv1.Deployment{}
	if err := c.Get(ctx, key, object); err != nil {
		return err
	}
	target.replicas = int(ptr.Deref(object.Spec.Replicas, 1))
	selector, err := metav1.LabelSelectorAsSelector(object.Spec.Selector)
	if err != nil {
		return err
	}
	list := &corev1.PodList{}
	if err := c.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return err
	}
	for n := range list.Items {
		if phase := list.Items[n].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			target.pods = append(target.pods, slottedPod(&list.Items[n]))
		}
	}
	return nil
}

func slottedPod(pod *corev1.Pod) assign.Pod {
	slot, err := strconv.Atoi(pod.Labels[v1alpha1.LabelSlot])
	if err != nil {
		slot = assign.NoSlot
	}
	return assign.Pod{Name: pod.Name, Slot: slot, Created: pod.CreationTimestamp.Unix()}
}

// usesSlots reports whether pods have slots of ours, because they have no ordinals.
func (w poolWorkload) usesSlots() bool { return w.kind == v1alpha1.WorkloadDeployment }

// ordinal returns the ordinal in the name of a StatefulSet's pod; -1 for none.
func (w poolWorkload) ordinal(worker string) int {
	ordinal, err := strconv.Atoi(strings.TrimPrefix(worker, w.name+"-"))
	if err != nil {
		return -1
	}
	return ordinal
}

// records returns what workers may hold, by ordinal.
func (w poolWorkload) records(lists publishedLists) []assign.Record {
	records := lists.ledger.Records(lists.file())
	for n := range records {
		if !w.usesSlots() {
			records[n].Ordinal = w.ordinal(records[n].Worker)
		}
	}
	slices.SortFunc(records, func(a, b assign.Record) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Worker, b.Worker))
	})
	return records
}

// workers returns the wanted number of workers, all of them ready, and those that have to leave.
func (w poolWorkload) workers(size, capacity int, records []assign.Record) []assign.Worker {
	names := w.names(size, records)
	var result []assign.Worker
	for ordinal := w.start; ordinal < w.start+size; ordinal++ {
		result = append(result, assign.Worker{Name: names[ordinal], Ordinal: ordinal, Capacity: capacity})
		delete(names, ordinal)
	}
	for ordinal, name := range names {
		result = append(result, assign.Worker{Name: name, Ordinal: ordinal, Capacity: capacity, State: assign.Leaving})
	}
	return result
}

// names returns the names of current and future workers, by ordinal. A replaced pod's slot goes to its successor.
func (w poolWorkload) names(size int, records []assign.Record) map[int]string {
	names := map[int]string{}
	for _, record := range records {
		if inRange := record.Ordinal >= w.start && record.Ordinal < w.start+size; !inRange {
			names[record.Ordinal] = record.Worker
		}
	}
	for _, pod := range assign.Slots(w.pods, size) {
		if pod.Slot != assign.NoSlot {
			names[pod.Slot] = pod.Name
		}
	}
	newPods := 0
	for ordinal := w.start; ordinal < w.start+size; ordinal++ {
		switch {
		case !w.usesSlots():
			names[ordinal] = fmt.Sprintf("%s-%d", w.name, ordinal)
		case names[ordinal] == "":
			newPods++
			names[ordinal] = newPodName
			if newPods > 1 { // the engine distinguishes workers by name
				names[ordinal] = fmt.Sprintf("(new %d)", newPods)
			}
		}
	}
	return names
}
