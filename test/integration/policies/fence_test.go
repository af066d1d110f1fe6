package policies

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// A stage is a namespace with objects of its tenant, and the account of an operator that RBAC allows everything. Nothing that it writes is stored.
type stage struct {
	account client.Client
	home    string // of the account
	in      string
	pod     *corev1.Pod
}

// A request is what the account writes on a stage.
type request func(ctx context.Context, s stage) error

func newStage(ctx context.Context) stage {
	GinkgoHelper()
	s := stage{in: namespace(ctx)}
	s.account, s.home = almighty(ctx)
	made(ctx, deploymentIn(s.in))
	made(ctx, statefulSetIn(s.in))
	made(ctx, &corev1.ConfigMap{ObjectMeta: s.named("settings"), Data: map[string]string{"one": "1", "two": "2"}})
	made(ctx, &corev1.Service{ObjectMeta: s.named("web"), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: template().Labels}})
	s.pod = &corev1.Pod{ObjectMeta: s.named("worker"), Spec: template().Spec}
	s.pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "policies.suite.swarm.io/never"}}
	made(ctx, s.pod)
	made(ctx, swarmIn(s.in))
	return s
}

func (s stage) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.in, Name: name}
}

// owned is the metadata of an object that a Swarm controls.
func (s stage) owned(name, kind, version string) metav1.ObjectMeta {
	meta := s.named(name)
	meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "ants", UID: "any", Controller: new(true)}}
	return meta
}

// patched is a merge patch of an object of the stage.
func patched(object func(in string) client.Object, text string) request {
	return func(ctx context.Context, s stage) error {
		return s.account.Patch(ctx, object(s.in), merge(text), client.DryRunAll)
	}
}

// created is the creation of an object.
func created(object func(s stage) client.Object) request {
	return func(ctx context.Context, s stage) error { return s.account.Create(ctx, object(s), client.DryRunAll) }
}

func settings(in string) client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "settings"}}
}

func worker(in string) client.Object {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "worker"}}
}

func webService(in string) client.Object {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "web"}}
}

func deployment(in string) client.Object  { return deploymentIn(in) }
func statefulSet(in string) client.Object { return statefulSetIn(in) }

// rootCA is a ConfigMap that every namespace has.
func rootCA(string) client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-root-ca.crt"}}
}

// evicted evicts the pod with this uid.
func evicted(uid func(s stage) *types.UID) request {
	return func(ctx context.Context, s stage) error {
		body := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: uid(s)}}}
		return s.account.SubResource("eviction").Create(ctx, s.pod.DeepCopy(), body, client.DryRunAll)
	}
}

// deleted deletes an object of the stage, by its UID if that is wanted.
func deleted(object func(in string) client.Object, byUID bool) request {
	return func(ctx context.Context, s stage) error {
		found := object(s.in)
		if err := api.Get(ctx, client.ObjectKeyFromObject(found), found); err != nil {
			return err
		}
		options := []client.DeleteOption{client.DryRunAll}
		if byUID {
			options = append(options, client.Preconditions{UID: new(found.GetUID())})
		}
		return s.account.Delete(ctx, found, options...)
	}
}

// registered changes the registration of the webhooks.
func registered(change func(*admissionv1.MutatingWebhookConfiguration)) request {
	return func(ctx context.Context, s stage) error {
		found := &admissionv1.MutatingWebhookConfiguration{}
		if err := api.Get(ctx, client.ObjectKey{Name: "swarm-operator"}, found); err != nil {
			return err
		}
		change(found)
		return s.account.Update(ctx, found, client.DryRunAll)
	}
}

// scaled scales a workload.
func scaled(object func(in string) client.Object) request {
	return func(ctx context.Context, s stage) error {
		body := client.WithSubResourceBody(&autoscalingv1.Scale{})
		return s.account.SubResource("scale").Patch(ctx, object(s.in), merge(`{"spec": {"replicas": 3}}`), body, client.DryRunAll)
	}
}

func uidOf(s stage) *types.UID { return &s.pod.UID }
func nothing(stage) *types.UID { return nil }
func secret(s stage, in, name string) client.Object {
	meta := s.named(name)
	meta.Namespace = in
	return &corev1.Secret{ObjectMeta: meta}
}

