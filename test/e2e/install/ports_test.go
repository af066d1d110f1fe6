package install

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

var _ = Describe("The operator's ports", func() {
	It("[K19/probes] answer the kubelet on every replica", func(ctx SpecContext) {
		for _, pod := range replicas(ctx) {
			address := testcluster.PortForward("pod/"+pod.Name, "8081")
			for _, path := range []string{"/healthz", "/readyz"} {
				Expect(status(ctx, "http://"+address+path, "")).To(Equal(http.StatusOK), "%s of %s", path, pod.Name)
			}
		}
	})

	It("[K19/metrics] show metrics only to users who may read them", func(ctx SpecContext) {
		space := namespace(ctx)
		reader, stranger := serviceAccount(ctx, space, "reader"), serviceAccount(ctx, space, "stranger")
		allowMetrics(ctx, space, "reader")
		url := "https://" + testcluster.PortForward("service/swarm-operator-metrics", "8080") + "/metrics"

		Expect(status(ctx, url, "")).To(Equal(http.StatusUnauthorized), "without a token")
		Expect(status(ctx, url, "forged")).NotTo(Equal(http.StatusOK), "with a forged token")
		Expect(status(ctx, url, stranger)).To(Equal(http.StatusForbidden), "without the right")
		code, text := get(ctx, url, reader)
		Expect(code).To(Equal(http.StatusOK))
		Expect(text).To(ContainSubstring(`leader_election_master_status{name="swarm-operator"}`))
	})
})

// serviceAccount creates a service account and returns a token for it.
func serviceAccount(ctx context.Context, namespace, name string) string {
	GinkgoHelper()
	return testcluster.NewToken(ctx, api, namespace, name)
}

// allowMetrics binds a service account to the installed role, and waits until that is effective: the operator caches a refusal for half a
// minute.
func allowMetrics(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "swarm-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}
	Expect(api.Create(ctx, binding)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, binding)).To(Succeed()) })
	Eventually(func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:                  "system:serviceaccount:" + namespace + ":" + name,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
		}}
		err := api.Create(ctx, review)
		return review.Status.Allowed, err
	}).WithContext(ctx).Should(BeTrue())
}

func status(ctx context.Context, url, token string) int {
	GinkgoHelper()
	code, _ := get(ctx, url, token)
	return code
}

func get(ctx context.Context, url, token string) (int, string) {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	Expect(err).NotTo(HaveOccurred())
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The certificate is for the Service, and not for the address of a port-forward. test/e2e/monitoring verifies it.
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := trusting.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(text)
}
