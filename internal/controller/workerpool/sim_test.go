package workerpool

import (
	"context"
	"fmt"
	"maps"
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
	"github.com/swarm-io/swarm-operator/internal/acknowledge"
	"github.com/swarm-io/swarm-operator/internal/roster"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// A cluster is a pool, its pods, and the API server, in memory.
type cluster struct {
	pool     *v1alpha1.WorkerPool
	server   *apiServer
	pods     map[string]*process
	ghosts   []*process            // processes whose pod is gone
	leases   map[string]*testimony // of workers, by name; nil if workers have none
	set      int                   // how often the StatefulSet was created
	admits   bool                  // admission names the version of its list on every new pod
	creates  map[string]*create    // pods that are admitted and not stored yet, by name
	kubelet  map[string]string     // the files that new pods start with, by ConfigMap; nil for the current ones
	replicas int
	born     int
	now      time.Time
	trace    []string
}

// A create is a pod between admission and storage.
type create struct {
	pod      *corev1.Pod
	admitted time.Time
}

// A process is a pod with its worker, and with the file that its kubelet has.
type process struct {
	pod       *corev1.Pod
	mounted   string
	floor     int64
	running   map[string]bool
	answer    acknowledge.Response
	unheeding bool // it reads nothing
	cut       bool // it cannot renew its Lease
}

// testimony is the Lease of a worker.
type testimony struct {
	holder  types.UID
	writes  int
	renewed time.Time
}

// longestCreate is the limit of the API server and etcd for a create.
const longestCreate = 41 * time.Second

// leaseTime is the duration of Leases.
const leaseTime = 6 * time.Second

func newCluster(jobs, replicas int) *cluster {
	c := &cluster{server: newAPIServer(), pods: map[string]*process{}, creates: map[string]*create{}, replicas: replicas, now: time.Unix(1_000_000, 0)}
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
	c.want(jobs)
	return c
}

// want sets the list of jobs.
func (c *cluster) want(jobs int) {
	c.pool.Spec.Jobs = nil
	for n := range jobs {
		c.pool.Spec.Jobs = append(c.pool.Spec.Jobs, v1alpha1.Job{Name: fmt.Sprintf("j%02d", n), Weight: 1})
	}
	c.pool.Generation++
}

func (c *cluster) note(format string, arguments ...any) {
	c.trace = append(c.trace, fmt.Sprintf(format, arguments...))
}

// raise creates the missing pods of the workload.
func (c *cluster) raise() {
	if c.slotted() {
		for range c.replicas - len(c.active()) {
			c.create(fmt.Sprintf("w-abc-%d", c.born+1))
		}
		return
	}
	for n := range c.replicas {
		if name := fmt.Sprintf("w-%d", n); c.pods[name] == nil {
			c.create(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.creates)) {
		c.store(name)
	}
}

// create creates a pod, unless that has begun already.
func (c *cluster) create(name string) {
	if c.creates[name] == nil {
		c.begin(name)
	}
	c.store(name)
}

// begin admits a pod that is stored later, or never.
func (c *cluster) begin(name string) {
	c.born++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "sim", UID: types.UID(fmt.Sprintf("u%d", c.born)), CreationTimestamp: metav1.NewTime(c.now),
		OwnerReferences: c.owner(),
	}}
	if c.slotted() {
		pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "abc"}
	}
	pod.Status.PodIP = "127.0.0.1"
	c.admit(pod)
	c.creates[name] = &create{pod, c.now}
	c.note("admit %s as %s", name, pod.UID)
}

// store ends a create. The pod starts with the current file, or with the one that its kubelet still has.
func (c *cluster) store(name string) {
	pod := c.creates[name].pod
	delete(c.creates, name)
	made := &process{pod: pod, running: map[string]bool{}}
	c.pods[name] = made
	made.ready(false, c.now)
	c.mount(made)
	if c.kubelet != nil {
		made.mounted = c.kubelet[c.configOf(name)]
	}
	c.note("raise %s as %s", name, pod.UID)
}

// admit is the admission of a new pod.
func (c *cluster) admit(pod *corev1.Pod) {
	config := c.server.configs[c.configOf(pod.Name)]
	if config == nil || !c.admits || c.slotted() {
		return
	}
	file, err := roster.ParseFile(config.Data["config.yml"])
	if floor := file.Floor(pod.Name); err == nil && floor > 0 {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationConfigVersion, strconv.FormatInt(floor, 10))
	}
}

