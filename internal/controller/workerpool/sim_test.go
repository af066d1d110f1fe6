package workerpool

import (
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

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/acknowledge"
	"github.com/swarm-io/swarm-operator/internal/roster"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// A cluster is the API server's side of a pool and its pods, in memory: ConfigMaps are written by resource version, revisions once.
type cluster struct {
	pool     *v1alpha1.WorkerPool
	config   *corev1.ConfigMap // nil for none
	version  int               // of the last write
	history  []kept
	pods     map[string]*process
	ghosts   []*process            // processes whose pod is gone
	leases   map[string]*testimony // of workers, by name; nil when workers have none
	set      int                   // how often the StatefulSet was created
	admits   bool                  // admission names the version of its list on every new pod
	kubelet  *string               // the file that new pods begin with, nil for the present one
	replicas int
	born     int
	now      time.Time
	trace    []string
}

// A process is a pod with the worker in it, and the file as its kubelet has brought it.
type process struct {
	pod       *corev1.Pod
	mounted   string
	floor     int64
	running   map[string]bool
	answer    acknowledge.Answer
	unheeding bool // it reads nothing
	cut       bool // it cannot renew its Lease
}

// testimony is the Lease of a worker.
type testimony struct {
	holder  types.UID
	writes  int
	renewed time.Time
}

// leaseTime is the duration of Leases.
const leaseTime = 6 * time.Second

func newCluster(jobs, replicas int) *cluster {
	c := &cluster{pods: map[string]*process{}, replicas: replicas, now: time.Unix(1_000_000, 0)}
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

// raise makes the pods that the workload lacks.
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
}

// create makes a pod. It begins with the file as it is now, or as its kubelet still has it.
func (c *cluster) create(name string) {
	c.born++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "sim", UID: types.UID(fmt.Sprintf("u%d", c.born)), CreationTimestamp: metav1.NewTime(c.now),
		OwnerReferences: c.owner(),
	}}
	if c.slotted() {
		pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "abc"}
	}
	pod.Status.PodIP = "127.0.0.1"
	made := &process{pod: pod, running: map[string]bool{}}
	c.pods[name] = made
	c.admit(pod)
	made.ready(false, c.now)
	c.mount(made)
	if c.kubelet != nil {
		made.mounted = *c.kubelet
	}
	c.note("raise %s as %s", name, pod.UID)
}

// admit is what admission does with a new pod.
func (c *cluster) admit(pod *corev1.Pod) {
	if c.config == nil || !c.admits || c.slotted() {
		return
	}
	file, err := roster.ReadFile(c.config.Data["config.yml"])
	if floor := file.Floor(pod.Name); err == nil && floor > 0 {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationConfigVersion, strconv.FormatInt(floor, 10))
	}
}

// fallBehind lets kubelets give new pods the present file from now on, whatever is published later.
func (c *cluster) fallBehind() {
	if c.config != nil {
		c.kubelet = new(c.config.Data["config.yml"])
	}
}

// prune tells the pods that the workload does not want to go.
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

// vanish removes a pod, while its process lives on.
func (c *cluster) vanish(name string) {
	p := c.pods[name]
	if p == nil || c.leases == nil || c.leases[name] == nil || c.leases[name].holder != p.pod.UID {
		return // a process without a Lease runs nothing
	}
	delete(c.pods, name)
	c.ghosts = append(c.ghosts, p)
	c.note("vanish %s as %s", name, p.pod.UID)
}

// pass lets time pass. Who can renew its Lease does, and who cannot has stopped everything when it is over.
func (c *cluster) pass(time time.Duration) {
	c.now = c.now.Add(time)
	for _, p := range slices.Concat(slices.Collect(maps.Values(c.pods)), c.ghosts) {
		if held := c.leases[p.pod.Name]; held != nil && held.holder == p.pod.UID && !p.cut {
			held.writes, held.renewed = held.writes+1, c.now
		}
	}
	c.ghosts = slices.DeleteFunc(c.ghosts, func(p *process) bool {
		return p.cut && !c.now.Before(c.leases[p.pod.Name].renewed.Add(leaseTime))
	})
}

// load is what the SDK does with a file, once it has its Lease.
func (c *cluster) load(p *process) {
	if c.leases != nil {
		held := c.leases[p.pod.Name]
		if held != nil && held.holder != p.pod.UID && c.now.Before(held.renewed.Add(lease.Silence(leaseTime))) {
			return
		}
		if held == nil || held.holder != p.pod.UID {
			c.born++
			c.leases[p.pod.Name] = &testimony{p.pod.UID, 1000 * c.born, c.now}
		}
	}
	p.load()
}

