package cli

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func deletingSwarm(namespace, name string, ago time.Duration, finalizers ...string) client.Object {
	swarm := &v1alpha1.Swarm{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers}}
	if ago > 0 {
		swarm.DeletionTimestamp = &metav1.Time{Time: testTime.Add(-ago)}
	}
	return swarm
}

func TestUnstickRemovesFinalizers(t *testing.T) {
	const other = "example.com/archive"
	for line, c := range map[string]struct {
		code      int
		out, said string
		left      int
	}{
		"unstick":    {0, "swarm.swarm.io/old in namespace default released\n", "", 4},
		"unstick -A": {0, "swarm.swarm.io/old in namespace default released\nswarm.swarm.io/far in namespace team released\n", "", 3},
		"unstick -A --dry-run": {0,
			"swarm.swarm.io/old in namespace default would be released\nswarm.swarm.io/far in namespace team would be released\n", "", 5},
		"unstick fresh":      {0, "swarm.swarm.io/fresh in namespace default released\n", "", 4},
		"unstick -n nowhere": {0, "", "no Swarm is stuck\n", 5},
		"unstick running":    {1, "", "kubectl swarm: swarm \"running\" is not being deleted: kubectl delete swarm running comes first\n", 5},
		"unstick missing":    {1, "", "kubectl swarm: there is no swarm \"missing\" in namespace \"default\"\n", 5},
		"unstick -A far": {2, "",
			"kubectl swarm: a swarm is named in one namespace: use -n instead of -A: see kubectl swarm unstick --help\n", 5},
	} {
		t.Run(line, func(t *testing.T) {
			w := newCLIHarness(t, deletingSwarm("default", "running", 0, v1alpha1.Finalizer),
				deletingSwarm("default", "old", time.Hour, v1alpha1.Finalizer),
				deletingSwarm("default", "fresh", 30*time.Second, v1alpha1.Finalizer), deletingSwarm("default", "archived", time.Hour, other),
				deletingSwarm("team", "far", time.Hour, v1alpha1.Finalizer))
			code, out, stderr := w.run(line)
			if code != c.code || out != c.out || stderr != c.said {
				t.Errorf("code %d, %q, %q", code, out, stderr)
			}
			remaining := &v1alpha1.SwarmList{}
			if err := w.api.List(t.Context(), remaining); err != nil || len(remaining.Items) != c.left {
				t.Errorf("%d swarms are left: %v", len(remaining.Items), err)
			}
		})
	}
}
