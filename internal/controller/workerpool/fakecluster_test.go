package workerpool

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// A fakeCluster is a pool, its pods, and the API server, in memory.
type fakeCluster struct {
	pool             *v1alpha1.WorkerPool
	server           *fakeAPIServer
	pods             map[string]*fakeWorker
	podlessWorkers   []*fakeWorker             // processes whose pod is gone
	leases           map[string]*fakeLease     // of workers, by name; nil if workers have none
	setIncarnation   int                       // how often the StatefulSet was created
	admissionEnabled bool                      // admission names the version of its list on every new pod
	pendingCreates   map[string]*pendingCreate // pods that are admitted and not stored yet, by name
	kubeletFiles     map[string]string         // the files that new pods start with, by ConfigMap; nil for the current ones
	replicas         int
	createdPods      int
	now              time.Time
	log              []string
}

// A pendingCreate is a pod between admission and storage.
type pendingCreate struct {
	pod      *corev1.Pod
	admitted time.Time
}

// A fakeWorker is a pod with its worker, and with the file that its kubelet has.
type fakeWorker struct {
	pod         *corev1.Pod
	mountedFile string
	floor       int64
	runningJobs map[string]bool
	response    plan.AckResponse
	silent      bool // it reads nothing
	partitioned bool // it cannot renew its Lease
}

// fakeLease is the Lease of a worker.
type fakeLease struct {
	holder          types.UID
	resourceVersion int
	renewed         time.Time
}

// createTimeLimit is the limit of the API server and etcd for a create.
const createTimeLimit = 41 * time.Second

// leaseDuration is the duration of Leases.
const leaseDuration = 6 * time.Second

func newFakeCluster(jobs, replicas int) *fakeCluster {
	c := &fakeCluster{server: newAPIServer(), pods: map[string]*fakeWorker{}, pendingCreates: map[string]*pendingCreate{}, replicas: replicas,
		now: time.Unix(1_000_000, 0)}
	c.pool = &v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Name: "pool", Namespace: "sim", UID: "pool", Generation: 1}}
	c.pool.Spec = v1alpha1.WorkerPoolSpec{
		Workers: v1alpha1.WorkloadReference{Kind: v1alpha1.WorkloadStatefulSet, Name: "w"}, Handoff: v1alpha1.HandoffExclusive,
		Config: v1alpha1.PoolConfig{Key: "config.yml", Layout: v1alpha1.LayoutShared}, RevisionHistoryLimit: 3,
		Failover: v1alpha1.PoolFailover{AfterSeconds: 30, MaxPercent: 50},
		Refresh: v1alpha1.PoolRefresh{
			Policy: v1alpha1.RefreshAuto, DeadlineSeconds: 10, MaxUnavailable: 1,
			Acknowledge: &v1alpha1.PoolAcknowledge{HTTPGet: v1alpha1.AcknowledgeHTTPGet{Port: 9090}},
		},
	}
	c.setJobs(jobs)
	return c
}

// setJobs sets the list of jobs.
func (c *fakeCluster) setJobs(jobs int) {
	c.pool.Spec.Jobs = nil
	for n := range jobs {
		c.pool.Spec.Jobs = append(c.pool.Spec.Jobs, v1alpha1.Job{Name: fmt.Sprintf("j%02d", n), Weight: 1})
	}
	c.pool.Generation++
}

func (c *fakeCluster) logf(format string, arguments ...any) {
	c.log = append(c.log, fmt.Sprintf(format, arguments...))
}

// createMissingPods creates the missing pods of the workload.
func (c *fakeCluster) createMissingPods() {
	if c.usesSlots() {
		for range c.replicas - len(c.activePods()) {
			c.createPod(fmt.Sprintf("w-abc-%d", c.createdPods+1))
		}
		return
	}
	for n := range c.replicas {
		if name := fmt.Sprintf("w-%d", n); c.pods[name] == nil {
			c.createPod(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.pendingCreates)) {
		c.finishCreate(name)
	}
}

// createPod creates a pod, unless that has begun already.
func (c *fakeCluster) createPod(name string) {
	if c.pendingCreates[name] == nil {
		c.beginCreate(name)
	}
	c.finishCreate(name)
}

// beginCreate admits a pod that is stored later, or never.
func (c *fakeCluster) beginCreate(name string) {
	c.createdPods++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "sim", UID: types.UID(fmt.Sprintf("u%d", c.createdPods)), CreationTimestamp: metav1.NewTime(c.now),
		OwnerReferences: c.ownerReferences(),
	}}
	if c.usesSlots() {
		pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "abc"}
	}
	pod.Status.PodIP = "127.0.0.1"
	c.applyAdmission(pod)
	c.pendingCreates[name] = &pendingCreate{pod, c.now}
	c.logf("admit %s as %s", name, pod.UID)
}

