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

// A fenceEnvironment is a namespace with objects of its tenant, and the account of an operator that RBAC allows everything. Nothing that it
// writes is stored.
type fenceEnvironment struct {
	account           client.Client
	operatorNamespace string // of the account
	namespace         string
	pod               *corev1.Pod
}

// A request is a write of the account in an environment.
type request func(ctx context.Context, s fenceEnvironment) error

func newFenceEnvironment(ctx context.Context) fenceEnvironment {
	GinkgoHelper()
	s := fenceEnvironment{namespace: namespace(ctx)}
	s.account, s.operatorNamespace = newPrivilegedAccount(ctx)
	createAsUser(ctx, deploymentIn(s.namespace))
	createAsUser(ctx, statefulSetIn(s.namespace))
	createAsUser(ctx, &corev1.ConfigMap{ObjectMeta: s.metaFor("settings"), Data: map[string]string{"one": "1", "two": "2"}})
	createAsUser(ctx, &corev1.Service{ObjectMeta: s.metaFor("web"),
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: template().Labels}})
	s.pod = &corev1.Pod{ObjectMeta: s.metaFor("worker"), Spec: template().Spec}
	s.pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "policies.suite.swarm.io/never"}}
	createAsUser(ctx, s.pod)
	createAsUser(ctx, swarmIn(s.namespace))
	return s
}

func (s fenceEnvironment) metaFor(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name}
}

// ownedMeta is the metadata of an object that a Swarm controls.
func (s fenceEnvironment) ownedMeta(name, kind, version string) metav1.ObjectMeta {
	meta := s.metaFor(name)
	meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "ants", UID: "any", Controller: new(true)}}
	return meta
}

// patchRequest is a merge patch of an object of the stage.
func patchRequest(object func(ns string) client.Object, text string) request {
	return func(ctx context.Context, s fenceEnvironment) error {
		return s.account.Patch(ctx, object(s.namespace), merge(text), client.DryRunAll)
	}
}

// createRequest is the creation of an object.
func createRequest(object func(s fenceEnvironment) client.Object) request {
	return func(ctx context.Context, s fenceEnvironment) error {
		return s.account.Create(ctx, object(s), client.DryRunAll)
	}
}

func settings(ns string) client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "settings"}}
}

func worker(ns string) client.Object {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "worker"}}
}

func webService(ns string) client.Object {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
}

func deployment(ns string) client.Object  { return deploymentIn(ns) }
func statefulSet(ns string) client.Object { return statefulSetIn(ns) }

// rootCA is a ConfigMap that every namespace has.
func rootCA(string) client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-root-ca.crt"}}
}

// evictRequest evicts the pod with this uid.
func evictRequest(uid func(s fenceEnvironment) *types.UID) request {
	return func(ctx context.Context, s fenceEnvironment) error {
		body := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: uid(s)}}}
		return s.account.SubResource("eviction").Create(ctx, s.pod.DeepCopy(), body, client.DryRunAll)
	}
}

// deleteRequest deletes an object of the stage, by its UID if that is wanted.
func deleteRequest(object func(ns string) client.Object, byUID bool) request {
	return func(ctx context.Context, s fenceEnvironment) error {
		current := object(s.namespace)
		if err := api.Get(ctx, client.ObjectKeyFromObject(current), current); err != nil {
			return err
		}
		options := []client.DeleteOption{client.DryRunAll}
		if byUID {
			options = append(options, client.Preconditions{UID: new(current.GetUID())})
		}
		return s.account.Delete(ctx, current, options...)
	}
}

// registrationRequest changes the registration of the webhooks.
func registrationRequest(change func(*admissionv1.MutatingWebhookConfiguration)) request {
	return func(ctx context.Context, s fenceEnvironment) error {
		configuration := &admissionv1.MutatingWebhookConfiguration{}
		if err := api.Get(ctx, client.ObjectKey{Name: "swarm-operator"}, configuration); err != nil {
			return err
		}
		change(configuration)
		return s.account.Update(ctx, configuration, client.DryRunAll)
	}
}

