package hostile

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/agent"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/fakeagents"
	"github.com/swarm-io/swarm-operator/internal/testkit/rawlink"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// intruder is the name of every hostile swarm, and so part of the names of its agents. Whatever hostile programs may choose contains it,
// too.
const intruder = "intruder"

// An environment is an operator, honest swarms, and a hostile tenant.
type environment struct {
	leader  *leader
	honest  []*v1alpha1.Swarm // in namespaces of their own, and the last one beside a hostile swarm
	pools   []string          // namespaces with a pool; the first one is honest
	fence   string            // of the honest pool
	program *agentHandler
	agents  *fakeagents.AgentSet

	tenant          client.Client   // a user with every right in the hostile namespace
	user            string          // that user
	tenantNamespace string          // that namespace
	namespaces      []string        // every namespace with swarms of the scene
	tenantSwarm     *v1alpha1.Swarm // the hostile swarm there
	rounds          int             // of attackers so far

	mu        sync.Mutex
	intruders []*intruderPod
}

// newEnvironment starts an operator, and makes two honest swarms, an honest and a hostile one in the same namespace, and the hostile
// namespace.
func newEnvironment(ctx context.Context, settings ...string) *environment {
	GinkgoHelper()
	s := &environment{program: &agentHandler{release: make(chan struct{}), started: map[types.NamespacedName]time.Time{}}}
	s.leader = startLeader(ctx, namespaces(ctx, "hostile-home-")[0], settings...)
	all := namespaces(ctx, "honest-", "honest-", "shared-", "hostile-")
	firstNamespace, secondNamespace, sharedNamespace := all[0], all[1], all[2]
	s.tenantNamespace, s.namespaces = all[3], all
	s.user = "tenant-of-" + s.tenantNamespace
	s.tenant = newTenant(ctx, s.tenantNamespace, s.user)
	s.runAgents(ctx)
	for _, ns := range []string{firstNamespace, secondNamespace, sharedNamespace} {
		s.honest = append(s.honest, newSwarm(ctx, ns, honest, 3))
	}
	s.tenantSwarm = newSwarm(ctx, s.tenantNamespace, intruder, 3)
	newSwarm(ctx, sharedNamespace, intruder, 1)
	s.pools = []string{firstNamespace, s.tenantNamespace}
	for _, ns := range s.pools {
		newPool(ctx, ns)
	}
	var err error
	s.fence, err = fence(ctx, firstNamespace)
	Expect(err).NotTo(HaveOccurred())
	newSpread(ctx, s.tenantNamespace)
	Eventually(s.pods).Should(HaveLen(4), "every hostile pod has a token")
	return s
}

// runAgents runs the agents of all pods in the namespaces of the suite until the specs are over. Agents of hostile swarms say nothing by
// themselves.
func (s *environment) runAgents(ctx context.Context) {
	GinkgoHelper()
	run := func(ctx context.Context, pod *corev1.Pod, config agent.Config) error {
		switch {
		case !slices.Contains(s.namespaces, pod.Namespace): // another suite's, or left behind by one
			<-ctx.Done()
			return nil
		case config.Swarm != intruder:
			return agent.RunWith(ctx, config, s.program)
		}
		s.addIntruder(&intruderPod{Agent: rawlink.Agent{Config: config, SourceAddress: hostileAddress}})
		<-ctx.Done()
		return nil
	}
	log := testcluster.Log(slog.LevelWarn)
	var err error
	s.agents, err = fakeagents.Start(context.WithoutCancel(ctx), cluster.Config, fakeagents.Options{Runner: run, Log: log})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(s.agents.Stop)
	DeferCleanup(s.releaseHeldTasks)
}

// releaseHeldTasks lets the attempts end that hold.
func (s *environment) releaseHeldTasks() {
	select {
	case <-s.program.release:
	default:
		close(s.program.release)
	}
}

func (s *environment) addIntruder(pod *intruderPod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intruders = append(s.intruders, pod)
}

// pods are the hostile ones.
func (s *environment) pods() []*intruderPod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.intruders
}

// newTenant returns a client of a user who may do everything in one namespace and nothing elsewhere.
func newTenant(ctx context.Context, ns, user string) client.Client {
	GinkgoHelper()
	every := []string{"*"}
	Expect(api.Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "everything"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: every, Resources: every, Verbs: every}},
	})).To(Succeed())
	Expect(api.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "everything"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "everything"},
	})).To(Succeed())
	made, err := clientOf(user)
	Expect(err).NotTo(HaveOccurred())
	// The authorizer sees a new binding a little later.
	Eventually(made.List).WithContext(ctx).WithArguments(&v1alpha1.TaskList{}, client.InNamespace(ns)).Should(Succeed())
	return made
}

// clientOf returns a client of a user.
func clientOf(user string) (client.Client, error) {
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate.UserName = user
	return client.New(config, client.Options{Scheme: api.Scheme()})
}

// newPool creates a pool of one worker, and waits until its ConfigMap is published.
func newPool(ctx context.Context, ns string) {
	GinkgoHelper()
	labels := map[string]string{"app": "worker"}
	Expect(api.Create(ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "worker"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), ServiceName: "worker", Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podTemplate(labels),
	}})).To(Succeed())
	Expect(api.Create(ctx, &v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pool"}, Spec: v1alpha1.WorkerPoolSpec{
		Workers: v1alpha1.WorkloadReference{Kind: v1alpha1.WorkloadStatefulSet, Name: "worker"},
		Jobs:    []v1alpha1.Job{{Name: "a"}, {Name: "b"}}, Config: v1alpha1.PoolConfig{Name: poolConfig},
	}})).To(Succeed())
	Eventually(fence).WithContext(ctx).WithArguments(ns).ShouldNot(BeEmpty())
}

const poolConfig = "lists"

// fence returns the number that leaders raise in the ConfigMap of a pool.
func fence(ctx context.Context, ns string) (string, error) {
	config := &corev1.ConfigMap{}
	err := api.Get(ctx, client.ObjectKey{Namespace: ns, Name: poolConfig}, config)
	return config.Annotations[v1alpha1.AnnotationFence], client.IgnoreNotFound(err)
}

// newSpread creates a workload without pods that is spread.
func newSpread(ctx context.Context, ns string) {
	GinkgoHelper()
	labels := map[string]string{"app": "web"}
	Expect(api.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web", Annotations: map[string]string{
			v1alpha1.SpreadMode.Key(v1alpha1.Prefix): v1alpha1.SpreadEnabled, v1alpha1.SpreadSpotPercentage.Key(v1alpha1.Prefix): "50",
		}},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podTemplate(labels)},
	})).To(Succeed())
}

func podTemplate(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "any", Image: "example.test/any:1"}}},
	}
}
