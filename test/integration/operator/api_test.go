package operator

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

// An apiClient is the introspection API of an operator, as `kubectl port-forward` reaches it.
type apiClient struct{ url string }

func newAPIClient(port string) apiClient { return apiClient{"http://127.0.0.1:" + port} }

// mustGet is the answer to a token, which must be a good one.
func (w apiClient) mustGet(ctx context.Context, path, token string) (string, error) {
	status, text, err := visit(ctx, w.url+path, token)
	if err == nil && status != http.StatusOK {
		return "", fmt.Errorf("%d %s", status, text)
	}
	return text, err
}

// mustRefuse is the status and the reason, unless there is an answer.
func (w apiClient) mustRefuse(ctx context.Context, path, token string) string {
	GinkgoHelper()
	status, text, err := visit(ctx, w.url+path, token)
	Expect(err).NotTo(HaveOccurred())
	Expect(status).NotTo(Equal(http.StatusOK))
	Expect(text).To(And(HavePrefix(`{"error":"`), HaveSuffix("\"}\n")))
	return fmt.Sprint(status, " ", strings.ReplaceAll(text, `\"`, `"`))
}

func showAPIPort(ctx SpecContext) {
	ns, port := namespace(ctx, nil), ports.Free()
	reader := token(ctx, ns, "reader")
	allowIn(ctx, ns, "reader", "swarms")
	startOperator(onlyNamespace(ns), "SWARM_API_PORT="+port)
	Eventually(newAPIClient(port).mustGet).WithContext(ctx).WithArguments("/v1/swarms?namespace="+ns,
		reader).Should(MatchJSON(`{"items": []}`))
	Expect(code(ctx, newAPIClient(port).url+"/v1/swarms?namespace="+ns, "")).To(Equal(http.StatusUnauthorized))
}

var _ = Describe("The introspection API", Serial, func() {
	var ns, reader, stranger string
	var session *gexec.Session
	var leader apiClient

	BeforeEach(func(ctx SpecContext) {
		ns = namespace(ctx, nil)
		reader, stranger = token(ctx, ns, "reader"), token(ctx, ns, "stranger")
		allowIn(ctx, ns, "reader", "workerpools", "swarms", "tasks")
		port := ports.Free()
		// It sees all namespaces, and ignores what specs create by hand.
		session, leader = startOperator(onlyNamespace("nowhere"), "SWARM_LOGGING_LEVEL=debug", "SWARM_API_PORT="+port), newAPIClient(port)
		Eventually(leader.mustGet).WithContext(ctx).WithArguments("/healthz", "").Should(MatchJSON(`{"status": "ok"}`))
	})

	It("[P16/assignments, P16/versions, O23/introspection-guarded] shows pools, their workers, jobs and versions only to users who may see them", func(ctx SpecContext) {
		cameras(ctx, ns)
		pool := `"namespace": "` + ns + `", "name": "cameras", "workload": {"kind": "StatefulSet", "name": "swarm-worker"}, "phase": "Converging",
			"size": 2, "expectedSize": 2, "jobs": 3, "version": 7, "revision": 5, "convergedRevision": 4, "converged": false,
			"reason": "Converging", "message": "waits for swarm-worker-1"`
		first := `{"name": "swarm-worker-0", "jobs": ["stream:cctv0", "stream:cctv1"], "version": 3, "acknowledged": "Acknowledged", "state": "Ready"}`
		second := `{"name": "swarm-worker-1", "jobs": ["stream:gate"], "version": 7, "acknowledged": "Waiting", "state": "Ready"}`
		Eventually(leader.mustGet).WithContext(ctx).WithArguments("/v1/pools?namespace="+ns,
			reader).Should(MatchJSON(`{"items": [{` + pool + `}]}`))
		Eventually(leader.mustGet).WithContext(ctx).WithArguments("/v1/pools/"+ns+"/cameras", reader).Should(MatchJSON(`{` + pool + `,
			"workers": [` + first + `,` + second + `], "unassigned": [], "conditions": [{"type": "Ready", "status": "False", "observedGeneration": 1,
			"lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "Converging", "message": "waits for swarm-worker-1"}]}`))
		Expect(leader.mustGet(ctx, "/v1/pools/"+ns+"/cameras/workers/swarm-worker-1", reader)).To(MatchJSON(second))

		Expect(leader.mustRefuse(ctx, "/v1/pools/"+ns+"/lamps", reader)).To(And(HavePrefix("404 "),
			ContainSubstring(`workerpools.swarm.io "lamps" not found`)))
		Expect(leader.mustRefuse(ctx, "/v1/pools/"+ns+"/cameras/workers/swarm-worker-9", reader)).To(And(HavePrefix("404 "),
			ContainSubstring(`worker "swarm-worker-9" not found`)))
		Expect(leader.mustRefuse(ctx, "/v1/pools?namespace="+ns, "")).To(HavePrefix("401 "))
		Expect(leader.mustRefuse(ctx, "/v1/pools?namespace="+ns, "no-token-at-all")).To(HavePrefix("401 "))
		Expect(leader.mustRefuse(ctx, "/v1/pools/"+ns+"/cameras", stranger)).To(And(HavePrefix("403 "), ContainSubstring(
			`workerpools.swarm.io "cameras" is forbidden: User "system:serviceaccount:%s:stranger" cannot get resource "workerpools" in API group "swarm.io" in the namespace "%s"`, ns, ns)))
		Expect(leader.mustRefuse(ctx, "/v1/pools", reader)).To(And(HavePrefix("403 "),
			ContainSubstring(`cannot list resource "workerpools" in API group "swarm.io" at the cluster scope`)))

		allow(ctx, "swarm-spec", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "stranger"},
			rbacv1.PolicyRule{APIGroups: []string{"swarm.io"}, Resources: []string{"workerpools"}, Verbs: []string{"list"}})
		Eventually(leader.mustGet).WithContext(ctx).WithArguments("/v1/pools",
			stranger).Should(ContainSubstring(`"namespace":"` + ns + `","name":"cameras"`))
		Expect(session.Err.Contents()).NotTo(Or(ContainSubstring(reader), ContainSubstring("/v1/pools")), "requests and tokens are not logged")
	})

	It("shows swarms and tasks", func(ctx SpecContext) {
		sample(ctx, ns)
		for _, name := range []string{"b", "a", "c"} {
			task := &v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
			task.Spec.SwarmRef.Name = "research"
			Expect(api.Create(ctx, task)).To(Succeed())
		}
		Eventually(leader.mustGet).WithContext(ctx).WithArguments("/v1/swarms?namespace="+ns,
			reader).Should(MatchJSON(`{"items": [{"namespace": "` + ns + `", "name": "research",
			"phase": "", "replicas": 0, "activeAgents": 0, "tasks": {"pending": 0, "running": 0, "completed": 0, "failed": 0}, "ready": false, "reason": ""}]}`))
		path, item := "/v1/tasks?swarm=research&limit=2&namespace="+ns, func(name string) string {
			return `{"namespace": "` + ns + `", "name": "` + name +
				`", "swarm": "research", "phase": "", "progress": 0, "priority": "medium", "attempt": 0, "reason": "", "agents": []}`
		}
		Eventually(leader.mustGet).WithContext(ctx).WithArguments(path,
			reader).Should(MatchJSON(`{"items": [` + item("a") + `,` + item("b") + `], "continue": "` + ns + `/b"}`))
		Expect(leader.mustGet(ctx, path+"&continue="+ns+"/b", reader)).To(MatchJSON(`{"items": [` + item("c") + `]}`))
	})

	It("answers on a standby as well", func(ctx SpecContext) {
		cameras(ctx, ns)
		Eventually(session.Err).Should(gbytes.Say("Successfully acquired lease"))
		port := ports.Free()
		startOperator(onlyNamespace("nowhere"), "SWARM_API_PORT="+port, "SWARM_HEALTH_PORT="+ports.Free(), "SWARM_LINK_PORT="+ports.Free())
		Eventually(newAPIClient(port).mustGet).WithContext(ctx).WithArguments("/v1/pools/"+ns+"/cameras/workers/swarm-worker-0",
			reader).Should(ContainSubstring("stream:cctv0"))
	})
})