// fallBehind makes kubelets give new pods the current files, whatever is published later.
func (c *cluster) fallBehind() {
	c.kubelet = map[string]string{}
	for name, config := range c.server.configs {
		c.kubelet[name] = config.Data["config.yml"]
	}
}

// configOf returns the name of the ConfigMap that a worker reads.
func (c *cluster) configOf(worker string) string {
	if c.pool.Spec.Config.Layout == v1alpha1.LayoutPerWorker {
		return c.pool.ConfigNameOf(worker)
	}
	return c.pool.ConfigName()
}

// file returns the files of all workers.
func (c *cluster) file() string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.server.configs)) {
		text.WriteString(c.server.configs[name].Data["config.yml"])
	}
	return text.String()
}

// carryOut makes the API server carry out a Create of a process that has died since.
func (c *cluster) carryOut(late int) {
	object := c.server.late[late]
	c.server.late = slices.Delete(c.server.late, late, late+1)
	c.note("late Create of %T %s: %v", object, object.GetName(), c.server.create(object))
}

// lose deletes a ConfigMap.
func (c *cluster) lose(name string) {
	delete(c.server.configs, name)
	c.note("ConfigMap %s is deleted", name)
}

// prune stops the pods that the workload does not want.
func (c *cluster) prune() {
	if c.slotted() {
		active := c.active()
		cost := func(pod *corev1.Pod) string { return pod.Annotations[corev1.PodDeletionCost] }
		slices.SortStableFunc(active, func(a, b *corev1.Pod) int { return strings.Compare(cost(b), cost(a)) })
		for n := range max(0, len(active)-c.replicas) {
			c.terminate(active[n].Name)
		}
		return
	}
	for _, pod := range c.list() {
		if ordinal, _ := strconv.Atoi(pod.Name[2:]); ordinal >= c.replicas {
			c.terminate(pod.Name)
		}
	}
}

func (c *cluster) terminate(name string) {
	if p := c.pods[name]; p != nil && p.pod.DeletionTimestamp == nil {
		p.pod = p.pod.DeepCopy()
		p.pod.DeletionTimestamp = new(metav1.NewTime(c.now))
		c.note("terminate %s", name)
	}
}

// bury removes a pod whose processes have ended.
func (c *cluster) bury(name string) {
	if p := c.pods[name]; p != nil && p.pod.DeletionTimestamp != nil {
		delete(c.pods, name)
		if held := c.leases[name]; held != nil && held.holder == p.pod.UID {
			delete(c.leases, name)
		}
		c.note("bury %s", name)
	}
}

// vanish removes a pod whose process continues.
func (c *cluster) vanish(name string) {
	p := c.pods[name]
	if p == nil || c.leases == nil || c.leases[name] == nil || c.leases[name].holder != p.pod.UID {
		return // a process without a Lease runs nothing
	}
	delete(c.pods, name)
	c.ghosts = append(c.ghosts, p)
	c.note("vanish %s as %s", name, p.pod.UID)
}

// pass advances time. Processes that can renew their Lease do; the others have stopped everything when it expires.
func (c *cluster) pass(time time.Duration) {
	c.now = c.now.Add(time)
	maps.DeleteFunc(c.creates, func(_ string, under *create) bool { return c.now.Sub(under.admitted) > longestCreate })
	for _, p := range slices.Concat(slices.Collect(maps.Values(c.pods)), c.ghosts) {
		if held := c.leases[p.pod.Name]; held != nil && held.holder == p.pod.UID && !p.cut {
			held.writes, held.renewed = held.writes+1, c.now
		}
	}
	c.ghosts = slices.DeleteFunc(c.ghosts, func(p *process) bool {
		return p.cut && !c.now.Before(c.leases[p.pod.Name].renewed.Add(leaseTime))
	})
}

// load is the SDK's handling of a file, once it has its Lease.
func (c *cluster) load(p *process) {
	if c.leases != nil {
		held := c.leases[p.pod.Name]
		if held != nil && held.holder != p.pod.UID && c.now.Before(held.renewed.Add(lease.TakeoverDelay(leaseTime))) {
			return
		}
		if held == nil || held.holder != p.pod.UID {
			c.born++
			c.leases[p.pod.Name] = &testimony{p.pod.UID, 1000 * c.born, c.now}
		}
	}
	p.load()
}

