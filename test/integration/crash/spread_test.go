package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/controller/webhookconfig"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

// spreadScenario is the life of a StatefulSet whose pods are moved to spot nodes and back. There is one registration of the webhook in a
// cluster, so there is one run at a time.
var spreadScenario = scenario{
	stages: []testStage{
		{"a workload that is not spread", deploy, webhookRegistered},
		{movedStage, share("100"), podsBalanced("on-demand:0,spot:2", replicas)},
		{movedBackStage, share("0"), podsBalanced("on-demand:2,spot:0", replicas)},
		{"deleted", deleteWorkload, workloadGone},
	},
	everyKinds:        []string{eviction},
	moves:             map[string]bool{movedStage: true, movedBackStage: true},
	concurrency:       1,
	startAgents:       createSpotNode,
	configureOperator: enableWebhook,
	verify:            verifyEvictions,
}

const (
	web      = "web"
	replicas = 2
	eviction = "POST pods/eviction"

	// The stages in which pods are replaced.
	movedStage     = "moved to spot nodes"
	movedBackStage = "moved back"
)

// createSpotNode creates a spot node for the pods of this run. The other nodes of the cluster are on-demand nodes.
func createSpotNode(ctx context.Context, r *run) error {
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: resource.MustParse("250")}
	return api.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: r.namespace, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{r.class(): "spot", corev1.LabelHostname: r.namespace, corev1.LabelOSStable: "linux"},
		},
		Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: r.class(), Value: "spot", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Allocatable: resources, Capacity: resources},
	})
}

// class is the label by which the operator recognizes the spot node of this run.
func (r *run) class() string { return "crash.test/" + r.namespace }

// enableWebhook makes the operator place pods. It ignores pods of its own namespace, so it gets another one.
func enableWebhook(ctx context.Context, r *run) error {
	r.operator.tempDir = r.namespace + "-home"
	port := ports.Free()
	r.operator.settings = []string{
		"SWARM_WEBHOOK_ENABLED=true", "SWARM_WEBHOOK_URL=auto", "SWARM_WEBHOOK_PORT=" + port, "SWARM_WEBHOOK_CERT_DIR=" + r.operator.folder,
		"SWARM_NODE_LABELS_SPOT=" + r.class() + "=spot", "SWARM_SPREAD_PROVISIONER=none", "SWARM_SPREAD_COOLDOWN=1s",
	}
	return api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.operator.tempDir}})
}

func deploy(ctx context.Context, r *run) error {
	labels := map[string]string{"app": web}
	return api.Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: web},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(replicas)), PodManagementPolicy: appsv1.ParallelPodManagement, ServiceName: web,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(0)),
					Containers: []corev1.Container{{Name: "any", Image: "localhost/any"}}},
			},
		},
	})
}

// share is how many of a hundred pods should be on spot nodes.
func share(percent string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q,%q:%q}}}`,
			v1alpha1.SpreadMode.Key(v1alpha1.Prefix), v1alpha1.SpreadEnabled, v1alpha1.SpreadSpotPercentage.Key(v1alpha1.Prefix), percent)
		return api.Patch(ctx, r.workload(), client.RawPatch(types.MergePatchType, patch))
	}
}

func (r *run) workload() *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: web}}
}

// webhookRegistered is done when all pods are ready, and the webhook is registered for others.
func webhookRegistered(ctx context.Context, r *run) error {
	object := r.workload()
	if err := api.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	writes, _ := r.proxy.recordedWrites()
	if object.Status.ReadyReplicas != replicas || !slices.Contains(kinds(writes), "PATCH mutatingwebhookconfigurations") {
		return fmt.Errorf("%d pods are ready, and written was %v", object.Status.ReadyReplicas, writes)
	}
	return nil
}

// podsBalanced is done when all pods are ready and split as they should be, and at least this many were evicted in this stage.
func podsBalanced(split string, evicted int) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		object := r.workload()
		if err := api.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		status := object.Annotations[v1alpha1.SpreadStatus.Key(v1alpha1.Prefix)]
		current := object.Annotations[v1alpha1.SpreadCurrent.Key(v1alpha1.Prefix)]
		if object.Status.ReadyReplicas != replicas || current != split || status != "Balanced" {
			return fmt.Errorf("%d pods are ready, and the workload says %q and %q", object.Status.ReadyReplicas, status, current)
		}
		if made := r.evictions(); made[r.proxy.stage] < evicted {
			return fmt.Errorf("evictions so far: %v", made)
		}
		return nil
	}
}

// evictions counts them by stage.
func (r *run) evictions() map[string]int {
	writes, _ := r.proxy.recordedWrites()
	counts := map[string]int{}
	for _, made := range writes {
		if made.kind() == eviction {
			counts[made.stage]++
		}
	}
	return counts
}

func deleteWorkload(ctx context.Context, r *run) error {
	return errors.Join(api.Delete(ctx, r.workload()), api.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(r.namespace),
		client.GracePeriodSeconds(0)))
}

func workloadGone(ctx context.Context, r *run) error {
	pods := &corev1.PodList{}
	if err := api.List(ctx, pods, client.InNamespace(r.namespace)); err != nil {
		return err
	}
	if len(pods.Items) > 0 {
		return fmt.Errorf("%d pods are left", len(pods.Items))
	}
	return nil
}

// verifyEvictions checks that pods were not evicted without need: at most as often as there are pods, and once more for each killed
// operator, because a pod that is created without an operator goes to any node.
func verifyEvictions(r *run) (noted []fmt.Stringer, problem error) {
	for stage, count := range r.evictions() {
		maxEvictions := replicas
		for _, fatal := range r.proxy.crashPoints {
			if fatal.stage == stage {
				maxEvictions += replicas
			}
		}
		if count > maxEvictions {
			problem = errors.Join(problem, fmt.Errorf("%d evictions in stage %q, at most %d are needed", count, stage, maxEvictions))
		}
	}
	return nil, errors.Join(problem, api.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}))
}

// unregister removes what an operator left behind that was killed while it stopped.
func unregister(ctx SpecContext) {
	left := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhookconfig.ConfigurationName}}
	Expect(client.IgnoreNotFound(api.Delete(ctx, left))).To(Succeed())
}