// cameras is a pool as its controller leaves it, made by hand.
func cameras(ctx context.Context, ns string) {
	GinkgoHelper()
	pool := &v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "cameras"}}
	pool.Spec.Workers.Name = "swarm-worker"
	Expect(api.Create(ctx, pool)).To(Succeed())
	waiting := v1alpha1.NotReady(1, v1alpha1.ReasonConverging, "waits for swarm-worker-1")
	waiting.LastTransitionTime = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	pool.Status = v1alpha1.WorkerPoolStatus{
		Phase: v1alpha1.PoolConverging, Size: 2, ExpectedSize: 2, Jobs: 3, Version: 7, Revision: 5, ConvergedRevision: 4,
		Workers: []v1alpha1.WorkerStatus{
			{Name: "swarm-worker-0", Jobs: 2, Acknowledged: v1alpha1.AckReceived, State: v1alpha1.WorkerReady},
			{Name: "swarm-worker-1", Jobs: 1, Acknowledged: v1alpha1.AckWaiting, State: v1alpha1.WorkerReady},
		},
		Conditions: []metav1.Condition{waiting},
	}
	Expect(api.Status().Update(ctx, pool)).To(Succeed())
	Expect(api.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "swarm-worker-config", Labels: map[string]string{v1alpha1.LabelPool: "cameras"}},
		Data: map[string]string{"config.yml": `version: 7
workloads:
  swarm-worker-0:
    jobs:
      - stream:cctv0
      - stream:cctv1
    version: 3
  swarm-worker-1:
    jobs:
      - stream:gate
    version: 7
`},
	})).To(Succeed())
}

// allowIn lets a service account get and list kinds of ours in its own namespace.
func allowIn(ctx context.Context, ns, account string, kinds ...string) {
	GinkgoHelper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"swarm.io"}, Resources: kinds, Verbs: []string{"get", "list"}}},
	}
	Expect(api.Create(ctx, role)).To(Succeed())
	Expect(api.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: account}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
	})).To(Succeed())
}