// scaled scales a workload.
func scaled(object func(ns string) client.Object) request {
	return func(ctx context.Context, s fenceEnvironment) error {
		body := client.WithSubResourceBody(&autoscalingv1.Scale{})
		return s.account.SubResource("scale").Patch(ctx, object(s.namespace), merge(`{"spec": {"replicas": 3}}`), body, client.DryRunAll)
	}
}

func uidOf(s fenceEnvironment) *types.UID { return &s.pod.UID }
func noUID(fenceEnvironment) *types.UID   { return nil }
func secret(s fenceEnvironment, ns, name string) client.Object {
	meta := s.metaFor(name)
	meta.Namespace = ns
	return &corev1.Secret{ObjectMeta: meta}
}

var _ = Describe("The account of the operator", Ordered, ContinueOnFailure, func() {
	var s fenceEnvironment

	BeforeAll(func(ctx SpecContext) { s = newFenceEnvironment(ctx) })

	DescribeTable("is refused outside its work, whatever RBAC allows [X04/operator-refused]",
		func(ctx SpecContext, write request, why string) {
			Expect(write(ctx, s)).To(MatchError(And(ContainSubstring("operator-fence.swarm.io"), ContainSubstring(why))))
		},
		Entry("to create a Deployment",
			createRequest(func(s fenceEnvironment) client.Object { return deploymentIn(s.operatorNamespace) }),
			"never writes this: CREATE deployments.apps"),
		Entry("to create a pod",
			createRequest(func(s fenceEnvironment) client.Object {
				return &corev1.Pod{ObjectMeta: s.metaFor("new"), Spec: template().Spec}
			}), "never writes this: CREATE pods"),
		Entry("to bind a role", createRequest(func(s fenceEnvironment) client.Object {
			return &rbacv1.RoleBinding{ObjectMeta: s.metaFor("new"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
				Name: "edit"}}
		}), "never writes this: CREATE rolebindings.rbac.authorization.k8s.io"),
		Entry("to delete a ConfigMap", deleteRequest(settings, true), "never writes this: DELETE configmaps"),
		Entry("to change a namespace",
			patchRequest(func(ns string) client.Object { return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}} },
				`{"metadata": {"labels": {"a": "b"}}}`), "never writes this: UPDATE namespaces"),

		Entry("to write in kube-system",
			patchRequest(rootCA, `{"metadata": {"labels": {"swarm.io/pool": "p"}}, "data": {"one": "1"}}`), "begins with kube-"),
		Entry("to make a Service in kube-system", createRequest(func(s fenceEnvironment) client.Object {
			meta := s.ownedMeta("ants", "Swarm", "swarm.io/v1alpha1")
			meta.Namespace = metav1.NamespaceSystem
			return &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}
		}), "begins with kube-"),

		Entry("to change the image of a Deployment",
			patchRequest(deployment, `{"spec": {"template": {"spec": {"serviceAccountName": "other"}}}}`), "annotations of a Deployment"),
		Entry("to scale a Deployment by its spec", patchRequest(deployment, `{"spec": {"replicas": 3}}`), "annotations of a Deployment"),
		Entry("to label a Deployment",
			patchRequest(deployment, `{"metadata": {"labels": {"swarm.io/slot": "1"}}}`), "annotations of a Deployment"),
		Entry("to make a StatefulSet without an owner",
			createRequest(func(s fenceEnvironment) client.Object {
				made := statefulSetIn(s.namespace)
				made.Name = "new"
				return made
			}), "StatefulSets of a Swarm"),
		Entry("to change the template of a StatefulSet",
			patchRequest(statefulSet, `{"spec": {"template": {"spec": {"serviceAccountName": "other"}}}}`), "StatefulSets of a Swarm"),
		Entry("to label a StatefulSet as that of a Swarm",
			patchRequest(statefulSet, `{"metadata": {"labels": {"swarm.io/swarm": "ants"}}}`), "StatefulSets of a Swarm"),
		Entry("to give a StatefulSet to a Swarm",
			patchRequest(statefulSet,
				`{"metadata": {"ownerReferences": [{"apiVersion": "swarm.io/v1alpha1", "kind": "Swarm", "name": "ants", "uid": "any", "controller": true}]}}`), "StatefulSets of a Swarm"),
		Entry("to delete a StatefulSet", deleteRequest(statefulSet, true), "StatefulSets of a Swarm"),

		Entry("to change the image of a pod",
			patchRequest(worker, `{"spec": {"activeDeadlineSeconds": 1}}`), "label swarm.io/slot of a pod"),
		Entry("to give a pod a label by which others find it",
			patchRequest(worker, `{"metadata": {"labels": {"app": "bank"}}}`), "label swarm.io/slot of a pod"),
		Entry("to delete a pod by its name", deleteRequest(worker, false), "by their UID"),
		Entry("to delete all pods", request(func(ctx context.Context, s fenceEnvironment) error {
			return s.account.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(s.namespace), client.DryRunAll)
		}), "by their UID"),
		Entry("to evict a pod by its name", evictRequest(noUID), "evicts pods by their UID"),

		Entry("to write a ConfigMap of others", patchRequest(settings, `{"data": {"one": "3"}}`), "labels with their WorkerPool"),
		Entry("to take more than one key of a ConfigMap",
			patchRequest(settings, `{"metadata": {"labels": {"swarm.io/pool": "p"}}, "data": {"one": "3", "three": "3"}}`),
			"labels with their WorkerPool"),
		Entry("to take a key out of a ConfigMap",
			patchRequest(settings, `{"metadata": {"labels": {"swarm.io/pool": "p"}}, "data": {"one": null}}`), "labels with their WorkerPool"),
		Entry("to make a ConfigMap without an owner",
			createRequest(func(s fenceEnvironment) client.Object { return &corev1.ConfigMap{ObjectMeta: s.metaFor("new")} }),
			"labels with their WorkerPool"),
		Entry("to make a ConfigMap with its CA elsewhere",
			createRequest(func(s fenceEnvironment) client.Object {
				return &corev1.ConfigMap{ObjectMeta: s.metaFor("swarm-operator-ca")}
			}), "labels with their WorkerPool"),
		Entry("to write a Service of others",
			patchRequest(webService, `{"spec": {"selector": {"swarm.io/swarm": "ants"}}}`), "Services of a Swarm"),
		Entry("to write a Secret of another name",
			createRequest(func(s fenceEnvironment) client.Object { return secret(s, s.operatorNamespace, "other") }), "Secret of the link"),
		Entry("to write a Secret elsewhere",
			createRequest(func(s fenceEnvironment) client.Object { return secret(s, s.namespace, "swarm-operator-link") }), "Secret of the link"),
		Entry("to write a Lease of another name",
			createRequest(func(s fenceEnvironment) client.Object { return &coordinationv1.Lease{ObjectMeta: s.metaFor("other")} }),
			"Lease by which it leads"),
		Entry("to change the spec of a Swarm", patchRequest(swarm, `{"spec": {"maxAgents": 5}}`), "metadata of a Swarm"),
		Entry("to make a WorkerPool without an owner",
			createRequest(func(s fenceEnvironment) client.Object { return poolIn(s.namespace, 0) }), "WorkerPools of labelled StatefulSets"),
		Entry("to make an Agent without an owner", createRequest(func(s fenceEnvironment) client.Object {
			return &v1alpha1.Agent{ObjectMeta: s.metaFor("new"), Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "ants"},
				Type: "worker", Slots: 1}}
		}), "Agents of a Swarm"),

		Entry("to send pods elsewhere", registrationRequest(func(c *admissionv1.MutatingWebhookConfiguration) {
			c.Webhooks[1].ClientConfig.URL = new("https://example.test/spread")
		}), "changes the CA of its webhooks"),
		Entry("to be asked about more than pods", registrationRequest(func(c *admissionv1.MutatingWebhookConfiguration) {
			c.Webhooks[1].Rules = []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
			}}
		}), "changes the CA of its webhooks"),
		Entry("to be asked about other pods of pools", registrationRequest(func(c *admissionv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{}
		}), "changes the CA of its webhooks"),
	)

	DescribeTable("passes with its work", func(ctx SpecContext, write request) {
		Expect(write(ctx, s)).To(Succeed())
	},
		Entry("annotates a Deployment", patchRequest(deployment, `{"metadata": {"annotations": {"swarm.io/spread-status": "balanced"}}}`)),
		Entry("annotates a StatefulSet of others",
			patchRequest(statefulSet, `{"metadata": {"annotations": {"swarm.io/spread-status": "balanced"}}}`)),
		Entry("annotates a worker and gives it a slot",
			patchRequest(worker, `{"metadata": {"labels": {"swarm.io/slot": "1"}, "annotations": {"swarm.io/config-version": "7"}}}`)),
		Entry("scales a Deployment", scaled(deployment)),
		Entry("scales a StatefulSet", scaled(statefulSet)),
		Entry("evicts a pod by its UID", evictRequest(uidOf)),
		Entry("deletes a pod by its UID", deleteRequest(worker, true)),
		Entry("takes over one key of a ConfigMap",
			patchRequest(settings,
				`{"metadata": {"labels": {"swarm.io/pool": "p"}, "annotations": {"swarm.io/fence": "1"}}, "data": {"one": "3"}}`)),
		Entry("adds one key to a ConfigMap",
			patchRequest(settings, `{"metadata": {"labels": {"swarm.io/pool": "p"}}, "data": {"config.yml": "3"}}`)),
		Entry("makes the Service of a Swarm", createRequest(func(s fenceEnvironment) client.Object {
			return &corev1.Service{ObjectMeta: s.ownedMeta("ants", "Swarm", "swarm.io/v1alpha1"),
				Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}
		})),
		Entry("makes the WorkerPool of a labelled StatefulSet", createRequest(func(s fenceEnvironment) client.Object {
			made := poolIn(s.namespace, 1)
			made.Spec.Replicas, made.ObjectMeta = nil, s.ownedMeta("streams", "StatefulSet", "apps/v1")
			return made
		})),
		Entry("makes the Secret of the link", createRequest(func(s fenceEnvironment) client.Object {
			return secret(s, s.operatorNamespace, "swarm-operator-link")
		})),
		Entry("makes the ConfigMap with its CA", createRequest(func(s fenceEnvironment) client.Object {
			meta := s.metaFor("swarm-operator-ca")
			meta.Namespace = s.operatorNamespace
			return &corev1.ConfigMap{ObjectMeta: meta}
		})),
		Entry("makes its Lease",
			createRequest(func(s fenceEnvironment) client.Object {
				return &coordinationv1.Lease{ObjectMeta: s.metaFor("swarm-operator")}
			})),
		Entry("says in kube-system what happened", createRequest(func(fenceEnvironment) client.Object {
			return &eventsv1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "policies-suite"}, EventTime: metav1.NowMicro(), Type: "Normal",
				Reason: "Any", Action: "Any",
				ReportingController: "swarm.io/any", ReportingInstance: "any",
				Regarding: corev1.ObjectReference{Kind: "Swarm", Namespace: metav1.NamespaceSystem, Name: "any"},
			}
		})),
		Entry("gives its webhooks a CA, and the one of spread its namespaces",
			registrationRequest(func(c *admissionv1.MutatingWebhookConfiguration) {
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
		Expect(api.Patch(ctx, settings(s.namespace), merge(`{"data": {"one": "3"}}`), client.DryRunAll)).To(Succeed())
		other := clientAs("system:serviceaccount:"+s.namespace+":other-swarm-operator", "system:masters")
		Expect(other.Create(ctx, &corev1.ConfigMap{ObjectMeta: s.metaFor("new")}, client.DryRunAll)).To(Succeed())
	})
})
