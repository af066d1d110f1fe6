package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

// statusOf is the status of an object without what changes by itself: times, and numbers that are written only now and then.
func statusOf(ctx context.Context, object client.Object) (map[string]any, error) {
	result := &unstructured.Unstructured{}
	kind, err := api.GroupVersionKindFor(object)
	if err != nil {
		return nil, err
	}
	result.SetGroupVersionKind(kind)
	if err := api.Get(ctx, client.ObjectKeyFromObject(object), result); err != nil {
		return nil, err
	}
	status, _, err := unstructured.NestedMap(result.Object, "status")
	withoutVolatile(status)
	return status, err
}

func withoutVolatile(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range []string{"lastTransitionTime", "lastHeartbeat", "tasks", "workload"} {
			delete(value, field)
		}
		for _, inner := range value {
			withoutVolatile(inner)
		}
	case []any:
		for _, inner := range value {
			withoutVolatile(inner)
		}
	}
}

// wipeStatus removes all of a status, except for some fields.
func wipeStatus(ctx context.Context, object client.Object, kept []string) error {
	GinkgoHelper()
	patch := map[string]any{"status": nil}
	if len(kept) > 0 {
		status, err := statusOf(ctx, object)
		Expect(err).NotTo(HaveOccurred())
		for field := range status {
			status[field] = nil
		}
		for _, field := range kept {
			delete(status, field)
		}
		patch["status"] = status
	}
	encoded, err := json.Marshal(patch)
	Expect(err).NotTo(HaveOccurred())
	return api.Status().Patch(ctx, object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, encoded))
}

// expectRestored wipes a status, except for some fields, and checks that it is restored, except for others.
func expectRestored(ctx context.Context, object client.Object, kept []string, ignored ...string) {
	GinkgoHelper()
	read := func(ctx context.Context) (map[string]any, error) {
		status, err := statusOf(ctx, object)
		for _, field := range ignored {
			delete(status, field)
		}
		return status, err
	}
	before, err := read(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(before).To(And(HaveKey("conditions"), HaveKey("phase")))
	Expect(wipeStatus(ctx, object, kept)).To(Succeed())
	Eventually(read).WithContext(ctx).Should(Equal(before))
}

// expectNoReconcile changes the status of a Swarm, a Task and an Agent, and counts reconciles. A Swarm counts its ready Agents, so the
// status of an Agent concerns the controller of Swarms; it must not wake that of Agents.
func expectNoReconcile(ctx context.Context, port, ns string) {
	GinkgoHelper()
	swarm, task, agent := objectAt(&v1alpha1.Swarm{}, ns, "ants"), objectAt(&v1alpha1.Task{}, ns, "quick"), objectAt(&v1alpha1.Agent{}, ns,
		"ants-worker-0")
	expectNotWatched(ctx, port, "", func(value string) {
		patchStatus(ctx, swarm, `{"status":{"selector":"`+value+`"}}`)
		patchStatus(ctx, task, `{"status":{"message":"`+value+`"}}`)
	})
	expectNotWatched(ctx, port, `controller="agent"`, func(value string) {
		patchStatus(ctx, agent, `{"status":{"podName":"`+value+`"}}`)
	})

	for _, object := range []client.Object{swarm, task, agent} {
		annotation := []byte(`{"metadata":{"annotations":{"swarm.io/reconcile-at":"now"}}}`)
		Expect(api.Patch(ctx, object, client.RawPatch(types.MergePatchType, annotation))).To(Succeed())
	}
	for _, object := range []client.Object{swarm, agent} {
		Eventually(statusOf).WithContext(ctx).WithArguments(object).ShouldNot(ContainElement("drifted"), "an annotation is another matter")
	}
}

// reconciles counts the reconciles of all controllers with this label.
func reconciles(ctx context.Context, port, label string) (float64, error) {
	return series(ctx, port, "controller_runtime_reconcile_total", label)
}

// expectNotWatched changes statuses until that is followed by a second without a reconcile. Other reconciles may come in between, and do
// not matter: if a change of a status caused one, there would be no such second.
func expectNotWatched(ctx context.Context, port, label string, change func(value string)) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		before, err := reconciles(ctx, port, label)
		g.Expect(err).NotTo(HaveOccurred())
		change("drifting")
		change("drifted")
		g.Consistently(reconciles).WithContext(ctx).WithArguments(port, label).WithTimeout(time.Second).Should(Equal(before))
	}).WithContext(ctx).Should(Succeed())
}

