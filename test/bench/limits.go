package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/test/bench/report"
)

const (
	leaderMemory      = 200 // MB
	etcdGrowth        = 20  // MB, of the mesh
	maxHandBackWrites = 2   // a second, for an agent that hands everything back
	payloadTasks      = 2_000
	payloadBytes      = 512 << 10
	foreign           = 1_000           // ConfigMaps
	foreignBytes      = 1<<20 - 1<<10   // the largest that the API server takes, less what the rest of the object may have
	foreignTime       = 6 * time.Minute // to create them
	meshAgents        = 1_000           // the most that a swarm may have
	meshChange        = 10              // agents fewer, and then more again
	meshScalings      = 10              // and so many times in all
	settlePause       = 5 * time.Second // after each step, in which the memory of the operator may still grow
	sampleEvery       = 50 * time.Millisecond
)

// limits measures what one tenant can cost the operator, etcd and another tenant. The mesh comes first, because it measures
// the growth of etcd.
func (b *bench) limits(ctx context.Context) error {
	for _, measure := range []func(context.Context) error{b.mesh, b.sharedPayload, b.foreignConfigs, b.posts, b.handBacks, b.tenants} {
		if err := b.cluster.clear(ctx, &v1alpha1.TaskList{}, &v1alpha1.Task{}); err != nil {
			return err
		}
		if err := b.restart(ctx); err != nil {
			return err
		}
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// peakMemory runs a step and returns the largest resident set of the operator in MB, until a little later.
func (b *bench) peakMemory(ctx context.Context, step func(context.Context) error) (float64, error) {
	var peak atomic.Int64
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		wait.UntilWithContext(watching, func(context.Context) {
			if now, err := b.operator.memory(); err == nil {
				peak.Store(max(peak.Load(), int64(now*1000)))
			}
		}, sampleEvery)
	})
	err := step(ctx)
	if err == nil {
		err = pause(ctx, settlePause)
	}
	stop()
	watcher.Wait()
	return float64(peak.Load()) / 1000, err
}

func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}

// mesh measures a mesh of the largest size that is scaled down and up again.
func (b *bench) mesh(ctx context.Context) error {
	fmt.Printf("waiting for a mesh of %d agents\n", meshAgents)
	var growth float64
	memory, err := b.peakMemory(ctx, func(ctx context.Context) error {
		if err := b.cluster.swarm(ctx, "mesh", meshAgents, 1); err != nil {
			return err
		}
		if err := b.cluster.sized(ctx, "mesh", meshAgents); err != nil {
			return err
		}
		if err := b.awaitQuiet(ctx); err != nil {
			return err
		}
		before, err := b.cluster.storage(ctx)
		if err != nil {
			return err
		}
		for n := range meshScalings {
			if err := b.cluster.resize(ctx, "mesh", meshAgents-meshChange*int32((n+1)%2)); err != nil {
				return err
			}
		}
		if err := b.awaitQuiet(ctx); err != nil {
			return err
		}
		after, err := b.cluster.storage(ctx)
		growth = after - before
		return err
	})
	if err != nil {
		return err
	}
	b.reportMesh(memory, growth)
	return nil
}

func (b *bench) reportMesh(memory, grown float64) {
	what := fmt.Sprintf("a mesh of %d agents, scaled %d times by %d", meshAgents, meshScalings, meshChange)
	b.reportLeader(what, memory, true)
	b.report.Count("growth of etcd, "+what, grown, etcdGrowth, "MB")
}

// reportLeader reports what the leader used while a tenant was active. Exceeding the bound fails the benchmark on any
// machine, because the bound is a promise. The row is not reached if the tenant could not finish.
func (b *bench) reportLeader(what string, memory float64, reached bool) {
	b.report.Add(report.Line{
		Measure: "RSS of the leader, " + what, Ours: memory, Target: leaderMemory, Unit: "MB", Counted: true, NotReached: !reached,
	})
}

// resize sets the replicas of a swarm and waits until it has them.
func (c *cluster) resize(ctx context.Context, name string, replicas int32) error {
	swarm := &v1alpha1.Swarm{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}}
	if err := c.api.Patch(ctx, swarm, client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))); err != nil {
		return fmt.Errorf("scale swarm %q: %w", name, err)
	}
	return c.sized(ctx, name, replicas)
}

// sized waits until so many agents of a swarm are ready, and no others exist.
func (c *cluster) sized(ctx context.Context, name string, agents int32) error {
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, podTimeout, true, func(ctx context.Context) (bool, error) {
		swarm := &v1alpha1.Swarm{}
		err := c.api.Get(ctx, client.ObjectKey{Namespace: space, Name: name}, swarm)
		return swarm.Status.ObservedGeneration == swarm.Generation && swarm.Status.ReadyAgents == agents && swarm.Status.ActiveAgents == agents,
			err
	})
	if err != nil {
		return fmt.Errorf("wait for %d agents of swarm %q: %w", agents, name, err)
	}
	return nil
}

