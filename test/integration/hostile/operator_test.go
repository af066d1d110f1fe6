package hostile

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/certs"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// A leader is the only replica of the operator.
type leader struct {
	session                    *gexec.Session
	home                       string // the namespace of its Lease
	link, webhook, metricsPort string // ports
}

// startLeader starts the operator, which ends with the container of specs, and waits until it leads.
func startLeader(ctx context.Context, home string, settings ...string) *leader {
	GinkgoHelper()
	l := &leader{home: home, link: ports.Free(), webhook: ports.Free(), metricsPort: ports.Free()}
	l.session = testcluster.StartOperator(home, append([]string{
		testcluster.OnlyLabelled(suiteLabel), "SWARM_LINK_PORT=" + l.link, "SWARM_LINK_ADDRESS=127.0.0.1:" + l.link,
		"SWARM_WEBHOOK_ENABLED=true", "SWARM_WEBHOOK_PORT=" + l.webhook,
		"SWARM_METRICS_ENABLED=true", "SWARM_METRICS_SECURE=false", "SWARM_METRICS_PORT=" + l.metricsPort,
	}, settings...)...)
	DeferCleanup(func() { l.session.Terminate().Wait(20 * time.Second) })
	Eventually(l.session.Err).WithContext(ctx).Should(gbytes.Say("Starting workers"))
	return l
}

// A leaderTerm is a leader and its term.
type leaderTerm struct {
	holder      string
	transitions int32
	stored      string // the newest term that a leader has claimed
}

// readTerm reads the Lease and the Secret of the link.
func (l *leader) readTerm(ctx context.Context) (leaderTerm, error) {
	lease, secret := &coordinationv1.Lease{}, &corev1.Secret{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: l.home, Name: "swarm-operator"}, lease); err != nil {
		return leaderTerm{}, err
	}
	if err := api.Get(ctx, client.ObjectKey{Namespace: l.home, Name: certs.SecretName}, secret); err != nil {
		return leaderTerm{}, err
	}
	if lease.Spec.HolderIdentity == nil || lease.Spec.LeaseTransitions == nil {
		return leaderTerm{}, fmt.Errorf("the Lease has no holder or no transitions: %v", lease.Spec)
	}
	return leaderTerm{*lease.Spec.HolderIdentity, *lease.Spec.LeaseTransitions, secret.Annotations[v1alpha1.AnnotationTerm]}, nil
}

// memory is the resident set in bytes.
func (l *leader) memory() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.session.Command.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("read memory: no VmRSS in %q", text)
}

// watchMemory returns a function that ends the watch and returns the largest resident set that was seen.
func (l *leader) watchMemory() (most func() int64) {
	var largest atomic.Int64
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for ticks := time.NewTicker(50 * time.Millisecond); ; {
			if now, err := l.memory(); err == nil {
				largest.Store(max(largest.Load(), now))
			}
			select {
			case <-done:
				ticks.Stop()
				return
			case <-ticks.C:
			}
		}
	})
	return func() int64 {
		close(done)
		watch.Wait()
		return largest.Load()
	}
}

// checkDeleted returns NotFound once an object no longer exists.
func checkDeleted(ctx context.Context, object client.Object) error {
	if err := api.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	return fmt.Errorf("%T %q is still there", object, object.GetName())
}

// watchProcessor returns a function that reports the processor time spent, which helps to explain the latency.
func (l *leader) watchProcessor() func() string {
	pids, began := []int{l.session.Command.Process.Pid, os.Getpid()}, time.Now()
	before := []time.Duration{processorTime(pids[0]), processorTime(pids[1])}
	return func() string {
		return fmt.Sprintf("operator %s, agents and attacks %s, in %s",
			processorTime(pids[0])-before[0], processorTime(pids[1])-before[1], time.Since(began).Round(time.Second))
	}
}

// processorTime is how much a process has taken so far, 0 if that is not known.
func processorTime(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // Linux counts in hundredths of a second
}
