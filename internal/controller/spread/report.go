package spread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	engine "github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
	"github.com/swarm-io/swarm-operator/kit"
)

// written are the annotations that only this controller writes.
var written = []v1alpha1.SpreadAnnotation{v1alpha1.SpreadDesired, v1alpha1.SpreadCurrent, v1alpha1.SpreadStatus, v1alpha1.SpreadReason, v1alpha1.SpreadSettings}

// report writes the changes, if any, and then emits events.
func (k *keeper) report(ctx context.Context, of subject, made Plan, failed error) (kit.Result, error) {
	if errors.Is(failed, kit.ErrNotLeading) {
		return kit.Done(), failed
	}
	if failed != nil {
		made.fail(failed)
	}
	k.memories.show(of.Key, made.Decision)
	before := of.memory.annotations(of.Workload)
	if err := k.write(ctx, of, before, k.annotations(before, made)); err != nil {
		return kit.Done(), errors.Join(failed, err)
	}
	k.tell(of, before[k.settings.Key(v1alpha1.SpreadStatus)], made)
	if failed != nil {
		return kit.Done(), failed
	}
	return k.next(made, of.now), nil
}

// annotations returns our annotations as they should be. Without a policy in force the wanted split is unknown, and the last one is kept.
func (k *keeper) annotations(before map[string]string, made Plan) map[string]string {
	wanted := map[string]string{
		k.settings.Key(v1alpha1.SpreadCurrent): made.Decision.Current.String(),
		k.settings.Key(v1alpha1.SpreadStatus):  made.status(),
	}
	if word := made.Decision.Status; word != engine.Balanced && word != engine.Invalid { // these need no reason
		wanted[k.settings.Key(v1alpha1.SpreadReason)] = made.Decision.Reason
	}
	settings := k.settings.Key(v1alpha1.SpreadSettings)
	if kept, found := before[settings]; found {
		wanted[settings] = kept
	}
	if made.Policy != nil {
		wanted[settings] = made.Policy.String()
		wanted[k.settings.Key(v1alpha1.SpreadDesired)] = made.Decision.Desired.String()
	}
	return wanted
}

// difference returns the merge patch from before to wanted: a value, or nil to remove a key.
func (k *keeper) difference(before, wanted map[string]string) map[string]any {
	patch := map[string]any{}
	for _, annotation := range written {
		key := k.settings.Key(annotation)
		had, found := before[key]
		switch want, wants := wanted[key]; {
		case wants && (!found || had != want):
			patch[key] = want
		case found && !wants:
			patch[key] = nil
		}
	}
	return patch
}

// write stores the annotations and remembers them until the cache has them.
func (k *keeper) write(ctx context.Context, of subject, before, wanted map[string]string) error {
	patch := k.difference(before, wanted)
	if len(patch) == 0 {
		return nil
	}
	version, err := k.patch(ctx, of.Workload, patch)
	if err != nil || version == "" {
		return err
	}
	of.memory.wrote, of.memory.version = maps.Clone(before), version
	if of.memory.wrote == nil {
		of.memory.wrote = map[string]string{}
	}
	for key, value := range patch {
		delete(of.memory.wrote, key)
		if text, is := value.(string); is {
			of.memory.wrote[key] = text
		}
	}
	return nil
}

// patch changes annotations of this very workload, and nothing else. It returns the new version, "" if the workload is gone.
func (k *keeper) patch(ctx context.Context, workload survey.Workload, annotations map[string]any) (string, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": workload.GetUID(), "annotations": annotations}})
	if err != nil {
		return "", fmt.Errorf("annotate %s: %w", workload.Key, err)
	}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: workload.Key.Namespace, Name: workload.Key.Name}}
	object.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(string(workload.Key.Kind)))
	err = k.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, body))
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("annotate %s: %w", workload.Key, err)
	}
	return object.ResourceVersion, nil
}

// release forgets a workload that is not managed, and removes our annotations.
func (k *keeper) release(ctx context.Context, workload survey.Workload) error {
	k.forget(workload.Key)
	patch := k.difference(workload.GetAnnotations(), nil)
	if len(patch) == 0 {
		return nil
	}
	_, err := k.patch(ctx, workload, patch)
	return err
}

// next returns when to reconcile again: for what the plan waits for and, in any case, periodically with jitter. Workloads that are not
// managed are not reconciled periodically, so this is not left to kit.
func (k *keeper) next(made Plan, now time.Time) kit.Result {
	if k.resync > 0 {
		made.look(now.Add(k.resync - rand.N(k.resync/10+1)))
	}
	if made.Again.IsZero() {
		return kit.Done()
	}
	return kit.RequeueAfter(max(made.Again.Sub(now), time.Millisecond), string(made.Decision.Status))
}
