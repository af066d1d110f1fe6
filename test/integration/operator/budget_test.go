package operator

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

func showTasksPerNamespace(ctx SpecContext) {
	showTaskLimit(ctx, "limits.tasksPerNamespace", "SWARM_LIMITS_TASKS_PER_NAMESPACE=1", taskOrder{})
}

func showBytesPerNamespace(ctx SpecContext) {
	showTaskLimit(ctx, "limits.bytesPerNamespace", "SWARM_LIMITS_BYTES_PER_NAMESPACE=16Ki", taskOrder{Result: strings.Repeat("1", 7900)})
}

// showTaskLimit uses a setting that leaves room for one of two tasks.
func showTaskLimit(ctx SpecContext, key, setting string, payload taskOrder) {
	GinkgoHelper()
	ns := namespace(ctx, nil)
	startOperator(onlyNamespace(ns), setting)
	nowhere := newTeam(ns, "nowhere", 1) // which does not exist, so that tasks wait
	first := submit(ctx, nowhere, "first", payload)
	Eventually(waitOf(ns, "first")).WithContext(ctx).WithTimeout(20 * time.Second).Should(HavePrefix("SwarmNotFound"))
	submit(ctx, nowhere, "second", payload)
	Eventually(waitOf(ns, "second")).WithContext(ctx).WithTimeout(20 * time.Second).Should(And(HavePrefix("NamespaceLimitReached"),
		ContainSubstring(key)))
	Expect(api.Delete(ctx, first)).To(Succeed())
	Eventually(waitOf(ns, "second")).WithContext(ctx).Should(HavePrefix("SwarmNotFound"))
}

// waitOf returns why a task waits, for Eventually.
func waitOf(ns, task string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		found := &v1alpha1.Task{}
		err := api.Get(ctx, client.ObjectKey{Namespace: ns, Name: task}, found)
		return found.Status.Reason + ": " + found.Status.Message, err
	}
}

// bulkyTeam is a team whose template, and so each of its StatefulSets, has more than half of a megabyte.
func bulkyTeam(ns, name string) *v1alpha1.Swarm {
	made := newTeam(ns, name, 2)
	container := &made.Spec.Agents[0].Template.Spec.Containers[0]
	container.Env = []corev1.EnvVar{{Name: "BULK", Value: strings.Repeat("x", 600<<10)}}
	return made
}

// showCacheBytesPerNamespace has a limit that leaves room for one of two large Swarms. The first one is paused, so that it only takes room.
func showCacheBytesPerNamespace(ctx SpecContext) {
	ns, port := namespace(ctx, nil), ports.Free()
	session := startOperator(onlyNamespace(ns), "SWARM_LIMITS_CACHE_BYTES_PER_NAMESPACE=1Mi",
		"SWARM_METRICS_ENABLED=true", "SWARM_METRICS_SECURE=false", "SWARM_METRICS_PORT="+port)
	reduced := func(ctx context.Context) (float64, error) {
		return series(ctx, port, "swarm_limit_refused_total", `limit="cacheBytesPerNamespace"`)
	}
	first, second := bulkyTeam(ns, "first"), bulkyTeam(ns, "second")
	first.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
	Expect(api.Create(ctx, first)).To(Succeed())
	Eventually(reduced).WithContext(ctx).Should(BeZero()) // it is served
	Consistently(reduced).WithContext(ctx).WithTimeout(5 * time.Second).Should(BeZero())
	Expect(api.Create(ctx, second)).To(Succeed())
	Eventually(agents).WithContext(ctx).WithArguments(ns).Should(HaveLen(2))
	Expect(reduced(ctx)).To(BeNumerically(">", 0))
	Eventually(session.Err).Should(gbytes.Say("exceeds limits.cacheBytesPerNamespace"))
	Expect(api.Patch(ctx, second, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"replicas": 3}}`)))).To(Succeed())
	Eventually(agents).WithContext(ctx).WithArguments(ns).Should(HaveLen(3))
}
