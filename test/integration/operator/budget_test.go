package operator

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func showTasksPerNamespace(ctx SpecContext) {
	showTaskLimit(ctx, "limits.tasksPerNamespace", "SWARM_LIMITS_TASKS_PER_NAMESPACE=1", order{})
}

func showBytesPerNamespace(ctx SpecContext) {
	showTaskLimit(ctx, "limits.bytesPerNamespace", "SWARM_LIMITS_BYTES_PER_NAMESPACE=16Ki", order{Returns: strings.Repeat("1", 7900)})
}

// showTaskLimit has a setting that leaves room for one of two tasks.
func showTaskLimit(ctx SpecContext, key, setting string, payload order) {
	GinkgoHelper()
	in := namespace(ctx, nil)
	program(only(in), setting)
	nowhere := team(in, "nowhere", 1) // which is not created, so that tasks wait
	first := submit(ctx, nowhere, "first", payload)
	Eventually(waitOf(in, "first")).WithContext(ctx).WithTimeout(20 * time.Second).Should(HavePrefix("SwarmNotFound"))
	submit(ctx, nowhere, "second", payload)
	Eventually(waitOf(in, "second")).WithContext(ctx).WithTimeout(20 * time.Second).Should(And(HavePrefix("NamespaceLimitReached"), ContainSubstring(key)))
	Expect(api.Delete(ctx, first)).To(Succeed())
	Eventually(waitOf(in, "second")).WithContext(ctx).Should(HavePrefix("SwarmNotFound"))
}

// waitOf is why a task waits, for Eventually.
func waitOf(in, task string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		found := &v1alpha1.Task{}
		err := api.Get(ctx, client.ObjectKey{Namespace: in, Name: task}, found)
		return found.Status.Reason + ": " + found.Status.Message, err
	}
}
