package integration

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = It("[S11] who may only write status cannot change a spec, not even by way of the status", func(ctx SpecContext) {
	object := createObject(ctx, task.object())
	reporter := clientAs(ctx, "status-reporter", rbacv1.PolicyRule{
		APIGroups: []string{"swarm.io"}, Resources: []string{"tasks/status"}, Verbs: []string{"get", "update", "patch"},
	})

	By("writing the status, as soon as the API server has learnt of the right")
	report := object.DeepCopy()
	Eventually(func() error {
		change(report, `status: {phase: Running, progress: 10}`)
		return reporter.Status().Update(ctx, report)
	}).Should(Succeed())

	By("changing the spec")
	change(report, `spec.priority: critical`)
	Expect(reporter.Update(ctx, report)).To(MatchError(apierrors.IsForbidden, "forbidden"))

	By("slipping a spec into a write of the status")
	change(report, `{spec.priority: critical, status.progress: 20}`)
	Expect(reporter.Status().Update(ctx, report)).To(Succeed())
	Expect(api.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	Expect(object.Object).To(contain(value(`{spec: {priority: medium}, status: {phase: Running, progress: 20}}`)))
})

var _ = It("[S11] who may only write specs cannot change a status", func(ctx SpecContext) {
	author := clientAs(ctx, "author", rbacv1.PolicyRule{
		APIGroups: []string{"swarm.io"}, Resources: []string{"tasks"}, Verbs: []string{"get", "create", "update", "patch"},
	})
	object := task.withChanges(`status: {phase: Completed, progress: 100}`)
	Eventually(func() error { return author.Create(ctx, object) }).Should(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, object)).To(Succeed()) })
	Expect(object.Object).NotTo(HaveKey("status"))
	Expect(writeStatusAs(ctx, author, object)).To(MatchError(apierrors.IsForbidden, "forbidden"))
})

func writeStatusAs(ctx SpecContext, who client.Client, object client.Object) error {
	return who.Status().Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(`{"status": {"phase": "Failed"}}`)))
}

// clientAs acts as a new service account that has one right in the namespace of the tests.
func clientAs(ctx SpecContext, name string, right rbacv1.PolicyRule) client.Client {
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{right}},
		&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: []rbacv1.Subject{subject}, RoleRef: role},
	} {
		Expect(api.Create(ctx, object)).To(Succeed())
	}
	config := rest.CopyConfig(server)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + name}
	return clientOf(config)
}
