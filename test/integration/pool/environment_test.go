package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/testkit/fakeworkers"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

const (
	workload = "w"
	config   = "w-config"
)

// An environment is a workload and its pool in a namespace of their own.
type environment struct {
	namespace string
	pool      *v1alpha1.WorkerPool
}

// spec is a change of a pool's spec.
type spec func(*v1alpha1.WorkerPoolSpec)

// newEnvironment is a namespace without anything.
func newEnvironment(ctx context.Context) *environment {
	GinkgoHelper()
	s := &environment{namespace: namespace(ctx)}
	DeferCleanup(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			GinkgoWriter.Printf("what the workers did:\n%s\n", workers.Journal(s.namespace))
		}
		Expect(workers.Journal(s.namespace).Verify()).To(Succeed(), "over the whole spec no worker had a job of another")
		Expect(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})).To(Succeed())
	})
	return s
}

// newStatefulSetPool returns a StatefulSet with this many workers, whose pool has distributed the jobs.
func newStatefulSetPool(ctx context.Context, size int32, jobs []v1alpha1.Job, changes ...spec) *environment {
	GinkgoHelper()
	s := newEnvironment(ctx)
	s.statefulSet(ctx, size)
	s.create(ctx, jobs, changes...)
	s.awaitSettled(ctx)
	return s
}

// statefulSet creates workers, and returns when all are Ready: a pool waits only a few seconds for starting workers, and redistributes its
// jobs for each later one.
func (s *environment) statefulSet(ctx context.Context, size int32) {
	GinkgoHelper()
	labels := map[string]string{"app": workload}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: workload},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &size, PodManagementPolicy: appsv1.ParallelPodManagement, ServiceName: workload,
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: fakeworkers.Template(labels, config),
		},
	}
	Expect(api.Create(ctx, set)).To(Succeed())
	Eventually(func() (int32, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(set), set)
		return set.Status.ReadyReplicas, err
	}).Should(Equal(size))
}

// create creates the pool. It polls its workers, without a deadline.
func (s *environment) create(ctx context.Context, jobs []v1alpha1.Job, changes ...spec) {
	GinkgoHelper()
	s.pool = poolNamed(s.namespace, "streams", jobs, changes...)
	Expect(api.Create(ctx, s.pool)).To(Succeed())
}

func poolNamed(ns, name string, jobs []v1alpha1.Job, changes ...spec) *v1alpha1.WorkerPool {
	pool := &v1alpha1.WorkerPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: v1alpha1.WorkerPoolSpec{
			Workers: v1alpha1.WorkloadReference{Kind: v1alpha1.WorkloadStatefulSet, Name: workload}, Jobs: jobs,
			Refresh: v1alpha1.PoolRefresh{Acknowledge: &v1alpha1.PoolAcknowledge{HTTPGet: v1alpha1.AcknowledgeHTTPGet{Port: fakeworkers.Port}},
				DeadlineSeconds: 600},
		},
	}
	for _, change := range changes {
		change(&pool.Spec)
	}
	return pool
}

// jobsNamed are jobs by their names, which are separated by spaces.
func jobsNamed(names string) []v1alpha1.Job {
	var jobs []v1alpha1.Job
	for name := range strings.FieldsSeq(names) {
		jobs = append(jobs, v1alpha1.Job{Name: name})
	}
	return jobs
}

// from adds jobs from a ConfigMap.
func from(name string) spec {
	return func(s *v1alpha1.WorkerPoolSpec) {
		s.JobsFrom = append(s.JobsFrom, v1alpha1.JobSource{ConfigMapKeyRef: v1alpha1.ConfigMapKey{Name: name, Key: "jobs"}})
	}
}

// change retries its write on conflicts.
func change[T client.Object](ctx context.Context, object T, edit func(T)) {
	GinkgoHelper()
	testcluster.Update(ctx, api, object, edit)
}

func (s *environment) change(ctx context.Context, edit spec) {
	GinkgoHelper()
	change(ctx, s.pool, func(pool *v1alpha1.WorkerPool) { edit(&pool.Spec) })
}

// scale changes the size of the workload directly, as a user would.
func (s *environment) scale(ctx context.Context, size int32) {
	GinkgoHelper()
	change(ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: workload}},
		func(set *appsv1.StatefulSet) { set.Spec.Replicas = &size })
}

// source creates or updates a ConfigMap with jobs.
func (s *environment) source(ctx context.Context, name, text string) {
	GinkgoHelper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: map[string]string{"jobs": text}}
	if err := api.Create(ctx, object); err != nil {
		Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
		Expect(api.Update(ctx, object)).To(Succeed())
	}
}

// config is the ConfigMap that workers mount.
func (s *environment) config(ctx context.Context) *corev1.ConfigMap {
	GinkgoHelper()
	object := &corev1.ConfigMap{}
	Expect(api.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: config}, object)).To(Succeed())
	return object
}

// text is what workers mount.
func (s *environment) text(ctx context.Context) string {
	GinkgoHelper()
	return s.config(ctx).Data["config.yml"]
}

func (s *environment) file(ctx context.Context) (codec.File, error) {
	object := &corev1.ConfigMap{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: config}, object); err != nil {
		return codec.File{}, err
	}
	return codec.ParseFile(object.Data["config.yml"])
}

// lists are the published lists, by worker.
func (s *environment) lists(ctx context.Context) map[string][]string {
	GinkgoHelper()
	file, err := s.file(ctx)
	Expect(err).NotTo(HaveOccurred())
	return jobsByWorker(file)
}