// sight is what a leader sees of the Leases of those who are gone.
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

// mount brings a pod the file and the annotation as they are now.
func (c *cluster) mount(p *process) {
	if c.config != nil {
		p.mounted = c.config.Data["config.yml"]
	}
	p.floor, _ = strconv.ParseInt(p.pod.Annotations[v1alpha1.AnnotationConfigVersion], 10, 64)
}

// load is what the SDK does with a file: stop, acknowledge, start.
func (p *process) load() {
	file, err := roster.ReadFile(p.mounted)
	if err != nil || p.mounted == "" || file.Version < p.floor || file.Version < p.answer.Config || p.pod.DeletionTimestamp != nil {
		return
	}
	wanted := map[string]bool{}
	answer := acknowledge.Answer{Worker: p.pod.Name, UID: string(p.pod.UID), Config: file.Version}
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

// owners fails when a job runs twice.
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
	text := strings.Join(c.trace, "\n") + "\n"
	if c.config != nil {
		text += c.config.Data["config.yml"] + c.config.Annotations[v1alpha1.AnnotationLedger]
	}
	return text
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

// workload is the StatefulSet or Deployment as it is now.
func (c *cluster) workload() workload {
	of := workload{kind: c.pool.Spec.Workers.Kind, replicas: c.replicas, selector: &metav1.LabelSelector{}}
	meta := metav1.ObjectMeta{Name: "w", Namespace: "sim", UID: types.UID(fmt.Sprintf("set-%d", c.set))}
	of.object = &appsv1.StatefulSet{ObjectMeta: meta}
	if c.slotted() {
		of.object = &appsv1.Deployment{ObjectMeta: meta}
	}
	return of
}

// owner refers to the controller of new pods.
func (c *cluster) owner() []metav1.OwnerReference {
	if c.slotted() {
		return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "w-abc", UID: "set", Controller: new(true)}}
	}
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "w", UID: c.workload().object.GetUID(), Controller: new(true)}}
}

// release takes a pod out of its workload, as a changed label does. Its process goes on.
func (c *cluster) release(name string) {
	if p := c.pods[name]; p != nil {
		p.pod = p.pod.DeepCopy()
		p.pod.OwnerReferences = nil
		c.note("release %s", name)
	}
}

// orphan creates the StatefulSet again after it was deleted without its pods.
func (c *cluster) orphan() {
	for _, pod := range c.list() {
		c.release(pod.Name)
	}
	c.set++
}

// adopt is what a StatefulSet does with pods that have its labels and no owner.
func (c *cluster) adopt(name string) {
	if p := c.pods[name]; p != nil && !c.slotted() && c.workload().disowns(p.pod) {
		p.pod = p.pod.DeepCopy()
		p.pod.OwnerReferences = c.owner()
		c.note("adopt %s", name)
	}
}

// A leader is an operator: what it remembers, and how far its cache is behind.
type leader struct {
	memory *memory
	term   int64
	cached []*corev1.Pod // nil for up to date
}

func newLeader(term int64) *leader { return &leader{memory: newMemory("pool"), term: term} }

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

// named returns the pods that exist under some names, as the API server has them.
func (c *cluster) named(names []string) map[string]*corev1.Pod {
	found := map[string]*corev1.Pod{}
	for _, name := range names {
		if p := c.pods[name]; p != nil {
			found[name] = p.pod
		}
	}
	return found
}

// observe is what the leader sees; absence is verified as the reconciler does.
func (c *cluster) observe(l *leader) world {
	l.memory.jobs = l.memory.jobs.read(c.pool, nil)
	w := world{tried: true, history: slices.Clone(c.history), pods: c.list(), answers: map[string]acknowledge.Answer{}}
	if l.cached != nil {
		w.pods = l.cached
	}
	if len(w.history) > 0 {
		newest := &w.history[len(w.history)-1]
		if known := l.memory.kept; known != nil && known.number == newest.number {
			newest.index = known.index
		}
		newest.restore()
		l.memory.kept = newest
	}
	w.workload = c.workload()
	w.published = published{sheets: map[string]*sheet{}, ledger: roster.Ledger{}, missing: c.config == nil}
	if c.config != nil {
		w.published.add(read(c.config.DeepCopy(), "config.yml"), true)
	}
	if w.dubious(c.pool, l.memory) {
		w.pods, w.verified = c.list(), true
		w.resolve(c.named(w.absent()))
		w.testify(l.memory)
	}
	c.sight(w, l.memory)
	for _, question := range w.questions(c.pool) {
		if p := c.pods[question.Worker]; p != nil && !p.unheeding {
			w.answers[question.Worker] = p.answer
		}
	}
	return w
}

