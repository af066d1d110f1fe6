package plan

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// addOverdueWorker adds a ready worker that has not acknowledged its list in time.
func addOverdueWorker(d *planner, name string, ordinal int, ready bool) {
	pod := podNamed(name)
	if ready {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	d.podsByName[name] = pod
	d.memberSet.members = append(d.memberSet.members, member{Worker: assign.Worker{Name: name, Ordinal: ordinal}, pod: pod, ready: ready,
		wanted: true})
	d.records = append(d.records, assign.Record{Worker: name, Ordinal: ordinal, PodUID: string(pod.UID), Overdue: true,
		Lists: []assign.ListVersion{{Version: 2, Jobs: []string{"a"}}}})
}

func TestNoMorePodsAreReplacedAtOnceThanMayBeUnavailable(t *testing.T) {
	for reason, c := range map[string]struct {
		most   int32
		ready  []bool
		change func(*planner)
		want   string
	}{
		"one of three":               {1, []bool{true, true, true}, nil, "w-0"},
		"two of three":               {2, []bool{true, true, true}, nil, "w-0 w-1"},
		"one is away already":        {1, []bool{true, false, true}, nil, "w-1"},
		"paused":                     {3, []bool{true, true}, func(d *planner) { d.Paused = true }, ""},
		"something is published now": {3, []bool{true, true}, func(d *planner) { d.ConfigMaps = []*ConfigMap{{}} }, ""},
		"the policy does not restart": {3, []bool{true, true}, func(d *planner) { d.pool.Spec.Refresh.Policy = v1alpha1.RefreshHotReload },
			""},
		"a pod that goes is not evicted": {1, []bool{true, false}, func(d *planner) { d.podsByName["w-1"].DeletionTimestamp = new(metav1.Now()) },
			""},
	} {
		t.Run(reason, func(t *testing.T) {
			pool := newPool()
			pool.Spec.Refresh.MaxUnavailable = c.most
			d := &planner{pool: pool, clocks: &Clocks{}, podsByName: map[string]*corev1.Pod{}}
			for n, ready := range c.ready {
				addOverdueWorker(d, "w-"+string(rune('0'+n)), n, ready)
			}
			if c.change != nil {
				c.change(d)
			}
			d.planEvictions()
			var evicted []string
			for _, one := range d.Evictions {
				evicted = append(evicted, one.Pod.Name)
			}
			if got := strings.Join(evicted, " "); got != c.want {
				t.Errorf("evicts %q, want %q", got, c.want)
			}
		})
	}
}