var _ = Describe("The account of the operator", Ordered, ContinueOnFailure, func() {
	var s stage

	BeforeAll(func(ctx SpecContext) { s = newStage(ctx) })

	DescribeTable("is refused outside its work, whatever RBAC allows [X04/operator-refused]", func(ctx SpecContext, write request, why string) {
		Expect(write(ctx, s)).To(MatchError(And(ContainSubstring("operator-fence.swarm.io"), ContainSubstring(why))))
	},
		Entry("to create a Deployment",
			created(func(s stage) client.Object { return deploymentIn(s.home) }), "never writes this: CREATE deployments.apps"),
		Entry("to create a pod",
			created(func(s stage) client.Object { return &corev1.Pod{ObjectMeta: s.named("new"), Spec: template().Spec} }), "never writes this: CREATE pods"),
		Entry("to bind a role", created(func(s stage) client.Object {
			return &rbacv1.RoleBinding{ObjectMeta: s.named("new"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"}}
		}), "never writes this: CREATE rolebindings.rbac.authorization.k8s.io"),
		Entry("to delete a ConfigMap", deleted(settings, true), "never writes this: DELETE configmaps"),
		Entry("to change a namespace",
			patched(func(in string) client.Object { return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in}} }, `{"metadata": {"labels": {"a": "b"}}}`), "never writes this: UPDATE namespaces"),

		Entry("to write in kube-system",
			patched(rootCA, `{"metadata": {"labels": {"swarm.io/pool": "p"}}, "data": {"one": "1"}}`), "begins with kube-"),
		Entry("to make a Service in kube-system", created(func(s stage) client.Object {
			meta := s.owned("ants", "Swarm", "swarm.io/v1alpha1")
			meta.Namespace = metav1.NamespaceSystem
			return &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}
		}), "begins with kube-"),

		Entry("to change the image of a Deployment",
			patched(deployment, `{"spec": {"template": {"spec": {"serviceAccountName": "other"}}}}`), "annotations of a Deployment"),
		Entry("to scale a Deployment by its spec", patched(deployment, `{"spec": {"replicas": 3}}`), "annotations of a Deployment"),
		Entry("to label a Deployment",
			patched(deployment, `{"metadata": {"labels": {"swarm.io/slot": "1"}}}`), "annotations of a Deployment"),
		Entry("to make a StatefulSet without an owner",
			created(func(s stage) client.Object { made := statefulSetIn(s.in); made.Name = "new"; return made }), "StatefulSets of a Swarm"),
		Entry("to change the template of a StatefulSet",
			patched(statefulSet, `{"spec": {"template": {"spec": {"serviceAccountName": "other"}}}}`), "StatefulSets of a Swarm"),
		Entry("to label a StatefulSet as that of a Swarm",
			patched(statefulSet, `{"metadata": {"labels": {"swarm.io/swarm": "ants"}}}`), "StatefulSets of a Swarm"),
		Entry("to give a StatefulSet to a Swarm",
			patched(statefulSet, `{"metadata": {"ownerReferences": [{"apiVersion": "swarm.io/v1alpha1", "kind": "Swarm", "name": "ants", "uid": "any", "controller": true}]}}`), "StatefulSets of a Swarm"),
		Entry("to delete a StatefulSet", deleted(statefulSet, true), "StatefulSets of a Swarm"),

		Entry("to change the image of a pod",
			patched(worker, `{"spec": {"activeDeadlineSeconds": 1}}`), "label swarm.io/slot of a pod"),
		Entry("to give a pod a label by which others find it",
			patched(worker, `{"metadata": {"labels": {"app": "bank"}}}`), "label swarm.io/slot of a pod"),
		Entry("to delete a pod by its name", deleted(worker, false), "by their UID"),
		Entry("to delete all pods", request(func(ctx context.Context, s stage) error {
			return s.account.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(s.in), client.DryRunAll)
		}), "by their UID"),
		Entry("to evict a pod by its name", evicted(nothing), "evicts pods by their UID"),

		Entry("to write a ConfigMap of others", patched(settings, `{"data": {"one": "3"}}`), "labels with their WorkerPool"),
		Entry("to take more than one key of a ConfigMap",
			patched(settings, `{"metadata": {"labels": {"swarm.io/pool": "p"}}, "data": {"one": "3", "three": "3"}}`), "labels with their WorkerPool"),
		Entry("to take a key out of a ConfigMap",
			patched(settings, `{"metadata": {"labels": {"swarm.io/pool": "p"}}, "data": {"one": null}}`), "labels with their WorkerPool"),
		Entry("to make a ConfigMap without an owner",
			created(func(s stage) client.Object { return &corev1.ConfigMap{ObjectMeta: s.named("new")} }), "labels with their WorkerPool"),
		Entry("to make a ConfigMap with its CA elsewhere",
			created(func(s stage) client.Object { return &corev1.ConfigMap{ObjectMeta: s.named("swarm-operator-ca")} }), "labels with their WorkerPool"),
		Entry("to write a Service of others",
			patched(webService, `{"spec": {"selector": {"swarm.io/swarm": "ants"}}}`), "Services of a Swarm"),
		Entry("to write a Secret of another name",
			created(func(s stage) client.Object { return secret(s, s.home, "other") }), "Secret of the link"),
		Entry("to write a Secret elsewhere",
			created(func(s stage) client.Object { return secret(s, s.in, "swarm-operator-link") }), "Secret of the link"),
		Entry("to write a Lease of another name",
			created(func(s stage) client.Object { return &coordinationv1.Lease{ObjectMeta: s.named("other")} }), "Lease by which it leads"),
		Entry("to change the spec of a Swarm", patched(swarm, `{"spec": {"maxAgents": 5}}`), "metadata of a Swarm"),
		Entry("to make a WorkerPool without an owner",
			created(func(s stage) client.Object { return poolIn(s.in, 0) }), "WorkerPools of labelled StatefulSets"),
		Entry("to make an Agent without an owner", created(func(s stage) client.Object {
			return &v1alpha1.Agent{ObjectMeta: s.named("new"), Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "ants"}, Type: "worker", Slots: 1}}
		}), "Agents of a Swarm"),

		Entry("to send pods elsewhere", registered(func(c *admissionv1.MutatingWebhookConfiguration) {
			c.Webhooks[1].ClientConfig.URL = new("https://example.test/spread")
		}), "changes the CA of its webhooks"),
		Entry("to be asked about more than pods", registered(func(c *admissionv1.MutatingWebhookConfiguration) {
			c.Webhooks[1].Rules = []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
			}}
		}), "changes the CA of its webhooks"),
		Entry("to be asked about other pods of pools", registered(func(c *admissionv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{}
		}), "changes the CA of its webhooks"),
	)

	DescribeTable("passes with its work", func(ctx SpecContext, write request) {
		Expect(write(ctx, s)).To(Succeed())
	},
		Entry("annotates a Deployment", patched(deployment, `{"metadata": {"annotations": {"swarm.io/spread-status": "balanced"}}}`)),
		Entry("annotates a StatefulSet of others",
			patched(statefulSet, `{"metadata": {"annotations": {"swarm.io/spread-status": "balanced"}}}`)),
		Entry("annotates a worker and gives it a slot",
			patched(worker, `{"metadata": {"labels": {"swarm.io/slot": "1"}, "annotations": {"swarm.io/config-version": "7"}}}`)),
		Entry("scales a Deployment", scaled(deployment)),
		Entry("scales a StatefulSet", scaled(statefulSet)),
		Entry("evicts a pod by its UID", evicted(uidOf)),
		Entry("deletes a pod by its UID", deleted(worker, true)),
		Entry("takes over one key of a ConfigMap",
			patched(settings, `{"metadata": {"labels": {"swarm.io/pool": "p"}, "annotations": {"swarm.io/fence": "1"}}, "data": {"one": "3"}}`)),
		Entry("adds one key to a ConfigMap",
			patched(settings, `{"metadata": {"labels": {"swarm.io/pool": "p"}}, "data": {"config.yml": "3"}}`)),
		Entry("makes the Service of a Swarm", created(func(s stage) client.Object {
			return &corev1.Service{ObjectMeta: s.owned("ants", "Swarm", "swarm.io/v1alpha1"), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}
		})),
		Entry("makes the WorkerPool of a labelled StatefulSet", created(func(s stage) client.Object {
			made := poolIn(s.in, 1)
			made.Spec.Replicas, made.ObjectMeta = nil, s.owned("streams", "StatefulSet", "apps/v1")
			return made
		})),
		Entry("makes the Secret of the link", created(func(s stage) client.Object { return secret(s, s.home, "swarm-operator-link") })),
		Entry("makes the ConfigMap with its CA", created(func(s stage) client.Object {
			meta := s.named("swarm-operator-ca")
			meta.Namespace = s.home
			return &corev1.ConfigMap{ObjectMeta: meta}
		})),
		Entry("makes its Lease",
			created(func(s stage) client.Object { return &coordinationv1.Lease{ObjectMeta: s.named("swarm-operator")} })),
		Entry("says in kube-system what happened", created(func(stage) client.Object {
			return &eventsv1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "policies-suite"}, EventTime: metav1.NowMicro(), Type: "Normal", Reason: "Any", Action: "Any",
				ReportingController: "swarm.io/any", ReportingInstance: "any", Regarding: corev1.ObjectReference{Kind: "Swarm", Namespace: metav1.NamespaceSystem, Name: "any"},
			}
		})),
		Entry("gives its webhooks a CA, and the one of spread its namespaces", registered(func(c *admissionv1.MutatingWebhookConfiguration) {
			for n := range c.Webhooks {
				c.Webhooks[n].ClientConfig.CABundle = []byte("any")
			}
			c.Webhooks[1].Rules = []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}
			c.Webhooks[1].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		})),
	)

	It("is the only one that the fence is for", func(ctx SpecContext) {
		Expect(api.Patch(ctx, settings(s.in), merge(`{"data": {"one": "3"}}`), client.DryRunAll)).To(Succeed())
		other := as("system:serviceaccount:"+s.in+":other-swarm-operator", "system:masters")
		Expect(other.Create(ctx, &corev1.ConfigMap{ObjectMeta: s.named("new")}, client.DryRunAll)).To(Succeed())
	})
})