// storage is the size of etcd's database in MB, as reported by the API server.
func (c *cluster) storage(ctx context.Context) (float64, error) {
	core, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return 0, fmt.Errorf("read metrics of the API server: %w", err)
	}
	text, err := core.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("read metrics of the API server: %w", err)
	}
	metrics, err := samples(strings.NewReader(string(text)))
	size := metrics.sum("apiserver_storage_size_bytes")
	if err == nil && size == 0 {
		err = errors.New("the API server does not report the size of etcd")
	}
	return size / 1e6, err
}

// sharedPayload measures tasks that share one large payload, while they wait and while they finish.
func (b *bench) sharedPayload(ctx context.Context) error {
	if err := b.cluster.swarm(ctx, "payload", 5, 2); err != nil {
		return err
	}
	if err := b.cluster.awaitSwarmsReady(ctx); err != nil {
		return err
	}
	if err := b.cluster.setMode(ctx, "payload", v1alpha1.SwarmPaused); err != nil {
		return err
	}
	large := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "payload"}, Data: map[string]string{
		"payload": `{"milliseconds":0,"filler":"` + strings.Repeat("x", payloadBytes-40) + `"}`,
	}}
	if err := b.cluster.api.Create(ctx, large); err != nil {
		return fmt.Errorf("create the payload: %w", err)
	}
	memory, err := b.peakMemory(ctx, func(ctx context.Context) error {
		if err := forEach(ctx, payloadTasks, b.cluster.payloadTask); err != nil {
			return err
		}
		if err := pause(ctx, settlePause); err != nil {
			return err
		}
		finished, err := b.cluster.watchCompleted(ctx)
		if err != nil {
			return err
		}
		if err := b.cluster.setMode(ctx, "payload", v1alpha1.SwarmRunning); err != nil {
			return err
		}
		return awaitAll(ctx, finished, nil, "payload", payloadTasks)
	})
	b.reportLeader(fmt.Sprintf("%d tasks on one ConfigMap of %d KiB", payloadTasks, payloadBytes>>10), memory, err == nil)
	return err
}

// payloadTask creates a task whose payload is in the ConfigMap.
func (c *cluster) payloadTask(ctx context.Context, n int) error {
	return c.api.Create(ctx, &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: fmt.Sprintf("payload-%05d", n)},
		Spec: v1alpha1.TaskSpec{
			SwarmRef:    v1alpha1.SwarmReference{Name: "payload"},
			PayloadFrom: &v1alpha1.PayloadSource{ConfigMapKeyRef: v1alpha1.ConfigMapKey{Name: "payload", Key: "payload"}},
		},
	})
}

// foreignConfigs measures ConfigMaps that do not concern the operator: while they are created, and when an operator starts with them.
func (b *bench) foreignConfigs(ctx context.Context) error {
	count := 0
	duringCreation, err := b.peakMemory(ctx, func(ctx context.Context) error {
		var err error
		count, err = b.cluster.createForeign(ctx)
		return err
	})
	if err != nil {
		return err
	}
	b.operator.stop()
	if b.operator, err = b.cluster.startOperator(ctx); err != nil {
		return err
	}
	starting, err := b.peakMemory(ctx, b.operator.awaitLeading)
	b.reportForeign(count, max(duringCreation, starting))
	// One by one: for a collective deletion, the API server would list all of them.
	return errors.Join(err, forEach(ctx, count, func(ctx context.Context, n int) error {
		return client.IgnoreNotFound(b.cluster.api.Delete(ctx, foreignConfig(n)))
	}))
}

func (b *bench) reportForeign(created int, memory float64) {
	fmt.Printf("%d foreign ConfigMaps were created\n", created)
	b.reportLeader(fmt.Sprintf("%d foreign ConfigMaps of 1 MiB", foreign), memory, created == foreign)
}

// createForeign creates as many large ConfigMaps as the machine can in time.
func (c *cluster) createForeign(ctx context.Context) (int, error) {
	var created atomic.Int64
	limited, cancel := context.WithTimeout(ctx, foreignTime)
	defer cancel()
	err := forEach(limited, foreign, func(ctx context.Context, n int) error {
		one := foreignConfig(n)
		one.Data = map[string]string{"text": strings.Repeat("x", foreignBytes)}
		if err := c.api.Create(ctx, one); err != nil {
			return fmt.Errorf("create a foreign ConfigMap: %w", err)
		}
		created.Add(1)
		return nil
	})
	if limited.Err() != nil && ctx.Err() == nil {
		err = nil // the row says that it was not reached
	}
	return int(created.Load()), err
}

func foreignConfig(n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: fmt.Sprintf("foreign-%04d", n)}}
}