func jobsByWorker(file codec.File) map[string][]string {
	lists := map[string][]string{}
	for _, entry := range file.Workers {
		if len(entry.Jobs) > 0 {
			lists[entry.Worker] = slices.Sorted(slices.Values(entry.Jobs))
		}
	}
	return lists
}

// version is that of the published file.
func (s *environment) version(ctx context.Context) int64 {
	GinkgoHelper()
	file, err := s.file(ctx)
	Expect(err).NotTo(HaveOccurred())
	return file.Version
}

// awaitSettled waits until the pool has observed its spec and converged, and the workers run what is published.
func (s *environment) awaitSettled(ctx context.Context) {
	GinkgoHelper()
	Eventually(s.unsettledReason).WithContext(ctx).Should(BeEmpty())
}

// unsettledReason returns why the pool is not in its desired state.
func (s *environment) unsettledReason(ctx context.Context) (string, error) {
	if err := api.Get(ctx, client.ObjectKeyFromObject(s.pool), s.pool); err != nil {
		return "", err
	}
	file, err := s.file(ctx)
	if err != nil {
		return "", err
	}
	status, running := s.pool.Status, workers.Journal(s.namespace).Running()
	switch {
	case status.ObservedGeneration != s.pool.Generation:
		return "the spec is not answered", nil
	case !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionConverged):
		return s.conditionText(ctx, v1alpha1.ConditionConverged), nil
	case status.Version != file.Version:
		return fmt.Sprintf("status has version %d, the file %d", status.Version, file.Version), nil
	case fmt.Sprint(running) != fmt.Sprint(jobsByWorker(file)):
		return fmt.Sprintf("%v runs, and %v is published", running, jobsByWorker(file)), nil
	}
	return "", nil
}

// conditionText is a condition in one line.
func (s *environment) conditionText(ctx context.Context, condition string) string {
	return conditionTextOf(ctx, s.pool, condition)
}

func conditionTextOf(ctx context.Context, pool *v1alpha1.WorkerPool, condition string) string {
	if err := api.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
		return err.Error()
	}
	if pool.Status.ObservedGeneration != pool.Generation {
		return "the spec is not answered"
	}
	found := meta.FindStatusCondition(pool.Status.Conditions, condition)
	if found == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s: %s", found.Status, found.Reason, found.Message)
}

// awaitDegraded waits until the pool reports what is wrong, as a condition and as an event.
func (s *environment) awaitDegraded(ctx context.Context, reason v1alpha1.Reason, message string) {
	GinkgoHelper()
	Eventually(s.conditionText).WithContext(ctx).WithArguments(v1alpha1.ConditionDegraded).Should(And(HavePrefix("True "+string(reason)+": "),
		ContainSubstring(message)))
	Expect(s.conditionText(ctx, v1alpha1.ConditionReady)).To(HavePrefix("False " + string(reason) + ": "))
	Eventually(s.events).WithContext(ctx).Should(ContainElement(HavePrefix("Warning " + string(reason) + ": ")))
}

// awaitNotDegraded waits until nothing is wrong any more.
func (s *environment) awaitNotDegraded(ctx context.Context) {
	GinkgoHelper()
	Eventually(s.conditionText).WithContext(ctx).WithArguments(v1alpha1.ConditionDegraded).Should(HavePrefix("False"))
}

// waiting waits until the pool reports that it waits for the worker.
func (s *environment) waiting(ctx context.Context, worker string) {
	GinkgoHelper()
	Eventually(s.conditionText).WithContext(ctx).WithArguments(v1alpha1.ConditionConverged).
		Should(And(HavePrefix("False Converging: waiting for "), ContainSubstring(worker+": ")))
}

// events returns the events about the pool.
func (s *environment) events(ctx context.Context) ([]string, error) {
	list := &corev1.EventList{}
	err := api.List(ctx, list, client.InNamespace(s.namespace))
	var messages []string
	for _, event := range list.Items {
		if event.InvolvedObject.Name == s.pool.Name {
			messages = append(messages, fmt.Sprintf("%s %s: %s", event.Type, event.Reason, event.Message))
		}
	}
	return messages, err
}

func (s *environment) pod(ctx context.Context, name string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Expect(api.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, pod)).To(Succeed())
	return pod
}

// uid returns the UID of a pod, "" if it does not exist.
func (s *environment) uid(ctx context.Context, name string) (string, error) {
	pod := &corev1.Pod{}
	err := client.IgnoreNotFound(api.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, pod))
	return string(pod.UID), err
}

// worker is that of a pod that runs.
func (s *environment) worker(name string) *fakeworkers.Worker {
	GinkgoHelper()
	found := workers.Worker(s.namespace, name)
	Expect(found).NotTo(BeNil(), "pod %s has a worker", name)
	return found
}

// readiness is the kubelet's report about pods, of all at the same moment.
func (s *environment) readiness(ctx context.Context, status corev1.ConditionStatus, pods ...string) {
	GinkgoHelper()
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q,"lastTransitionTime":%q}]}}`, status,
		time.Now().UTC().Format(time.RFC3339))
	for _, pod := range pods {
		object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: pod}}
		Expect(api.Status().Patch(ctx, object, client.RawPatch(types.StrategicMergePatchType, patch))).To(Succeed())
	}
}