// finishCreate ends a create. The pod starts with the current file, or with the one that its kubelet still has.
func (c *fakeCluster) finishCreate(name string) {
	pod := c.pendingCreates[name].pod
	delete(c.pendingCreates, name)
	worker := &fakeWorker{pod: pod, runningJobs: map[string]bool{}}
	c.pods[name] = worker
	worker.setReady(false, c.now)
	c.syncFile(worker)
	if c.kubeletFiles != nil {
		worker.mountedFile = c.kubeletFiles[c.configMapNameOf(name)]
	}
	c.logf("raise %s as %s", name, pod.UID)
}

// applyAdmission is the admission of a new pod.
func (c *fakeCluster) applyAdmission(pod *corev1.Pod) {
	config := c.server.configs[c.configMapNameOf(pod.Name)]
	if config == nil || !c.admissionEnabled || c.usesSlots() {
		return
	}
	file, err := codec.ParseFile(config.Data["config.yml"])
	if floor := file.Floor(pod.Name); err == nil && floor > 0 {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationConfigVersion, strconv.FormatInt(floor, 10))
	}
}

// freezeKubelets makes kubelets give new pods the current files, whatever is published later.
func (c *fakeCluster) freezeKubelets() {
	c.kubeletFiles = map[string]string{}
	for name, config := range c.server.configs {
		c.kubeletFiles[name] = config.Data["config.yml"]
	}
}

// configMapNameOf returns the name of the ConfigMap that a worker reads.
func (c *fakeCluster) configMapNameOf(worker string) string {
	if c.pool.Spec.Config.Layout == v1alpha1.LayoutPerWorker {
		return c.pool.ConfigNameOf(worker)
	}
	return c.pool.ConfigName()
}

// publishedFiles returns the files of all workers.
func (c *fakeCluster) publishedFiles() string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.server.configs)) {
		text.WriteString(c.server.configs[name].Data["config.yml"])
	}
	return text.String()
}

// completeLateCreate makes the API server carry out a Create of a process that has died since.
func (c *fakeCluster) completeLateCreate(late int) {
	object := c.server.lateCreates[late]
	c.server.lateCreates = slices.Delete(c.server.lateCreates, late, late+1)
	c.logf("late Create of %T %s: %v", object, object.GetName(), c.server.create(object))
}

// deleteConfigMap deletes a ConfigMap.
func (c *fakeCluster) deleteConfigMap(name string) {
	delete(c.server.configs, name)
	c.logf("ConfigMap %s is deleted", name)
}

// terminateExcessPods stops the pods that the workload does not want.
func (c *fakeCluster) terminateExcessPods() {
	if c.usesSlots() {
		active := c.activePods()
		cost := func(pod *corev1.Pod) string { return pod.Annotations[corev1.PodDeletionCost] }
		slices.SortStableFunc(active, func(a, b *corev1.Pod) int { return strings.Compare(cost(b), cost(a)) })
		for n := range max(0, len(active)-c.replicas) {
			c.terminatePod(active[n].Name)
		}
		return
	}
	for _, pod := range c.ownedPods() {
		if ordinal, _ := strconv.Atoi(pod.Name[2:]); ordinal >= c.replicas {
			c.terminatePod(pod.Name)
		}
	}
}

func (c *fakeCluster) terminatePod(name string) {
	if p := c.pods[name]; p != nil && p.pod.DeletionTimestamp == nil {
		p.pod = p.pod.DeepCopy()
		p.pod.DeletionTimestamp = new(metav1.NewTime(c.now))
		c.logf("terminate %s", name)
	}
}

// removeTerminatedPod removes a pod whose processes have ended.
func (c *fakeCluster) removeTerminatedPod(name string) {
	if p := c.pods[name]; p != nil && p.pod.DeletionTimestamp != nil {
		delete(c.pods, name)
		if workerLease := c.leases[name]; workerLease != nil && workerLease.holder == p.pod.UID {
			delete(c.leases, name)
		}
		c.logf("bury %s", name)
	}
}

