package policies

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/agent"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/audit"
	"github.com/swarm-io/swarm-operator/internal/testkit/fakeagents"
	"github.com/swarm-io/swarm-operator/internal/testkit/fakeworkers"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// The specs share an operator that runs as its own service account. After each of them nothing that it wrote was refused.
var _ = Describe("The operator does its work under both policies", Ordered, ContinueOnFailure, func() {
	var (
		ns    string
		began time.Time
	)

	BeforeAll(func(ctx SpecContext) {
		began = time.Now()
		startOperator(ctx)
	})

	BeforeEach(func(ctx SpecContext) { ns = namespace(ctx) })

	AfterEach(func() { Expect(refusedRequests(began)).To(BeEmpty()) })

	It("a Swarm comes up, completes a task, shrinks and goes", func(ctx SpecContext) {
		runAgents(ctx, ns)
		createAsUser(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "input"}, Data: map[string]string{"json": "{}"}})
		swarm := swarmIn(ns)
		swarm.Spec.Replicas = new(int32(2))
		createAsUser(ctx, swarm)
		testcluster.MustKubectl(ctx, "wait", "--namespace", ns, "swarm/ants", "--for=condition=Ready", "--timeout=60s")
		task := createAsUser(ctx, taskIn(ns))
		Eventually(func(ctx context.Context) (v1alpha1.TaskPhase, error) {
			err := api.Get(ctx, client.ObjectKeyFromObject(task), task)
			return task.Status.Phase, err
		}).WithContext(ctx).Should(Equal(v1alpha1.TaskCompleted))
		Expect(api.Patch(ctx, swarm, merge(`{"spec": {"replicas": 1}}`))).To(Succeed())
		Eventually(func(ctx context.Context) ([]v1alpha1.Agent, error) {
			list := &v1alpha1.AgentList{}
			err := api.List(ctx, list, client.InNamespace(ns))
			return list.Items, err
		}).WithContext(ctx).Should(HaveLen(1))
		Expect(api.Delete(ctx, swarm)).To(Succeed())
		for _, object := range []client.Object{swarm, task} {
			Eventually(isDeleted).WithContext(ctx).WithArguments(object).Should(BeTrue())
		}
	})

	It("a pool takes over a ConfigMap, shares out its jobs, scales, and replaces workers whose list changes", func(ctx SpecContext) {
		runWorkers(ctx, ns)
		createAsUser(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "w-config"},
			Data: map[string]string{"mine": "1", "config.yml": "old"}})
		set := statefulSetIn(ns)
		set.Spec.Template = fakeworkers.Template(map[string]string{"app": "w"}, "w-config")
		createAsUser(ctx, set)
		pool := poolIn(ns, 0)
		pool.Spec.Jobs = []v1alpha1.Job{{Name: "a"}, {Name: "b"}, {Name: "c"}}
		pool.Spec.Config.Adopt = v1alpha1.AdoptAlways
		pool.Spec.Refresh = v1alpha1.PoolRefresh{Policy: v1alpha1.RefreshRestart, Acknowledge: acknowledgeSpec()}
		createAsUser(ctx, pool)
		Eventually(isConverged).WithContext(ctx).WithArguments(pool, 2).Should(BeTrue())
		first, err := podUIDs(ctx, ns)
		Expect(err).NotTo(HaveOccurred())
		Expect(api.Patch(ctx, pool, merge(`{"spec": {"jobs": [{"name": "a"}, {"name": "d"}, {"name": "e"}, {"name": "f"}]}}`))).To(Succeed())
		Eventually(podUIDs).WithContext(ctx).WithArguments(ns).ShouldNot(ContainElements(first))
		config := &corev1.ConfigMap{}
		Expect(api.Get(ctx, client.ObjectKey{Namespace: ns, Name: "w-config"}, config)).To(Succeed())
		Expect(config.Data).To(HaveKeyWithValue("mine", "1"))
	})

	It("a pool of a Deployment gives its workers slots", func(ctx SpecContext) {
		runWorkers(ctx, ns)
		workers := deploymentIn(ns)
		workers.Name, workers.Spec.Replicas, workers.Spec.Template = "w", new(int32(2)), fakeworkers.Template(map[string]string{"app": "w"},
			"w-config")
		createAsUser(ctx, workers)
		pool := poolIn(ns, 0)
		pool.Spec.Workers.Kind, pool.Spec.Jobs = v1alpha1.WorkloadDeployment, []v1alpha1.Job{{Name: "a"}, {Name: "b"}}
		pool.Spec.Refresh.Acknowledge = acknowledgeSpec()
		createAsUser(ctx, pool)
		Eventually(isConverged).WithContext(ctx).WithArguments(pool, 2).Should(BeTrue())
	})

	It("a labelled StatefulSet gets its pool, and loses it with the label", func(ctx SpecContext) {
		set := statefulSetIn(ns)
		set.Labels = map[string]string{v1alpha1.LabelPool: "labelled"}
		createAsUser(ctx, set)
		pool := &v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "labelled"}}
		Eventually(func(ctx context.Context) error { return api.Get(ctx, client.ObjectKeyFromObject(pool), pool) }).WithContext(ctx).
			Should(Succeed())
		Expect(api.Patch(ctx, set, merge(`{"metadata": {"labels": {"swarm.io/pool": null}}}`))).To(Succeed())
		Eventually(isDeleted).WithContext(ctx).WithArguments(pool).Should(BeTrue())
	})

	It("a spread Deployment is annotated, and its pods are asked about", func(ctx SpecContext) {
		workload := deploymentIn(ns)
		workload.Annotations = map[string]string{"swarm.io/spread": "enabled", "swarm.io/spot-percentage": "50"}
		createAsUser(ctx, workload)
		Eventually(func(g Gomega) {
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(workload), workload)).To(Succeed())
			g.Expect(workload.Annotations).To(HaveKey("swarm.io/spread-status"))
			g.Expect(testcluster.MustKubectl(ctx, "get", "mutatingwebhookconfigurations", "swarm-operator", "--output=jsonpath={.webhooks[1]}")).
				To(And(ContainSubstring("caBundle"), ContainSubstring(ns)))
		}).WithContext(ctx).Should(Succeed())
	})
})

