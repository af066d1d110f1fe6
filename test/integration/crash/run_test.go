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

	"github.com/swarm-io/swarm-operator/internal/testkit/crew"
)

// patience is how long a stage may take: a new leader waits for an agent's lease and a margin at most.
const patience = time.Minute

// A scenario is a life, of a swarm or of a pool, from its creation to its end.
type scenario struct {
	stages []stage
	repeat map[string]int                                   // how often an operator is killed after each write of a stage; once by default
	atOnce int                                              // this many runs go on at the same time: they mostly wait
	every  []string                                         // kinds of writes: an operator is killed after each of these, and after one of any other; none: after each
	moves  map[string]bool                                  // stages in which pods are replaced by others of the same name
	begin  func(context.Context, *run) error                // starts what pods should run
	adjust func(context.Context, *run) error                // changes how the operator is started; nil: nothing is changed
	end    func(*run) (noted []fmt.Stringer, problem error) // ends it, and returns what it has seen
}

// A run is one life under an operator of its own.
type run struct {
	scenario
	namespace string
	operator  *operator
	proxy     *proxy
	crew      *crew.AgentSet   // of a swarm
	states    []state          // after each stage
	finished  map[string]int64 // tasks by UID, with the epoch of the accepted result
	took      time.Duration
}

// play lives through all stages, with the operator killed right after some writes. What there should be after each stage is known from an
// undisturbed run; in that one it is found out.
func (s scenario) play(ctx context.Context, fatal []point, undisturbed *run) (played *run, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(s.stages))*patience)
	defer cancel()
	began := time.Now()
	r := &run{scenario: s, finished: map[string]int64{}}
	if err := r.start(ctx, fatal); err != nil {
		return r, err
	}
	for n := range s.stages {
		if err = r.live(ctx, n, undisturbed); err != nil {
			err = fmt.Errorf("stage %q: %w", s.stages[n].name, err)
			break
		}
	}
	r.took = time.Since(began)
	return r, errors.Join(err, r.finish(err))
}

// start makes a namespace and starts everything in it.
func (r *run) start(ctx context.Context, fatal []point) error {
	r.proxy = &proxy{fatal: fatal, victim: func() { r.operator.kill() }}
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "swarm-crash-"}}
	if err := errors.Join(api.Create(ctx, made), listen(ctx, r.proxy)); err != nil {
		return err
	}
	r.namespace = made.Name
	if err := r.begin(ctx, r); err != nil {
		return err
	}
	var err error
	if r.operator, err = prepare(r.namespace, r.proxy.address); err != nil {
		return err
	}
	if r.adjust != nil {
		if err := r.adjust(ctx, r); err != nil {
			return err
		}
	}
	return r.operator.start()
}

// finish stops everything. What pods and the operator have seen counts as well.
func (r *run) finish(failed error) error {
	noted, problem := r.end(r)
	problem = errors.Join(r.operator.stop(), problem)
	if failed != nil || problem != nil {
		r.tell(errors.Join(failed, problem), noted)
		return problem
	}
	if r.operator.home != r.namespace {
		problem = api.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.operator.home}})
	}
	return errors.Join(problem, api.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}))
}

// tell prints everything known about a failed run. The namespace of the run is kept.
func (r *run) tell(problem error, noted []fmt.Stringer) {
	seen, _ := exec.Command("kubectl", "get", "nodes,swarms,agents,tasks,workerpools,statefulsets,pods", "--namespace", r.namespace, "--output", "wide").CombinedOutput()
	writes, reached := r.proxy.made()
	GinkgoWriter.Printf("--- namespace %s, killed after %s (reached: %v): %v\n%s\n%s\n", r.namespace, r.proxy.fatal, reached, problem, r.operator.said(), seen)
	for _, write := range writes {
		GinkgoWriter.Println(write)
	}
	for _, entry := range noted {
		GinkgoWriter.Println(entry)
	}
}

// live goes through one stage.
func (r *run) live(ctx context.Context, n int, undisturbed *run) error {
	stage := r.stages[n]
	r.proxy.enter(stage.name)
	if err := stage.act(ctx, r); err != nil {
		return err
	}
	var now state
	err := eventually(ctx, func() error {
		if err := stage.done(ctx, r); err != nil {
			return err
		}
		var err error
		if now, err = r.observe(ctx); err != nil || undisturbed == nil {
			return err
		}
		return difference(undisturbed.states[n], now)
	})
	if err == nil && undisturbed == nil {
		now, err = r.settled(ctx, now)
	}
	if n > 0 && err == nil {
		names := slices.DeleteFunc(now.replaced(r.states[n-1]), func(name string) bool { return r.moves[stage.name] && strings.HasPrefix(name, "v1.Pod ") })
		if len(names) > 0 {
			err = fmt.Errorf("replaced by others of the same name: %v", names)
		}
	}
	r.states = append(r.states, now)
	return err
}

// settled waits until nothing has changed for a while: only so can one know what there should be.
func (r *run) settled(ctx context.Context, now state) (state, error) {
	since := time.Now()
	err := eventually(ctx, func() error {
		next, err := r.observe(ctx)
		if err != nil {
			return err
		}
		if next.String() != now.String() {
			now, since = next, time.Now()
		}
		if quiet := time.Since(since); quiet < 2*time.Second {
			return fmt.Errorf("changed %s ago", quiet)
		}
		return nil
	})
	return now, err
}

// eventually tries until there is no error, and returns the last one.
func eventually(ctx context.Context, try func() error) error {
	var last error
	g := NewGomega(func(string, ...int) {})
	g.Eventually(func() error { last = try(); return last }).WithContext(ctx).WithTimeout(patience).WithPolling(100 * time.Millisecond).Should(Succeed())
	return last
}

// difference shows the lines that are in one state only.
func difference(wanted, found state) error {
	if wanted.String() == found.String() {
		return nil
	}
	var text strings.Builder
	for _, line := range wanted.lines {
		if !strings.Contains(found.String(), line) {
			fmt.Fprintf(&text, "\n  missing: %s", line)
		}
	}
	for _, line := range found.lines {
		if !strings.Contains(wanted.String(), line) {
			fmt.Fprintf(&text, "\n  instead: %s", line)
		}
	}
	return errors.New("not as in the undisturbed run:" + text.String())
}
