package kit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// acceptingClient is a cluster that accepts every status.
type acceptingClient struct{ client.Client }

func (acceptingClient) Status() client.SubResourceWriter { return acceptingWriter{} }

type acceptingWriter struct{ client.SubResourceWriter }

func (acceptingWriter) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return nil
}

func TestStatusThrottleDelaysIgnoredChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := (&Status[*corev1.Pod]{client: acceptingClient{}}).Throttled(10*time.Second, func(pod *corev1.Pod) { pod.Status.Message = "" })
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p", ResourceVersion: "1"}}
		delayOf := func(phase corev1.PodPhase, message string) time.Duration {
			var conditions []metav1.Condition
			report := status.Report(pod, &conditions)
			pod.Status.Phase, pod.Status.Message = phase, message
			delay := report.WriteDelay()
			if delay == 0 {
				if err := report.Write(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return delay
		}
		for _, c := range []struct {
			why     string
			phase   corev1.PodPhase
			message string
			passes  time.Duration
			left    time.Duration
		}{
			{"the first thing it says", corev1.PodRunning, "1", 0, 0},
			{"a message so soon", corev1.PodRunning, "2", 4 * time.Second, 6 * time.Second},
			{"a message in time", corev1.PodRunning, "3", 6 * time.Second, 0},
			{"nothing at all", corev1.PodRunning, "3", time.Second, 0},
			{"something that cannot wait", corev1.PodFailed, "4", time.Second, 0},
		} {
			time.Sleep(c.passes)
			if delay := delayOf(c.phase, c.message); delay != c.left {
				t.Errorf("%s: waits %s, want %s", c.why, delay, c.left)
			}
		}
	})
}