// sight records the Leases of workers whose pod is gone, as a leader would.
func (c *cluster) sight(w world, memory *memory) {
	noted := notes[sighting](nil)
	for _, worker := range w.bereft(memory) {
		seen := sighting{checked: c.now}
		if held := c.leases[worker]; held != nil {
			seen = memory.leases[worker].saw(sighting{
				version: strconv.Itoa(held.writes), holder: string(held.holder), duration: leaseTime, since: c.now, checked: c.now,
			})
		}
		noted.take(worker, seen)
	}
	memory.leases = noted
}

// mount updates the file and the annotation of a pod.
func (c *cluster) mount(p *process) {
	if config := c.server.configs[c.configOf(p.pod.Name)]; config != nil {
		p.mounted = config.Data["config.yml"]
	}
	p.floor, _ = strconv.ParseInt(p.pod.Annotations[v1alpha1.AnnotationConfigVersion], 10, 64)
}

// load is the SDK's handling of a file: stop, acknowledge, start.
func (p *process) load() {
	file, err := roster.ParseFile(p.mounted)
	if err != nil || p.mounted == "" || file.Version < p.floor || file.Version < p.answer.FileVersion || p.pod.DeletionTimestamp != nil {
		return
	}
	wanted := map[string]bool{}
	answer := acknowledge.Response{Worker: p.pod.Name, PodUID: string(p.pod.UID), FileVersion: file.Version}
	for _, entry := range file.Workers {
		if entry.Worker == p.pod.Name {
			answer.Version = entry.Version
			for _, job := range entry.Jobs {
				wanted[job] = true
			}
		}
	}
	p.running, p.answer = wanted, answer
}

func (p *process) ready(is bool, now time.Time) {
	p.pod = p.pod.DeepCopy()
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	p.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(now)}}
}

// owners fails if a job runs twice.
func (c *cluster) owners(t fataler) {
	t.Helper()
	holder := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		for job := range c.pods[name].running {
			if other, taken := holder[job]; taken {
				t.Fatalf("job %s runs on %s and on %s:\n%s", job, other, name, c.story())
			}
			holder[job] = name
		}
	}
	for _, ghost := range c.ghosts {
		for job := range ghost.running {
			if other, taken := holder[job]; taken {
				t.Fatalf("job %s runs on %s and on %s, whose pod %s is gone:\n%s", job, other, ghost.pod.Name, ghost.pod.UID, c.story())
			}
			holder[job] = ghost.pod.Name
		}
	}
}

func (c *cluster) story() string {
	parts := slices.Clone(c.trace)
	for _, name := range slices.Sorted(maps.Keys(c.server.configs)) {
		config := c.server.configs[name]
		parts = append(parts, name+":", config.Data["config.yml"]+config.Annotations[v1alpha1.AnnotationLedger])
	}
	return strings.Join(parts, "\n")
}

type fataler interface {
	Helper()
	Fatalf(format string, arguments ...any)
}

func (c *cluster) slotted() bool { return c.pool.Spec.Workers.Kind == v1alpha1.WorkloadDeployment }

// deployed makes the workload a Deployment.
func (c *cluster) deployed() *cluster {
	c.pool.Spec.Workers.Kind = v1alpha1.WorkloadDeployment
	return c
}

// workload returns the current StatefulSet or Deployment.
func (c *cluster) workload() workload {
	of := workload{kind: c.pool.Spec.Workers.Kind, replicas: c.replicas, selector: &metav1.LabelSelector{}, observed: len(c.creates) == 0}
	meta := metav1.ObjectMeta{Name: "w", Namespace: "sim", UID: types.UID(fmt.Sprintf("set-%d", c.set))}
	of.object = &appsv1.StatefulSet{ObjectMeta: meta}
	if c.slotted() {
		of.object = &appsv1.Deployment{ObjectMeta: meta}
	}
	return of
}

// owner returns the reference to the controller of new pods.
func (c *cluster) owner() []metav1.OwnerReference {
	if c.slotted() {
		return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "w-abc", UID: "set", Controller: new(true)}}
	}
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "w", UID: c.workload().object.GetUID(), Controller: new(true)}}
}

// release removes a pod from its workload, as a changed label does. Its process continues.
func (c *cluster) release(name string) {
	if p := c.pods[name]; p != nil {
		p.pod = p.pod.DeepCopy()
		p.pod.OwnerReferences = nil
		c.note("release %s", name)
	}
}

// orphan recreates the StatefulSet after it was deleted without its pods.
func (c *cluster) orphan() {
	for _, pod := range c.list() {
		c.release(pod.Name)
	}
	c.set++
}