// store writes a sheet, if nobody has written since it was read.
func (c *cluster) store(l *leader, s *sheet) bool {
	object, refused := s.written(c.pool, l.term)
	if refused != nil {
		return false
	}
	current := ""
	if c.config != nil {
		current = c.config.ResourceVersion
	}
	if object.ResourceVersion != current {
		c.note("conflict of term %d", l.term)
		return false
	}
	c.version++
	object.ResourceVersion = strconv.Itoa(c.version)
	c.config = object
	c.note("term %d writes version %d", l.term, s.file.Version)
	return true
}

// secure is the reconciler's.
func (c *cluster) secure(l *leader, w *world) bool {
	if w.published.missing {
		file, ledger := w.rebuilt(c.pool)
		made := divided(c.pool, file, ledger)[c.pool.ConfigName()]
		made.object = blank(c.pool, c.pool.ConfigName()).object
		if !c.store(l, made) {
			return false
		}
	} else if s := w.published.sheets[c.pool.ConfigName()]; s.term() != l.term && !c.store(l, s) {
		return false
	}
	w.published = published{sheets: map[string]*sheet{}, ledger: roster.Ledger{}}
	w.published.add(read(c.config.DeepCopy(), "config.yml"), true)
	return true
}

// apply is the reconciler's; after so many writes the leader is dead. It tells whether it lived.
func (c *cluster) apply(l *leader, plan Plan, writes int) bool {
	var all []func() bool
	if plan.Revision != nil {
		all = append(all, func() bool { return c.keep(l, *plan.Revision) })
	}
	for _, s := range plan.Publish {
		all = append(all, func() bool { return c.store(l, s) })
	}
	for _, one := range plan.Nudge {
		all = append(all, func() bool { return c.tell(one) })
	}
	if plan.Scale != nil {
		all = append(all, func() bool { c.replicas = int(*plan.Scale); return true })
	}
	for _, one := range plan.Evict {
		all = append(all, func() bool { return c.evict(l, one) })
	}
	for n, write := range all {
		if n == writes || !write() {
			return false
		}
	}
	fill(c.pool, plan)
	return true
}

// keep stores a revision, once.
func (c *cluster) keep(l *leader, revision kept) bool {
	if len(c.history) > 0 && c.history[len(c.history)-1].number >= revision.number {
		return false
	}
	l.memory.kept = &revision
	c.history = append(c.history, revision)
	c.history[len(c.history)-1].index = nil // which is not stored
	c.note("revision %d of term %d", revision.number, l.term)
	return true
}

func (c *cluster) tell(one nudge) bool {
	if p := c.pods[one.pod.Name]; p != nil && p.pod.UID == one.pod.UID {
		p.pod = p.pod.DeepCopy()
		for key, value := range one.annotations {
			metav1.SetMetaDataAnnotation(&p.pod.ObjectMeta, key, value)
		}
		for key, value := range one.labels {
			metav1.SetMetaDataLabel(&p.pod.ObjectMeta, key, value)
		}
	}
	return true
}

func (c *cluster) evict(l *leader, one eviction) bool {
	if p := c.pods[one.pod.Name]; p != nil && p.pod.UID == one.pod.UID {
		c.terminate(one.pod.Name)
		l.memory.witness.take(one.pod.Name, witness{one.version, string(one.pod.UID)})
	}
	return true
}

const lives = 1 << 20

// reconcile is one pass of a leader, who may die after so many writes.
func (c *cluster) reconcile(l *leader, writes int) (Plan, bool) {
	w := c.observe(l)
	if !c.secure(l, &w) {
		return Plan{}, false
	}
	made := plan(c.pool, w, l.memory, c.now)
	lives := c.apply(l, made, writes)
	if lives && made.still() {
		l.memory.rest()
	}
	return made, lives
}

// settle lets everything go well until the pool has converged, and fails when it does not.
func (c *cluster) settle(t fataler, l *leader) {
	t.Helper()
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

// heal has a pod go that is to go, or become Ready and run what it is told.
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

// complete fails when a job does not run that should.
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
	written := c.version
	for range 10 {
		c.now = c.now.Add(time.Minute)
		if made, _ := c.reconcile(l, 0); made.Revision != nil || len(made.Publish)+len(made.Nudge)+len(made.Evict) > 0 {
			t.Fatalf("a converged pool wants to write: %+v", made)
		}
	}
	if c.version != written {
		t.Errorf("the config was written %d times for nothing", c.version-written)
	}
}
