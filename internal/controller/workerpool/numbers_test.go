package workerpool

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
)

// hasEvent reports whether an event, sent or pending, says that a number is ignored.
func (e *environment) hasEvent(t *testing.T, substring string) bool {
	t.Helper()
	for _, event := range e.stateFor(e.getPool(t)).events {
		e.events = append(e.events, event.reason+": "+event.message)
	}
	return slices.ContainsFunc(e.events, func(event string) bool {
		return strings.HasPrefix(event, "NumberIgnored") && strings.Contains(event, substring)
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
		"status, the highest that counts":   {setStatusNumbers, plan.MaxStatusNumber - 1, ""},
		"status, just above":                {setStatusNumbers, plan.MaxStatusNumber, "status.version"},
		"status, what the API accepts":      {setStatusNumbers, plan.MaxNumber, "status.convergedRevision"},
		"status, the highest number":        {setStatusNumbers, math.MaxInt64, "status.revision"},
		"config":                            {setConfigVersions, plan.MaxStatusNumber, ""},
		"config, just above":                {setConfigVersions, plan.MaxNumber, ""},
		"config, the highest number":        {setConfigVersions, math.MaxInt64, ""},
		"config, a number below 0":          {setConfigVersions, -1, ""},
		"revision":                          {addRevision, plan.MaxStatusNumber, ""},
		"revision, just above":              {addRevision, plan.MaxNumber, ""},
		"revision, the highest number":      {addRevision, math.MaxInt64, ""},
		"version of a revision, just above": {addRevisionWithVersion, plan.MaxNumber, ""},
		"version of a revision, the most":   {addRevisionWithVersion, math.MaxInt64, ""},
	} {
		t.Run(reason, func(t *testing.T) {
			e := newPublishedPool(t)
			c.poison(t, e, c.number)
			e.states = map[client.ObjectKey]*localState{} // another leader
			e.addJob(t)
			e.requirePublished(t, "added")
			if c.event != "" && !e.hasEvent(t, c.event) {
				t.Errorf("events: %q", e.events)
			}
		})
	}
}

// The last number has no successor. The pool reports what to delete, and then continues.
func TestRevisionWithTheLastNumberIsExplained(t *testing.T) {
	e := newPublishedPool(t)
	addRevision(t, e, plan.MaxNumber-1)
	e.addJob(t)
	e.reconcilePool(t)
	degraded := meta.FindStatusCondition(e.reconcilePool(t).Status.Conditions, v1alpha1.ConditionDegraded)
	if degraded == nil || !strings.Contains(degraded.Message,
		"delete the ControllerRevisions of the pool with numbers from 4503599627370496 on") {
		t.Errorf("Degraded is %+v", degraded)
	}
	forged := &appsv1.ControllerRevision{}
	e.get(t, "forged", forged)
	if err := e.client.Delete(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	e.requirePublished(t, "added")
}

func (e *environment) addJob(t *testing.T) {
	t.Helper()
	pool := e.getPool(t)
	pool.Generation++
	pool.Spec.Jobs = append(pool.Spec.Jobs, v1alpha1.Job{Name: "added"})
	if err := e.client.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
}

// requirePublished reconciles until a job is on a list, or in a revision whose lists follow when the workers have confirmed the current
// ones.
func (e *environment) requirePublished(t *testing.T, job string) {
	t.Helper()
	var cm *plan.ConfigMap
	for range 10 {
		pool, config := e.reconcilePool(t), &corev1.ConfigMap{}
		for _, number := range []int64{pool.Status.Version, pool.Status.Revision, pool.Status.ConvergedRevision} {
			if number < 0 {
				t.Fatalf("status %+v", pool.Status)
			}
		}
		e.get(t, "w-config", config)
		if cm = plan.ParseConfigMap(config, "config.yml"); !cm.Modified && strings.Contains(cm.File.String(), job) {
			return
		}
	}
	t.Errorf("job %s is on no list, torn: %t: %s", job, cm.Modified, cm.File)
}

func setStatusNumbers(t *testing.T, e *environment, number int64) {
	t.Helper()
	pool := e.getPool(t)
	pool.Status.Version, pool.Status.Revision, pool.Status.ConvergedRevision = number, number, number
	if err := e.client.Status().Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
}

func setConfigVersions(t *testing.T, e *environment, number int64) {
	t.Helper()
	config := &corev1.ConfigMap{}
	e.get(t, "w-config", config)
	cm := plan.ParseConfigMap(config, "config.yml")
	cm.File.Version = number
	for n := range cm.File.Workers {
		cm.File.Workers[n].Version = number
	}
	object, problem := cm.Render(e.getPool(t), 1) // with the right checksum
	if problem != nil {
		t.Fatal(problem)
	}
	if err := e.client.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// addRevision adds a revision that the operator has not made, as any user can who may create ControllerRevisions.
func addRevision(t *testing.T, e *environment, number int64) {
	t.Helper()
	createForeignRevision(t, e, number, number)
}

func addRevisionWithVersion(t *testing.T, e *environment, number int64) {
	t.Helper()
	createForeignRevision(t, e, 2, number)
}

func createForeignRevision(t *testing.T, e *environment, number, version int64) {
	t.Helper()
	data, err := json.Marshal(codec.Revision{Version: version, Workers: []codec.RevisionShare{{Worker: "w-0", Version: version,
		Jobs: []string{"z"}}}})
	if err != nil {
		t.Fatal(err)
	}
	pool := e.getPool(t)
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