// adopt simulates a StatefulSet that adopts pods with its labels and no owner.
func (c *cluster) adopt(name string) {
	if p := c.pods[name]; p != nil && !c.slotted() && c.workload().disowns(p.pod) {
		p.pod = p.pod.DeepCopy()
		p.pod.OwnerReferences = c.owner()
		c.note("adopt %s", name)
	}
}

// A leader is an operator: the reconciler, its memory, and the lag of its caches.
type leader struct {
	*reconciler
	*connection
	memory *memory
	term   int64
	cached []*corev1.Pod // nil if up to date
}

func newLeader(term int64) *leader { return &leader{memory: newMemory("pool"), term: term} }

func (l *leader) Term() int64 { return l.term }

// connect gives a leader its connection to the API server.
func (l *leader) connect(c *cluster) {
	if l.connection == nil {
		l.connection = &connection{server: c.server, writes: lives}
		l.reconciler = &reconciler{
			client: l.connection, live: &connection{server: c.server}, leadership: l,
			memories: map[types.NamespacedName]*memory{client.ObjectKeyFromObject(c.pool): l.memory},
		}
	}
}

// list returns the pods of the workload.
func (c *cluster) list() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		pods = append(pods, c.pods[name].pod)
	}
	return slices.DeleteFunc(pods, c.workload().disowns)
}