// startOperator runs the operator with the token of its service account until the end of the specs, and returns when it is ready.
func startOperator(ctx context.Context) {
	GinkgoHelper()
	link, health := ports.Free(), ports.Free()
	session := testcluster.StartOperator(operatorNamespace, "KUBECONFIG="+kubeconfig(ctx), testcluster.OnlyLabelled(suiteLabel),
		"SWARM_WEBHOOK_PORT="+webhookPort, "SWARM_LINK_PORT="+link, "SWARM_LINK_ADDRESS=127.0.0.1:"+link, "SWARM_HEALTH_PORT="+health,
		"SWARM_METRICS_ENABLED=false",
		"SWARM_CONTROLLER_LEADER_ELECTION_LEASE_DURATION=2m", "SWARM_LINK_AGENT_LEASE=5m") // on a machine that is busy with other suites
	DeferCleanup(func() { session.Terminate().Wait(20 * time.Second) })
	Eventually(func() (int, error) {
		response, err := http.Get("http://127.0.0.1:" + health + "/readyz")
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}).WithContext(ctx).Should(Equal(http.StatusOK))
}

// kubeconfig is that of the cluster, for the service account of the operator.
func kubeconfig(ctx context.Context) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "swarm-operator"}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600))}}
	Expect(api.SubResource("token").Create(ctx, account, request)).To(Succeed())
	config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	Expect(err).NotTo(HaveOccurred())
	config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*config, path)).To(Succeed())
	return path
}

// refusedRequests are the requests of the operator that were refused since then, by RBAC or by a policy. What it writes into the namespace
// of a former spec, which is being deleted, may be refused.
func refusedRequests(since time.Time) []audit.Request {
	GinkgoHelper()
	requests, err := audit.Requests("swarm-operator/")
	if err != nil {
		Skip(err.Error())
	}
	var refused []audit.Request
	attempts := 0
	for _, entry := range requests {
		if entry.Received.Before(since) {
			continue
		}
		attempts++
		if entry.Response.Code == http.StatusForbidden && !strings.Contains(entry.Response.Message, "because it is being terminated") {
			refused = append(refused, entry)
		}
	}
	Expect(attempts).To(BeNumerically(">", 0), "the audit log has nothing of the operator")
	return refused
}

// runAgents runs an agent for each pod of a swarm. They complete every task.
func runAgents(ctx context.Context, ns string) {
	GinkgoHelper()
	done := agent.HandlerFunc(func(context.Context, agent.Task, agent.Report) (any, error) { return nil, nil })
	agents, err := fakeagents.Start(context.WithoutCancel(ctx), cluster.Config,
		fakeagents.Options{Namespace: ns, Handler: done, Log: logger()})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(agents.Stop)
}

// runWorkers runs a worker for each pod of a pool. The pods go before their workers do.
func runWorkers(ctx context.Context, ns string) {
	GinkgoHelper()
	workers, err := fakeworkers.Start(context.WithoutCancel(ctx), cluster.Config, logger())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))).To(Succeed())
		Eventually(podUIDs).WithContext(ctx).WithArguments(ns).Should(BeEmpty())
		workers.Stop()
	})
}

func logger() *slog.Logger {
	return testcluster.Log(slog.LevelError)
}

// isConverged reports whether a pool of that size has handed over all jobs.
func isConverged(ctx context.Context, pool *v1alpha1.WorkerPool, size int) (bool, error) {
	err := api.Get(ctx, client.ObjectKeyFromObject(pool), pool)
	return int(pool.Status.Size) == size && meta.IsStatusConditionTrue(pool.Status.Conditions, v1alpha1.ConditionConverged), err
}

// acknowledgeSpec is how the workers of this process are asked what they have loaded.
func acknowledgeSpec() *v1alpha1.PoolAcknowledge {
	return &v1alpha1.PoolAcknowledge{HTTPGet: v1alpha1.AcknowledgeHTTPGet{Port: fakeworkers.Port}}
}

func podUIDs(ctx context.Context, ns string) ([]types.UID, error) {
	list := &corev1.PodList{}
	err := api.List(ctx, list, client.InNamespace(ns), client.HasLabels{fakeworkers.Label})
	var all []types.UID
	for _, pod := range list.Items {
		all = append(all, pod.UID)
	}
	return all, err
}

// isDeleted reports whether an object is no longer there.
func isDeleted(ctx context.Context, object client.Object) bool {
	return apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(object), object))
}
