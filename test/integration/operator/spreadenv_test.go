package operator

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

// A spreadEnvironment is a namespace whose pods are spread, with nodes that only its own operators consider spot nodes. All other nodes are
// on-demand.
type spreadEnvironment struct{ namespace, port, prefix string }

func newSpreadEnvironment(ctx context.Context) spreadEnvironment {
	GinkgoHelper()
	s := spreadEnvironment{namespace(ctx, nil), ports.Free(), v1alpha1.Prefix}
	registerWebhook(ctx, s.namespace, s.port, nil)
	return s
}

// label distinguishes the nodes of this environment.
func (s spreadEnvironment) label() string { return "spread.test/" + s.namespace }

// operator runs one with admission. It leaves a workload alone no longer than necessary.
func (s spreadEnvironment) operator(environment ...string) *gexec.Session {
	GinkgoHelper()
	settings := append(webhookSettings(s.namespace, s.port), "SWARM_NODE_LABELS_SPOT="+s.label()+"=spot", "SWARM_SPREAD_PROVISIONER=none",
		"SWARM_SPREAD_COOLDOWN=1s")
	return startOperator(append(settings, environment...)...)
}

// node is one that takes only pods that were made for its class, until the spec ends.
func (s spreadEnvironment) node(ctx context.Context, name, class string) *corev1.Node {
	GinkgoHelper()
	name = s.namespace + "-" + name
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: resource.MustParse("250")}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{s.label(): class, corev1.LabelHostname: name, corev1.LabelOSStable: "linux"},
		},
		Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: s.label(), Value: class, Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Allocatable: resources, Capacity: resources},
	}
	Expect(api.Create(ctx, node)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		// Pods whose node is gone first would linger.
		Expect(client.IgnoreNotFound(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))).To(Succeed())
		Eventually(pods).WithContext(ctx).WithArguments(s.namespace).Should(BeEmpty())
		Expect(client.IgnoreNotFound(api.Delete(ctx, node))).To(Succeed())
	})
	Eventually(func(ctx context.Context) (bool, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(node), node)
		ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		return ready && len(node.Spec.Taints) == 1, err
	}).WithContext(ctx).Should(BeTrue())
	return node
}

// workload returns a workload with this share on spot nodes; without a share it is not spread.
func (s spreadEnvironment) workload(name, percent string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(0)),
				Containers: []corev1.Container{{Name: "any", Image: "localhost/any"}}},
		},
	}}
	if percent != "" {
		s.setSpotPercent(deployment, percent)
	}
	return deployment
}

func (s spreadEnvironment) setSpotPercent(workload *appsv1.Deployment, percent string) {
	metav1.SetMetaDataAnnotation(&workload.ObjectMeta, v1alpha1.SpreadMode.Key(s.prefix), v1alpha1.SpreadEnabled)
	metav1.SetMetaDataAnnotation(&workload.ObjectMeta, v1alpha1.SpreadSpotPercentage.Key(s.prefix), percent)
}

// createUnspread makes a workload that is not spread, so that none of its pods is on spot nodes, and waits until they run.
func (s spreadEnvironment) createUnspread(ctx context.Context, name string, replicas int) *appsv1.Deployment {
	GinkgoHelper()
	deployment := s.workload(name, "")
	deployment.Spec.Replicas = new(int32(replicas))
	Expect(api.Create(ctx, deployment)).To(Succeed())
	Eventually(func(ctx context.Context) (int32, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)
		return deployment.Status.ReadyReplicas, err
	}).WithContext(ctx).Should(BeEquivalentTo(replicas))
	return deployment
}

// createAndScale creates a workload that grows from nothing once admission is ready for its pods.
func (s spreadEnvironment) createAndScale(ctx context.Context, workload *appsv1.Deployment, replicas int) {
	GinkgoHelper()
	workload.Spec.Replicas = new(int32(0))
	Expect(api.Create(ctx, workload)).To(Succeed())
	Eventually(s.admittedClass).WithContext(ctx).WithArguments(workload).ShouldNot(BeEmpty())
	change(ctx, workload, func() { workload.Spec.Replicas = new(int32(replicas)) })
}

// admittedClass returns the class that a pod of a workload would be created for, "" without a ReplicaSet or a decision.
func (s spreadEnvironment) admittedClass(ctx context.Context, workload *appsv1.Deployment) (string, error) {
	sets := &appsv1.ReplicaSetList{}
	err := api.List(ctx, sets, client.InNamespace(s.namespace), client.MatchingLabels(workload.Spec.Selector.MatchLabels))
	if err != nil || len(sets.Items) == 0 {
		return "", err
	}
	set := sets.Items[0]
	pod := &corev1.Pod{Spec: set.Spec.Template.Spec, ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, GenerateName: set.Name + "-", Labels: set.Spec.Template.Labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
	}}
	err = api.Create(ctx, pod, client.DryRunAll)
	return pod.Annotations[v1alpha1.SpreadClass.Key(s.prefix)], err
}

// readAnnotation returns an annotation of a workload.
func (s spreadEnvironment) readAnnotation(ctx context.Context, name string, annotation v1alpha1.SpreadAnnotation) (string, error) {
	workload := &appsv1.Deployment{}
	err := api.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, workload)
	return workload.Annotations[annotation.Key(s.prefix)], err
}

// current is a workload's report of its split.
func (s spreadEnvironment) current(ctx context.Context, name string) (string, error) {
	return s.readAnnotation(ctx, name, v1alpha1.SpreadCurrent)
}

// livePods returns the pods of a workload that are not terminating.
func (s spreadEnvironment) livePods(ctx context.Context, name string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := api.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{"app": name})
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil }), err
}

// podUIDs returns the UIDs of a workload's pods, which show whether any of them was replaced.
func (s spreadEnvironment) podUIDs(ctx context.Context, name string) ([]types.UID, error) {
	living, err := s.livePods(ctx, name)
	var uids []types.UID
	for _, pod := range living {
		uids = append(uids, pod.UID)
	}
	slices.Sort(uids)
	return uids, err
}

// podNodes are the nodes of a workload's pods, "" for one that waits.
func (s spreadEnvironment) podNodes(ctx context.Context, name string) ([]string, error) {
	living, err := s.livePods(ctx, name)
	var all []string
	for _, pod := range living {
		all = append(all, pod.Spec.NodeName)
	}
	return all, err
}

// creationTimes returns the creation times of a workload's pods in order, after an operator has found all of them misplaced and moved them.
func (s spreadEnvironment) creationTimes(ctx context.Context, name string, replicas int, environment ...string) []time.Time {
	GinkgoHelper()
	web := s.createUnspread(ctx, name, replicas)
	before, err := s.podUIDs(ctx, web.Name)
	Expect(err).NotTo(HaveOccurred())
	session := s.operator(environment...)
	change(ctx, web, func() { s.setSpotPercent(web, "100") })
	Eventually(s.readAnnotation).WithContext(ctx).WithArguments(web.Name, v1alpha1.SpreadStatus).Should(Equal("Balanced"))
	Expect(s.podUIDs(ctx, web.Name)).To(HaveEach(Not(BeElementOf(before))))
	living, err := s.livePods(ctx, web.Name)
	Expect(err).NotTo(HaveOccurred())
	Expect(living).To(HaveLen(replicas))
	var times []time.Time
	for _, pod := range living {
		times = append(times, pod.CreationTimestamp.Time)
	}
	Eventually(session.Terminate()).Should(gexec.Exit(0))
	return slices.SortedFunc(slices.Values(times), time.Time.Compare)
}