// removePodKeepProcess removes a pod whose process continues.
func (c *fakeCluster) removePodKeepProcess(name string) {
	p := c.pods[name]
	if p == nil || c.leases == nil || c.leases[name] == nil || c.leases[name].holder != p.pod.UID {
		return // a process without a Lease runs nothing
	}
	delete(c.pods, name)
	c.podlessWorkers = append(c.podlessWorkers, p)
	c.logf("vanish %s as %s", name, p.pod.UID)
}

// advance advances time. Processes that can renew their Lease do; the others have stopped everything when it expires.
func (c *fakeCluster) advance(duration time.Duration) {
	c.now = c.now.Add(duration)
	maps.DeleteFunc(c.pendingCreates, func(_ string, under *pendingCreate) bool { return c.now.Sub(under.admitted) > createTimeLimit })
	for _, p := range slices.Concat(slices.Collect(maps.Values(c.pods)), c.podlessWorkers) {
		if workerLease := c.leases[p.pod.Name]; workerLease != nil && workerLease.holder == p.pod.UID && !p.partitioned {
			workerLease.resourceVersion, workerLease.renewed = workerLease.resourceVersion+1, c.now
		}
	}
	c.podlessWorkers = slices.DeleteFunc(c.podlessWorkers, func(p *fakeWorker) bool {
		return p.partitioned && !c.now.Before(c.leases[p.pod.Name].renewed.Add(leaseDuration))
	})
}

// loadFile is the SDK's handling of a file, once it has its Lease.
func (c *fakeCluster) loadFile(p *fakeWorker) {
	if c.leases != nil {
		workerLease := c.leases[p.pod.Name]
		if workerLease != nil && workerLease.holder != p.pod.UID && c.now.Before(workerLease.renewed.Add(lease.TakeoverDelay(leaseDuration))) {
			return
		}
		if workerLease == nil || workerLease.holder != p.pod.UID {
			c.createdPods++
			c.leases[p.pod.Name] = &fakeLease{p.pod.UID, 1000 * c.createdPods, c.now}
		}
	}
	p.load()
}

// observeLeases records the Leases of workers whose pod is gone, as a leader would.
func (c *fakeCluster) observeLeases(snapshot plan.Snapshot, clocks *plan.Clocks) {
	observed := plan.WorkerMap[plan.LeaseObservation](nil)
	for _, worker := range snapshot.GoneHolders(clocks) {
		obs := plan.LeaseObservation{CheckedAt: c.now}
		if workerLease := c.leases[worker]; workerLease != nil {
			obs = clocks.Leases[worker].Merge(plan.LeaseObservation{
				ResourceVersion: strconv.Itoa(workerLease.resourceVersion), HolderUID: string(workerLease.holder), Duration: leaseDuration,
				ObservedSince: c.now, CheckedAt: c.now,
			})
		}
		observed.Set(worker, obs)
	}
	clocks.Leases = observed
}

// syncFile updates the file and the annotation of a pod.
func (c *fakeCluster) syncFile(p *fakeWorker) {
	if config := c.server.configs[c.configMapNameOf(p.pod.Name)]; config != nil {
		p.mountedFile = config.Data["config.yml"]
	}
	p.floor, _ = strconv.ParseInt(p.pod.Annotations[v1alpha1.AnnotationConfigVersion], 10, 64)
}

// load is the SDK's handling of a file: stop, acknowledge, start.
func (p *fakeWorker) load() {
	file, err := codec.ParseFile(p.mountedFile)
	if err != nil || p.mountedFile == "" || file.Version < p.floor || file.Version < p.response.FileVersion || p.pod.DeletionTimestamp != nil {
		return
	}
	wanted := map[string]bool{}
	response := plan.AckResponse{Worker: p.pod.Name, PodUID: string(p.pod.UID), FileVersion: file.Version}
	for _, entry := range file.Workers {
		if entry.Worker == p.pod.Name {
			response.Version = entry.Version
			for _, job := range entry.Jobs {
				wanted[job] = true
			}
		}
	}
	p.runningJobs, p.response = wanted, response
}

func (p *fakeWorker) setReady(isReady bool, now time.Time) {
	p.pod = p.pod.DeepCopy()
	status := corev1.ConditionFalse
	if isReady {
		status = corev1.ConditionTrue
	}
	p.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(now)}}
}

