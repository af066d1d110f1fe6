package crash

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/internal/testkit/fakeagents"
)

// stageTimeout is how long a stage may take: a new leader waits for an agent's lease and a margin at most.
const stageTimeout = time.Minute

// A scenario is the life of a swarm, a pool or a workload, from its creation to its end.
type scenario struct {
	stages            []testStage
	repeat            map[string]int                                   // how often an operator is killed after each write; default once
	concurrency       int                                              // this many runs go on at the same time: they mostly wait
	everyKinds        []string                                         // kinds of writes after which an operator is killed; none: all
	moves             map[string]bool                                  // stages in which pods are replaced by others of the same name
	startAgents       func(context.Context, *run) error                // starts what pods should run
	configureOperator func(context.Context, *run) error                // changes how the operator is started; nil: nothing is changed
	verify            func(*run) (noted []fmt.Stringer, problem error) // ends it, and returns what it has seen
}

// A run is one run of a scenario with its own operator.
type run struct {
	scenario
	namespace string
	operator  *operator
	proxy     *proxy
	agents    *fakeagents.AgentSet // of a swarm
	states    []state              // after each stage
	finished  map[string]int64     // tasks by UID, with the epoch of the accepted result
	duration  time.Duration
}

// runOnce runs all stages, with the operator killed right after some writes. The undisturbed run records the expected state after each
// stage.
func (s scenario) runOnce(ctx context.Context, crashPoints []crashPoint, undisturbed *run) (played *run, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(s.stages))*stageTimeout)
	defer cancel()
	began := time.Now()
	r := &run{scenario: s, finished: map[string]int64{}}
	if err := r.start(ctx, crashPoints); err != nil {
		return r, err
	}
	for n := range s.stages {
		if err = r.runStage(ctx, n, undisturbed); err != nil {
			err = fmt.Errorf("stage %q: %w", s.stages[n].name, err)
			break
		}
	}
	r.duration = time.Since(began)
	return r, errors.Join(err, r.finish(err))
}

// start creates a namespace and starts everything in it.
func (r *run) start(ctx context.Context, fatal []crashPoint) error {
	r.proxy = &proxy{crashPoints: fatal, victim: func() { r.operator.kill() }}
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "swarm-crash-"}}
	if err := errors.Join(api.Create(ctx, made), listen(ctx, r.proxy)); err != nil {
		return err
	}
	r.namespace = made.Name
	if err := r.startAgents(ctx, r); err != nil {
		return err
	}
	var err error
	if r.operator, err = prepare(r.namespace, r.proxy.address); err != nil {
		return err
	}
	if r.configureOperator != nil {
		if err := r.configureOperator(ctx, r); err != nil {
			return err
		}
	}
	return r.operator.start()
}

// finish stops everything, and checks what pods and the operator have reported.
func (r *run) finish(failed error) error {
	noted, problem := r.verify(r)
	problem = errors.Join(r.operator.stop(), problem)
	if failed != nil || problem != nil {
		r.printFailure(errors.Join(failed, problem), noted)
		return problem
	}
	if r.operator.tempDir != r.namespace {
		problem = api.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.operator.tempDir}})
	}
	return errors.Join(problem, api.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}))
}

// printFailure prints everything known about a failed run. The namespace of the run is kept.
func (r *run) printFailure(problem error, entries []fmt.Stringer) {
	seen, _ := exec.Command("kubectl", "get", "nodes,swarms,agents,tasks,workerpools,statefulsets,pods", "--namespace", r.namespace,
		"--output", "wide").CombinedOutput()
	writes, reached := r.proxy.recordedWrites()
	GinkgoWriter.Printf("--- namespace %s, killed after %s (reached: %v): %v\n%s\n%s\n", r.namespace, r.proxy.crashPoints, reached, problem,
		r.operator.logText(), seen)
	for _, write := range writes {
		GinkgoWriter.Println(write)
	}
	for _, entry := range entries {
		GinkgoWriter.Println(entry)
	}
}

// runStage goes through one stage.
func (r *run) runStage(ctx context.Context, n int, undisturbed *run) error {
	stage := r.stages[n]
	r.proxy.startStage(stage.name)
	if err := stage.act(ctx, r); err != nil {
		return err
	}
	var current state
	err := eventually(ctx, func() error {
		if err := stage.done(ctx, r); err != nil {
			return err
		}
		var err error
		if current, err = r.observe(ctx); err != nil || undisturbed == nil {
			return err
		}
		return difference(undisturbed.states[n], current)
	})
	if err == nil && undisturbed == nil {
		current, err = r.awaitSettled(ctx, current)
	}
	if n > 0 && err == nil {
		names := slices.DeleteFunc(current.replacedObjects(r.states[n-1]),
			func(name string) bool { return r.moves[stage.name] && strings.HasPrefix(name, "v1.Pod ") })
		if len(names) > 0 {
			err = fmt.Errorf("replaced by others of the same name: %v", names)
		}
	}
	r.states = append(r.states, current)
	return err
}

// awaitSettled waits until nothing has changed for a while.
func (r *run) awaitSettled(ctx context.Context, current state) (state, error) {
	since := time.Now()
	err := eventually(ctx, func() error {
		next, err := r.observe(ctx)
		if err != nil {
			return err
		}
		if next.String() != current.String() {
			current, since = next, time.Now()
		}
		if quiet := time.Since(since); quiet < 2*time.Second {
			return fmt.Errorf("changed %s ago", quiet)
		}
		return nil
	})
	return current, err
}

// eventually tries until there is no error, and returns the last one.
func eventually(ctx context.Context, try func() error) error {
	var last error
	g := NewGomega(func(string, ...int) {})
	g.Eventually(func() error { last = try(); return last }).WithContext(ctx).WithTimeout(stageTimeout).WithPolling(100 * time.Millisecond).
		Should(Succeed())
	return last
}

// difference shows the lines that are in one state only.
func difference(expected, actual state) error {
	if expected.String() == actual.String() {
		return nil
	}
	var text strings.Builder
	for _, line := range expected.lines {
		if !strings.Contains(actual.String(), line) {
			fmt.Fprintf(&text, "\n  missing: %s", line)
		}
	}
	for _, line := range actual.lines {
		if !strings.Contains(expected.String(), line) {
			fmt.Fprintf(&text, "\n  instead: %s", line)
		}
	}
	return errors.New("not as in the undisturbed run:" + text.String())
}
