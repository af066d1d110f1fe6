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
	"github.com/swarm-io/swarm-operator/internal/spread/plan"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
	"github.com/swarm-io/swarm-operator/kit"
)

// ownAnnotations are the annotations that only this controller writes.
var ownAnnotations = []v1alpha1.SpreadAnnotation{v1alpha1.SpreadDesired, v1alpha1.SpreadCurrent, v1alpha1.SpreadStatus,
	v1alpha1.SpreadReason, v1alpha1.SpreadSettings}

// report writes the changes, if any, and then emits events.
func (c *controller) report(ctx context.Context, t target, plan plan.Plan, applyErr error) (kit.Result, error) {
	if errors.Is(applyErr, kit.ErrNotLeading) {
		return kit.Done(), applyErr
	}
	if applyErr != nil {
		setError(&plan, applyErr)
	}
	c.states.setDecision(t.Key, plan.Decision)
	before := t.state.annotations(t.Workload)
	if err := c.writeAnnotations(ctx, t, before, c.annotations(before, plan)); err != nil {
		return kit.Done(), errors.Join(applyErr, err)
	}
	c.publishEvents(t, before[c.settings.Key(v1alpha1.SpreadStatus)], plan)
	if applyErr != nil {
		return kit.Done(), applyErr
	}
	return c.requeue(plan, t.now), nil
}

// annotations returns our annotations as they should be. Without a policy in force the wanted split is unknown, and the last one is kept.
func (c *controller) annotations(before map[string]string, plan plan.Plan) map[string]string {
	wanted := map[string]string{
		c.settings.Key(v1alpha1.SpreadCurrent): plan.Decision.Current.String(),
		c.settings.Key(v1alpha1.SpreadStatus):  plan.StatusText(),
	}
	if word := plan.Decision.Status; word != split.Balanced && word != split.Invalid { // these need no reason
		wanted[c.settings.Key(v1alpha1.SpreadReason)] = plan.Decision.Reason
	}
	settings := c.settings.Key(v1alpha1.SpreadSettings)
	if kept, found := before[settings]; found {
		wanted[settings] = kept
	}
	if plan.Policy != nil {
		wanted[settings] = plan.Policy.String()
		wanted[c.settings.Key(v1alpha1.SpreadDesired)] = plan.Decision.Desired.String()
	}
	return wanted
}

// annotationPatch returns the merge patch from before to wanted: a value, or nil to remove a key.
func (c *controller) annotationPatch(before, wanted map[string]string) map[string]any {
	patch := map[string]any{}
	for _, annotation := range ownAnnotations {
		key := c.settings.Key(annotation)
		had, found := before[key]
		switch want, isWanted := wanted[key]; {
		case isWanted && (!found || had != want):
			patch[key] = want
		case found && !isWanted:
			patch[key] = nil
		}
	}
	return patch
}

// writeAnnotations stores the annotations and remembers them until the cache has them.
func (c *controller) writeAnnotations(ctx context.Context, t target, before, wanted map[string]string) error {
	patch := c.annotationPatch(before, wanted)
	if len(patch) == 0 {
		return nil
	}
	version, err := c.patchAnnotations(ctx, t.Workload, patch)
	if err != nil || version == "" {
		return err
	}
	t.state.patchedAnnotations, t.state.patchedVersion = maps.Clone(before), version
	if t.state.patchedAnnotations == nil {
		t.state.patchedAnnotations = map[string]string{}
	}
	for key, value := range patch {
		delete(t.state.patchedAnnotations, key)
		if text, is := value.(string); is {
			t.state.patchedAnnotations[key] = text
		}
	}
	return nil
}

// patchAnnotations changes annotations of this very workload, and nothing else. It returns the new version, "" if the workload is gone.
func (c *controller) patchAnnotations(ctx context.Context, workload workloads.Workload, annotations map[string]any) (string, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": workload.GetUID(), "annotations": annotations}})
	if err != nil {
		return "", fmt.Errorf("annotate %s: %w", workload.Key, err)
	}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: workload.Key.Namespace, Name: workload.Key.Name}}
	object.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(string(workload.Key.Kind)))
	err = c.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, body))
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("annotate %s: %w", workload.Key, err)
	}
	return object.ResourceVersion, nil
}

// release forgets a workload that is not managed, and removes our annotations.
func (c *controller) release(ctx context.Context, workload workloads.Workload) error {
	c.forget(workload.Key)
	patch := c.annotationPatch(workload.GetAnnotations(), nil)
	if len(patch) == 0 {
		return nil
	}
	_, err := c.patchAnnotations(ctx, workload, patch)
	return err
}

// requeue returns when to reconcile again: for what the plan waits for and, in any case, periodically with jitter. Workloads that are not
// managed are not reconciled periodically, so this is not left to kit.
func (c *controller) requeue(plan plan.Plan, now time.Time) kit.Result {
	if c.resync > 0 {
		plan.ScheduleRecheck(now.Add(c.resync - rand.N(c.resync/10+1)))
	}
	if plan.RecheckAt.IsZero() {
		return kit.Done()
	}
	return kit.RequeueAfter(max(plan.RecheckAt.Sub(now), time.Millisecond), string(plan.Decision.Status))
}