// active returns the pods of the workload that are not terminating.
func (c *cluster) active() []*corev1.Pod {
	return slices.DeleteFunc(c.list(), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// named returns the pods in the API server that have one of the names.
func (c *cluster) named(names []string) map[string]*corev1.Pod {
	found := map[string]*corev1.Pod{}
	for _, name := range names {
		if p := c.pods[name]; p != nil {
			found[name] = p.pod
		}
	}
	return found
}

// observe returns what the leader sees; absence is verified as the reconciler does.
func (c *cluster) observe(l *leader) (w world, err error) {
	l.connect(c)
	ctx := context.Background()
	l.memory.jobs = l.memory.jobs.read(c.pool, nil)
	w = world{tried: true, workload: c.workload(), answers: map[string]acknowledge.Response{}}
	if w.history, err = l.history(ctx, c.pool, l.memory, false); err != nil {
		return w, err
	}
	if w.published, w.refused, err = l.published(ctx, c.pool, l.memory); err != nil {
		return w, err
	}
	if l.unsecured(c.pool, l.memory) {
		if w.history, err = l.history(ctx, c.pool, l.memory, true); err != nil {
			return w, err
		}
	}
	c.observePods(l, &w)
	return w, nil
}

func (c *cluster) observePods(l *leader, w *world) {
	if w.pods = c.list(); l.cached != nil {
		w.pods = l.cached
	}
	if w.dubious(c.pool, l.memory) {
		w.pods, w.verified = c.list(), true
		w.resolve(c.named(w.absent()))
		w.testify(l.memory)
	}
	c.sight(*w, l.memory)
	for _, question := range w.questions(c.pool) {
		if p := c.pods[question.Worker]; p != nil && !p.unheeding {
			w.answers[question.Worker] = p.answer
		}
	}
}

// decide runs a leader up to its plan: it takes over the config, and plans.
func (c *cluster) decide(l *leader) (Plan, bool) {
	w, err := c.observe(l)
	if err == nil {
		err = l.secure(context.Background(), c.pool, &w)
	}
	if err != nil {
		c.note("term %d: %v", l.term, err)
		return Plan{}, false
	}
	return plan(c.pool, w, l.memory, c.now), true
}

// apply is the reconciler's, and reports whether the leader survived. Pods are patched one after another, so that a seed is reproducible.
func (c *cluster) apply(l *leader, plan Plan) bool {
	ctx := context.Background()
	all := []func() error{}
	if plan.Revision != nil {
		all = append(all, func() error { return l.keep(ctx, c.pool, *plan.Revision, l.memory) })
	}
	for _, s := range plan.Publish {
		all = append(all, func() error { return l.write(ctx, c.pool, s, l.memory) })
	}
	for _, one := range plan.Nudge {
		all = append(all, l.alive(func() { c.tell(one) }))
	}
	if plan.Scale != nil {
		all = append(all, l.alive(func() { c.replicas = int(*plan.Scale) }))
	}
	for _, revision := range plan.Discard {
		all = append(all, func() error { return l.discard(ctx, c.pool, revision) })
	}
	for _, one := range plan.Evict {
		all = append(all, l.alive(func() { c.evict(l, one) }))
	}
	for _, write := range all {
		if err := write(); err != nil {
			c.note("term %d: %v", l.term, err)
			return false
		}
	}
	c.describe(l, plan)
	fill(c.pool, plan)
	return true
}

// alive wraps a write that only a living leader makes.
func (l *leader) alive(write func()) func() error {
	return func() error {
		if !l.spend() {
			return errDead
		}
		write()
		return nil
	}
}

func (c *cluster) describe(l *leader, plan Plan) {
	if plan.Revision != nil {
		c.note("revision %d of term %d", plan.Revision.number, l.term)
	}
	for _, s := range plan.Publish {
		c.note("term %d writes version %d of %s", l.term, s.file.Version, s.object.Name)
	}
}

func (c *cluster) tell(one nudge) {
	if p := c.pods[one.pod.Name]; p != nil && p.pod.UID == one.pod.UID {
		p.pod = p.pod.DeepCopy()
		for key, value := range one.annotations {
			metav1.SetMetaDataAnnotation(&p.pod.ObjectMeta, key, value)
		}
		for key, value := range one.labels {
			metav1.SetMetaDataLabel(&p.pod.ObjectMeta, key, value)
		}
	}
}

func (c *cluster) evict(l *leader, one eviction) {
	if p := c.pods[one.pod.Name]; p != nil && p.pod.UID == one.pod.UID {
		c.terminate(one.pod.Name)
		l.memory.witness.take(one.pod.Name, witness{one.version, string(one.pod.UID)})
	}
}

const lives = 1 << 20

// reconcile runs one pass of a leader, which may die after so many writes.
func (c *cluster) reconcile(l *leader, writes int) (Plan, bool) {
	l.connect(c)
	l.writes = writes
	made, decided := c.decide(l)
	if !decided {
		return Plan{}, false
	}
	lived := c.apply(l, made)
	if lived && made.still() {
		l.memory.rest()
	}
	return made, lived
}

// settle runs without faults until the pool has converged, and fails if it does not.
func (c *cluster) settle(t fataler, l *leader) {
	t.Helper()
	l.connect(c)
	l.catchUp()
	l.cached, c.kubelet = nil, nil
	for _, ghost := range c.ghosts {
		ghost.cut = true
	}
	for range 60 {
		c.pass(time.Second)
		for name := range c.pods {
			c.adopt(name)
		}
		c.raise()
		c.prune()
		for name := range maps.Clone(c.pods) {
			c.heal(t, name)
		}
		made, lived := c.reconcile(l, lives)
		if lived && made.Converged && made.Size == c.replicas && len(made.Nudge) == 0 && made.Number > 0 && len(c.list()) == c.replicas {
			c.complete(t, made)
			return
		}
	}
	t.Fatalf("the pool does not converge:\n%s", c.story())
}

// heal removes a pod that has to go, or makes it Ready with its current list.
func (c *cluster) heal(t fataler, name string) {
	t.Helper()
	p := c.pods[name]
	if p.pod.DeletionTimestamp != nil {
		c.bury(name)
		return
	}
	p.unheeding = false
	if ready, _ := readiness(p.pod); !ready {
		p.ready(true, c.now)
	}
	c.mount(p)
	c.load(p)
	c.owners(t)
}

// complete fails if a job that should run does not.
func (c *cluster) complete(t fataler, made Plan) {
	t.Helper()
	running := 0
	for _, p := range c.pods {
		running += len(p.running)
	}
	if c.replicas > 0 && running != len(c.pool.Spec.Jobs)-len(made.Unassigned) {
		t.Fatalf("%d jobs run of %d:\n%s", running, len(c.pool.Spec.Jobs), c.story())
	}
}

func TestAPoolConvergesAndIsQuiet(t *testing.T) {
	c, l := newCluster(27, 2), newLeader(1)
	c.settle(t, l)
	for _, replicas := range []int{3, 1, 0, 12} {
		c.replicas = replicas
		c.settle(t, l)
	}
	written := c.server.version
	for range 10 {
		c.now = c.now.Add(time.Minute)
		if made, _ := c.reconcile(l, 0); made.Revision != nil || len(made.Publish)+len(made.Nudge)+len(made.Evict) > 0 {
			t.Fatalf("a converged pool wants to write: %+v", made)
		}
	}
	if c.server.version != written {
		t.Errorf("%d writes for nothing", c.server.version-written)
	}
}
