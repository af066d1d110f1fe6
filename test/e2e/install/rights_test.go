package install

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/deploy"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

var _ = Describe("The operator's service account", func() {
	It("[O15/golden, R20/golden] may do what the generated roles say and nothing else, in its own namespace and in others",
		func(ctx SpecContext) {
			roles, err := deploy.Roles(content("deploy", "kustomize", "operator", "role.yaml"))
			Expect(err).NotTo(HaveOccurred())
			granted := deploy.RightsOf(roles)
			for _, where := range []string{system, namespace(ctx)} {
				Expect(rights(ctx, where)).To(Equal(rightsIn(where, granted)), "rights in namespace %s", where)
			}
		})

	It("was never refused anything", func(ctx SpecContext) {
		for _, pod := range replicas(ctx) {
			Expect(testcluster.MustKubectl(ctx, "logs", "--namespace", system, pod.Name)).NotTo(ContainSubstring("is forbidden: User"), "log of %s",
				pod.Name)
		}
	})
})

// rights returns what the operator may do in a namespace, beyond what every service account may, according to `kubectl auth can-i --list`.
func rights(ctx context.Context, where string) []deploy.Right {
	GinkgoHelper()
	everybody := listRights(ctx, where, "any-account")
	return slices.DeleteFunc(listRights(ctx, where, account), func(right deploy.Right) bool { return slices.Contains(everybody, right) })
}

func listRights(ctx context.Context, namespace, account string) []deploy.Right {
	GinkgoHelper()
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + system + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + system, "system:authenticated"},
	}
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	impersonated, err := client.New(config, client.Options{Scheme: api.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	Expect(impersonated.Create(ctx, review)).To(Succeed())
	Expect(review.Status.Incomplete).To(BeFalse(), review.Status.EvaluationError)
	var rules []rbacv1.PolicyRule
	for _, rule := range review.Status.ResourceRules {
		rules = append(rules, rbacv1.PolicyRule{Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources,
			ResourceNames: rule.ResourceNames})
	}
	for _, rule := range review.Status.NonResourceRules {
		rules = append(rules, rbacv1.PolicyRule{Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs})
	}
	return deploy.SortRights(deploy.Split(namespace, rules))
}

// rightsIn are the rights that hold in a namespace.
func rightsIn(where string, granted []deploy.Right) []deploy.Right {
	var result []deploy.Right
	for _, right := range granted {
		if right.Scope == deploy.Everywhere || right.Scope == where {
			result = append(result, deploy.Right{Scope: where, Resource: right.Resource, Verbs: right.Verbs})
		}
	}
	return deploy.SortRights(result)
}