// requireOneOwner fails if a job runs twice.
func (c *fakeCluster) requireOneOwner(t testingT) {
	t.Helper()
	holder := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		for job := range c.pods[name].runningJobs {
			if other, taken := holder[job]; taken {
				t.Fatalf("job %s runs on %s and on %s:\n%s", job, other, name, c.dump())
			}
			holder[job] = name
		}
	}
	for _, ghost := range c.podlessWorkers {
		for job := range ghost.runningJobs {
			if other, taken := holder[job]; taken {
				t.Fatalf("job %s runs on %s and on %s, whose pod %s is gone:\n%s", job, other, ghost.pod.Name, ghost.pod.UID, c.dump())
			}
			holder[job] = ghost.pod.Name
		}
	}
}

func (c *fakeCluster) dump() string {
	parts := slices.Clone(c.log)
	for _, name := range slices.Sorted(maps.Keys(c.server.configs)) {
		config := c.server.configs[name]
		parts = append(parts, name+":", config.Data["config.yml"]+config.Annotations[v1alpha1.AnnotationLedger])
	}
	return strings.Join(parts, "\n")
}

type testingT interface {
	Helper()
	Fatalf(format string, arguments ...any)
}

func (c *fakeCluster) usesSlots() bool {
	return c.pool.Spec.Workers.Kind == v1alpha1.WorkloadDeployment
}

// asDeployment makes the workload a Deployment.
func (c *fakeCluster) asDeployment() *fakeCluster {
	c.pool.Spec.Workers.Kind = v1alpha1.WorkloadDeployment
	return c
}

// workload returns the current StatefulSet or Deployment.
func (c *fakeCluster) workload() plan.Workload {
	w := plan.Workload{Kind: c.pool.Spec.Workers.Kind, Replicas: c.replicas, Selector: &metav1.LabelSelector{},
		SpecObserved: len(c.pendingCreates) == 0}
	meta := metav1.ObjectMeta{Name: "w", Namespace: "sim", UID: types.UID(fmt.Sprintf("set-%d", c.setIncarnation))}
	w.Object = &appsv1.StatefulSet{ObjectMeta: meta}
	if c.usesSlots() {
		w.Object = &appsv1.Deployment{ObjectMeta: meta}
	}
	return w
}

// ownerReferences returns the reference to the controller of new pods.
func (c *fakeCluster) ownerReferences() []metav1.OwnerReference {
	if c.usesSlots() {
		return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "w-abc", UID: "set", Controller: new(true)}}
	}
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "w", UID: c.workload().Object.GetUID(),
		Controller: new(true)}}
}

// releasePod removes a pod from its workload, as a changed label does. Its process continues.
func (c *fakeCluster) releasePod(name string) {
	if p := c.pods[name]; p != nil {
		p.pod = p.pod.DeepCopy()
		p.pod.OwnerReferences = nil
		c.logf("release %s", name)
	}
}

// orphanPods recreates the StatefulSet after it was deleted without its pods.
func (c *fakeCluster) orphanPods() {
	for _, pod := range c.ownedPods() {
		c.releasePod(pod.Name)
	}
	c.setIncarnation++
}

// adoptPod simulates a StatefulSet that adopts pods with its labels and no owner.
func (c *fakeCluster) adoptPod(name string) {
	if p := c.pods[name]; p != nil && !c.usesSlots() && c.workload().DoesNotOwn(p.pod) {
		p.pod = p.pod.DeepCopy()
		p.pod.OwnerReferences = c.ownerReferences()
		c.logf("adopt %s", name)
	}
}

// A leader is an operator: the reconciler, its memory, and the lag of its caches.
type leader struct {
	*reconciler
	*fakeClient
	state      *localState
	term       int64
	cachedPods []*corev1.Pod // nil if up to date
}

func newLeader(term int64) *leader { return &leader{state: newLocalState("pool"), term: term} }

func (l *leader) Term() int64 { return l.term }

// connect gives a leader its connection to the API server.
func (l *leader) connect(c *fakeCluster) {
	if l.fakeClient == nil {
		l.fakeClient = &fakeClient{server: c.server, remainingWrites: unlimitedWrites}
		l.reconciler = &reconciler{
			client: l.fakeClient, apiReader: &fakeClient{server: c.server}, leadership: l,
			states: map[types.NamespacedName]*localState{client.ObjectKeyFromObject(c.pool): l.state},
		}
	}
}

// ownedPods returns the pods of the workload.
func (c *fakeCluster) ownedPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		pods = append(pods, c.pods[name].pod)
	}
	return slices.DeleteFunc(pods, c.workload().DoesNotOwn)
}