func patchStatus(ctx context.Context, object client.Object, patch string) {
	GinkgoHelper()
	Expect(api.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

func objectAt[T client.Object](object T, ns, name string) T {
	object.SetNamespace(ns)
	object.SetName(name)
	return object
}

// driftCheck is a swarm under an operator of its own, with the default configuration, whose status was changed by hand. No watch passes
// such a change on, so only the periodic reconcile can find it.
type driftCheck struct {
	session *gexec.Session
	swarm   *v1alpha1.Swarm
	start   time.Time
}

// startDrift begins a drift. It is looked at later: meanwhile there is something else to do.
func startDrift(ctx context.Context) *driftCheck {
	GinkgoHelper()
	ns := namespace(ctx, nil)
	d := &driftCheck{swarm: newTeam(ns, "still", 1)}
	d.session = programOf(ns, onlyNamespace(ns), "SWARM_LOGGING_LEVEL=debug", "SWARM_LINK_PORT="+ports.Free())
	Expect(api.Create(ctx, d.swarm)).To(Succeed())
	Eventually(condition).WithContext(ctx).WithArguments(d.swarm).Should(ContainSubstring("1 have a ready pod"))
	d.awaitPeriodic(ctx)
	d.start = time.Now()
	patchStatus(ctx, d.swarm, `{"status":{"selector":"drifted"}}`)
	return d
}

// awaitPeriodic waits until nothing wakes the operator any more: whatever happens from then on is periodic.
func (d *driftCheck) awaitPeriodic(ctx context.Context) {
	GinkgoHelper()
	last := -1
	Eventually(func(g Gomega) {
		before := last
		last = len(reconcileTimes(d.session, "swarm")) + len(reconcileTimes(d.session, "agent"))
		g.Expect(last).To(Equal(before))
	}).WithContext(ctx).WithPolling(2 * time.Second).Should(Succeed())
}

// expectRepaired sees that the drift is gone, and was found no later than 30 s after it began.
func (d *driftCheck) expectRepaired(ctx context.Context) {
	GinkgoHelper()
	left := 30*time.Second - time.Since(d.start)
	Eventually(func(g Gomega) {
		g.Expect(api.Get(ctx, client.ObjectKeyFromObject(d.swarm), d.swarm)).To(Succeed())
		g.Expect(d.swarm.Status.Selector).NotTo(Equal("drifted"))
	}).WithContext(ctx).WithTimeout(max(left, 0) + 2*time.Second).Should(Succeed())
	times := reconcileTimes(d.session, "swarm")
	first := slices.IndexFunc(times, d.start.Before)
	Expect(first).To(BeNumerically(">=", 0))
	Expect(times[first].Sub(d.start)).To(BeNumerically("<=", 30*time.Second))
	Expect(api.Delete(ctx, d.swarm)).To(Succeed())
	Eventually(func(ctx context.Context) bool { return isDeleted(ctx, d.swarm) }).WithContext(ctx).Should(BeTrue(),
		"while its operator is there to let it go")
}

// reconcileTimes are the times at which a controller has reconciled, by a log at debug.
func reconcileTimes(session *gexec.Session, controller string) []time.Time {
	GinkgoHelper()
	var result []time.Time
	for _, line := range logEntries(session) {
		if line["controller"] == controller && line["msg"] == "reconciled" {
			moment, err := time.Parse(time.RFC3339Nano, fmt.Sprint(line["time"]))
			Expect(err).NotTo(HaveOccurred())
			result = append(result, moment)
		}
	}
	return result
}
