package workerpool

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/roster"
)

// The next version is above all published ones, and implausible numbers are ignored.
func TestFloor(t *testing.T) {
	nudged := func(version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationConfigVersion: version}}}
	}
	for reason, c := range map[string]struct {
		world  world
		status int64
		want   int64
	}{
		"nothing was published":       {world{}, 0, 0},
		"the status":                  {world{published: published{version: 4}}, 5, 5},
		"the config":                  {world{published: published{version: 6}}, 5, 6},
		"a revision":                  {world{history: []kept{{data: roster.Revision{Version: 7}}, {data: roster.Revision{Version: 2}}}}, 5, 7},
		"a pod":                       {world{pods: []*corev1.Pod{nudged("8"), nudged("")}}, 5, 8},
		"a pod of no version":         {world{pods: []*corev1.Pod{nudged("eight"), nudged("-8")}}, 5, 5},
		"the highest that counts":     {world{pods: []*corev1.Pod{nudged("9007199254740991")}}, 5, mostNumber - 1},
		"a pod, just above":           {world{pods: []*corev1.Pod{nudged("9007199254740992")}}, 5, 5},
		"a pod, the highest number":   {world{pods: []*corev1.Pod{nudged(strconv.FormatInt(math.MaxInt64, 10))}}, 5, 5},
		"a pod, above what fits":      {world{pods: []*corev1.Pod{nudged(strings.Repeat("9", 100))}}, 5, 5},
		"a pod, the lowest of all":    {world{pods: []*corev1.Pod{nudged(strconv.FormatInt(math.MinInt64, 10))}}, 5, 5},
		"a pod that is behind others": {world{pods: []*corev1.Pod{nudged("3")}}, 5, 5},
	} {
		pool := &v1alpha1.WorkerPool{Status: v1alpha1.WorkerPoolStatus{Version: c.status}}
		if got := c.world.floor(pool); got != c.want {
			t.Errorf("%s: got %d, want %d", reason, got, c.want)
		}
	}
}

// isTold reports whether an event, sent or pending, says that a number is ignored.
func (e *environment) isTold(t *testing.T, about string) bool {
	t.Helper()
	for _, news := range e.remember(e.stored(t)).news {
		e.told = append(e.told, news.reason+": "+news.message)
	}
	return slices.ContainsFunc(e.told, func(news string) bool {
		return strings.HasPrefix(news, "NumberIgnored") && strings.Contains(news, about)
	})
}

// If an implausible number is stored in the status, config or revisions of a pool, the next change is published under numbers that can be
// stored, and an event explains it.
func TestNumbersThatNoPoolReachesAreIgnored(t *testing.T) {
	for reason, c := range map[string]struct {
		poison func(*testing.T, *environment, int64)
		number int64
		event  string
	}{
		"status, the highest that counts":   {poisonStatus, mostInStatus - 1, ""},
		"status, just above":                {poisonStatus, mostInStatus, "status.version"},
		"status, what the API accepts":      {poisonStatus, mostNumber, "status.convergedRevision"},
		"status, the highest number":        {poisonStatus, math.MaxInt64, "status.revision"},
		"config":                            {poisonConfig, mostInStatus, ""},
		"config, just above":                {poisonConfig, mostNumber, ""},
		"config, the highest number":        {poisonConfig, math.MaxInt64, ""},
		"config, a number below 0":          {poisonConfig, -1, ""},
		"revision":                          {poisonRevision, mostInStatus, ""},
		"revision, just above":              {poisonRevision, mostNumber, ""},
		"revision, the highest number":      {poisonRevision, math.MaxInt64, ""},
		"version of a revision, just above": {poisonVersion, mostNumber, ""},
		"version of a revision, the most":   {poisonVersion, math.MaxInt64, ""},
	} {
		t.Run(reason, func(t *testing.T) {
			e := publishedPool(t)
			c.poison(t, e, c.number)
			e.memories = map[client.ObjectKey]*memory{} // another leader
			e.addJob(t)
			e.expectToPublish(t, "added")
			if c.event != "" && !e.isTold(t, c.event) {
				t.Errorf("events: %q", e.told)
			}
		})
	}
}

// The last number has no successor. The pool reports what to delete, and then continues.
func TestRevisionWithTheLastNumberIsExplained(t *testing.T) {
	e := publishedPool(t)
	poisonRevision(t, e, mostNumber-1)
	e.addJob(t)
	e.reconcilePool(t)
	degraded := meta.FindStatusCondition(e.reconcilePool(t).Status.Conditions, v1alpha1.ConditionDegraded)
	if degraded == nil || !strings.Contains(degraded.Message, "delete the ControllerRevisions of the pool with numbers from 4503599627370496 on") {
		t.Errorf("Degraded is %+v", degraded)
	}
	forged := &appsv1.ControllerRevision{}
	e.get(t, "forged", forged)
	if err := e.client.Delete(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	e.expectToPublish(t, "added")
}

func (e *environment) addJob(t *testing.T) {
	t.Helper()
	pool := e.stored(t)
	pool.Generation++
	pool.Spec.Jobs = append(pool.Spec.Jobs, v1alpha1.Job{Name: "added"})
	if err := e.client.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
}

// expectToPublish reconciles until a job is on a list, or in a revision whose lists follow when the workers have confirmed the current
// ones.
func (e *environment) expectToPublish(t *testing.T, job string) {
	t.Helper()
	var sheet *sheet
	for range 10 {
		pool, config := e.reconcilePool(t), &corev1.ConfigMap{}
		for _, number := range []int64{pool.Status.Version, pool.Status.Revision, pool.Status.ConvergedRevision} {
			if number < 0 {
				t.Fatalf("status %+v", pool.Status)
			}
		}
		e.get(t, "w-config", config)
		if sheet = read(config, "config.yml"); !sheet.torn && strings.Contains(sheet.file.String(), job) {
			return
		}
	}
	t.Errorf("job %s is on no list, torn: %t: %s", job, sheet.torn, sheet.file)
}

func poisonStatus(t *testing.T, e *environment, number int64) {
	t.Helper()
	pool := e.stored(t)
	pool.Status.Version, pool.Status.Revision, pool.Status.ConvergedRevision = number, number, number
	if err := e.client.Status().Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
}

func poisonConfig(t *testing.T, e *environment, number int64) {
	t.Helper()
	config := &corev1.ConfigMap{}
	e.get(t, "w-config", config)
	sheet := read(config, "config.yml")
	sheet.file.Version = number
	for n := range sheet.file.Workers {
		sheet.file.Workers[n].Version = number
	}
	object, refused := sheet.written(e.stored(t), 1) // with the right checksum
	if refused != nil {
		t.Fatal(refused)
	}
	if err := e.client.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// poisonRevision adds a revision that the operator has not made, as any user can who may create ControllerRevisions.
func poisonRevision(t *testing.T, e *environment, number int64) {
	t.Helper()
	forgeRevision(t, e, number, number)
}

func poisonVersion(t *testing.T, e *environment, number int64) {
	t.Helper()
	forgeRevision(t, e, 2, number)
}

func forgeRevision(t *testing.T, e *environment, number, version int64) {
	t.Helper()
	data, err := json.Marshal(roster.Revision{Version: version, Workers: []roster.RevisionShare{{Worker: "w-0", Version: version, Jobs: []string{"z"}}}})
	if err != nil {
		t.Fatal(err)
	}
	pool := e.stored(t)
	forged := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "sim", Name: "forged", Labels: map[string]string{v1alpha1.LabelPool: "pool"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pool, v1alpha1.GroupVersion.WithKind("WorkerPool"))},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
	if err := e.client.Create(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
}