// activePods returns the pods of the workload that are not terminating.
func (c *fakeCluster) activePods() []*corev1.Pod {
	return slices.DeleteFunc(c.ownedPods(), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// podsWithNames returns the pods in the API server that have one of the names.
func (c *fakeCluster) podsWithNames(names []string) map[string]*corev1.Pod {
	pods := map[string]*corev1.Pod{}
	for _, name := range names {
		if p := c.pods[name]; p != nil {
			pods[name] = p.pod
		}
	}
	return pods
}

// observe returns what the leader sees; absence is verified as the reconciler does.
func (c *fakeCluster) observe(l *leader) (snapshot plan.Snapshot, err error) {
	l.connect(c)
	ctx := context.Background()
	l.state.jobs = l.state.jobs.Update(c.pool, nil)
	snapshot = plan.Snapshot{AllPolled: true, Jobs: l.state.jobs, Workload: c.workload(), AckResponses: map[string]plan.AckResponse{}}
	if snapshot.History, err = l.readHistory(ctx, c.pool, l.state, false); err != nil {
		return snapshot, err
	}
	if snapshot.Published, snapshot.Problem, err = l.readPublished(ctx, c.pool, l.state); err != nil {
		return snapshot, err
	}
	if l.mayLackConfigMaps(c.pool, l.state) {
		if snapshot.History, err = l.readHistory(ctx, c.pool, l.state, true); err != nil {
			return snapshot, err
		}
	}
	c.observePods(l, &snapshot)
	return snapshot, nil
}

func (c *fakeCluster) observePods(l *leader, snapshot *plan.Snapshot) {
	if snapshot.Pods = c.ownedPods(); l.cachedPods != nil {
		snapshot.Pods = l.cachedPods
	}
	if snapshot.NeedsLiveRead(c.pool, &l.state.clocks) {
		snapshot.Pods, snapshot.PodsVerified = c.ownedPods(), true
		snapshot.ClassifyAbsent(c.podsWithNames(snapshot.AbsentWorkers()))
		snapshot.RecordPods(&l.state.clocks)
	}
	c.observeLeases(*snapshot, &l.state.clocks)
	for _, target := range snapshot.AckTargets(c.pool) {
		if p := c.pods[target.Worker]; p != nil && !p.silent {
			snapshot.AckResponses[target.Worker] = p.response
		}
	}
}

// decide runs a leader up to its plan: it takes over the config, and plans.
func (c *fakeCluster) decide(l *leader) (plan.Plan, bool) {
	snapshot, err := c.observe(l)
	if err == nil {
		err = l.ensureConfig(context.Background(), c.pool, &snapshot)
	}
	if err != nil {
		c.logf("term %d: %v", l.term, err)
		return plan.Plan{}, false
	}
	before := fmt.Sprintf("%+v", l.state.clocks)
	next := plan.For(c.pool, snapshot, l.state.clocks, c.now)
	if again := plan.For(c.pool, snapshot, l.state.clocks, c.now); !reflect.DeepEqual(again, next) || fmt.Sprintf("%+v", l.state.clocks) != before {
		panic(fmt.Sprintf("planning again gives another plan, or has changed the clocks:\n%+v\n%+v", next, again))
	}
	l.state.follow(next)
	return next, true
}

// apply is the reconciler's, and reports whether the leader survived. Pods are patched one after another, so that a seed is reproducible.
func (c *fakeCluster) apply(l *leader, next plan.Plan) bool {
	ctx := context.Background()
	writes := []func() error{}
	if next.NewRevision != nil {
		writes = append(writes, func() error { return l.storeRevision(ctx, c.pool, *next.NewRevision, l.state) })
	}
	for _, s := range next.ConfigMaps {
		writes = append(writes, func() error { return l.writeConfigMap(ctx, c.pool, s, l.state) })
	}
	for _, item := range next.Nudges {
		writes = append(writes, l.ifAlive(func() { c.patchPod(item) }))
	}
	if next.ScaleTo != nil {
		writes = append(writes, l.ifAlive(func() { c.replicas = int(*next.ScaleTo) }))
	}
	for _, revision := range next.ObsoleteRevisions {
		writes = append(writes, func() error { return l.deleteRevision(ctx, c.pool, revision) })
	}
	for _, item := range next.Evictions {
		writes = append(writes, l.ifAlive(func() { c.evictPod(l, item) }))
	}
	for _, write := range writes {
		if err := write(); err != nil {
			c.logf("term %d: %v", l.term, err)
			return false
		}
	}
	c.logWrites(l, next)
	setStatusFields(c.pool, next)
	return true
}

// ifAlive wraps a write that only a living leader makes.
func (l *leader) ifAlive(write func()) func() error {
	return func() error {
		if !l.useWrite() {
			return errProcessDead
		}
		write()
		return nil
	}
}

func (c *fakeCluster) logWrites(l *leader, next plan.Plan) {
	if next.NewRevision != nil {
		c.logf("revision %d of term %d", next.NewRevision.Number, l.term)
	}
	for _, s := range next.ConfigMaps {
		c.logf("term %d writes version %d of %s", l.term, s.File.Version, s.Object.Name)
	}
}

func (c *fakeCluster) patchPod(n plan.Nudge) {
	if p := c.pods[n.Pod.Name]; p != nil && p.pod.UID == n.Pod.UID {
		p.pod = p.pod.DeepCopy()
		for key, value := range n.Annotations {
			metav1.SetMetaDataAnnotation(&p.pod.ObjectMeta, key, value)
		}
		for key, value := range n.Labels {
			metav1.SetMetaDataLabel(&p.pod.ObjectMeta, key, value)
		}
	}
}

func (c *fakeCluster) evictPod(l *leader, e plan.Eviction) {
	if p := c.pods[e.Pod.Name]; p != nil && p.pod.UID == e.Pod.UID {
		c.terminatePod(e.Pod.Name)
		l.state.clocks.RecordEvictions([]plan.Eviction{e})
	}
}

const unlimitedWrites = 1 << 20

// reconcile runs one pass of a leader, which may die after so many writes.
func (c *fakeCluster) reconcile(l *leader, writes int) (plan.Plan, bool) {
	l.connect(c)
	l.remainingWrites = writes
	next, decided := c.decide(l)
	if !decided {
		return plan.Plan{}, false
	}
	lived := c.apply(l, next)
	if lived && next.IsIdle() {
		l.state.compact()
	}
	return next, lived
}

// converge runs without faults until the pool has converged, and fails if it does not.
func (c *fakeCluster) converge(t testingT, l *leader) {
	t.Helper()
	l.connect(c)
	l.refreshCaches()
	l.cachedPods, c.kubeletFiles = nil, nil
	for _, ghost := range c.podlessWorkers {
		ghost.partitioned = true
	}
	for range 60 {
		c.advance(time.Second)
		for name := range c.pods {
			c.adoptPod(name)
		}
		c.createMissingPods()
		c.terminateExcessPods()
		for name := range maps.Clone(c.pods) {
			c.healPod(t, name)
		}
		next, lived := c.reconcile(l, unlimitedWrites)
		if lived && next.Converged && next.ReadyWorkers == c.replicas && len(next.Nudges) == 0 && next.RevisionNumber > 0 &&
			len(c.ownedPods()) == c.replicas {
			c.requireAllJobsRun(t, next)
			return
		}
	}
	t.Fatalf("the pool does not converge:\n%s", c.dump())
}

// healPod removes a pod that has to go, or makes it Ready with its current list.
func (c *fakeCluster) healPod(t testingT, name string) {
	t.Helper()
	p := c.pods[name]
	if p.pod.DeletionTimestamp != nil {
		c.removeTerminatedPod(name)
		return
	}
	p.silent = false
	if ready, _ := plan.PodReadiness(p.pod); !ready {
		p.setReady(true, c.now)
	}
	c.syncFile(p)
	c.loadFile(p)
	c.requireOneOwner(t)
}

// requireAllJobsRun fails if a job that should run does not.
func (c *fakeCluster) requireAllJobsRun(t testingT, next plan.Plan) {
	t.Helper()
	running := 0
	for _, p := range c.pods {
		running += len(p.runningJobs)
	}
	if c.replicas > 0 && running != len(c.pool.Spec.Jobs)-len(next.Unassigned) {
		t.Fatalf("%d jobs run of %d:\n%s", running, len(c.pool.Spec.Jobs), c.dump())
	}
}

func TestAPoolConvergesAndIsQuiet(t *testing.T) {
	c, l := newFakeCluster(27, 2), newLeader(1)
	c.converge(t, l)
	for _, replicas := range []int{3, 1, 0, 12} {
		c.replicas = replicas
		c.converge(t, l)
	}
	written := c.server.version
	for range 10 {
		c.now = c.now.Add(time.Minute)
		if next, _ := c.reconcile(l, 0); next.NewRevision != nil || len(next.ConfigMaps)+len(next.Nudges)+len(next.Evictions) > 0 {
			t.Fatalf("a converged pool wants to write: %+v", next)
		}
	}
	if c.server.version != written {
		t.Errorf("%d writes for nothing", c.server.version-written)
	}
}
