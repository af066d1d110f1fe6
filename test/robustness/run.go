package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/fakeagents"
)

// settleTimeout is how long tasks may take to finish when nothing is in their way any more.
const settleTimeout = 3 * time.Minute

// A Run is everything under test, and what it is tested with.
type Run struct {
	cluster       *rest.Config
	api           client.WithWatch
	folder        string
	program       string // this one
	log           *os.File
	journal       *Journal
	operators     []*Operator
	kubelet       *Kubelet
	tasks         *Tasks
	backgroundCtx context.Context // ends with the program
	apiServer     sync.Mutex      // held while it is away
	faults        faultCounts
}

func (r *Run) journalPath() string { return filepath.Join(r.folder, "journal.jsonl") }

// newRun connects to the cluster and prepares the folder.
func newRun(ctx context.Context, o options) (*Run, error) {
	if os.Getenv("DEVCLUSTER_DATA") == "" {
		return nil, errors.New("DEVCLUSTER_DATA is not set: run `make robustness`, which starts a cluster that may be broken")
	}
	folder, err := filepath.Abs(o.folder)
	if err != nil {
		return nil, err
	}
	r := &Run{folder: folder, backgroundCtx: ctx, faults: faultCounts{counts: map[string]int{}}}
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o700)); err != nil {
		return nil, err
	}
	var problems [3]error
	r.program, problems[0] = os.Executable()
	r.journal, problems[1] = openJournal(r.journalPath())
	r.log, problems[2] = os.Create(filepath.Join(folder, "run.log"))
	if err := errors.Join(problems[:]...); err != nil {
		return nil, err
	}
	if err := r.connect(); err != nil {
		return nil, err
	}
	r.tasks = &Tasks{
		api: r.api, journal: r.journal, random: rand.New(rand.NewPCG(o.seed, ^o.seed)),
		finished: map[types.UID]bool{}, lastSeen: map[types.UID]observedTask{},
	}
	return r, r.install(ctx)
}

func (r *Run) connect() (err error) {
	r.cluster, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	r.cluster.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	r.api, err = client.NewWithWatch(r.cluster, client.Options{Scheme: scheme})
	return err
}

// install has the cluster serve our kinds.
func (r *Run) install(ctx context.Context) error {
	for _, arguments := range []string{"apply --server-side --force-conflicts --filename deploy/crds",
		"wait --for=condition=Established --filename deploy/crds"} {
		if output, err := exec.CommandContext(ctx, "kubectl", strings.Fields(arguments)...).CombinedOutput(); err != nil {
			return fmt.Errorf("install CRDs: %w: %s", err, output)
		}
	}
	return r.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
}

// Execute lets faults happen until there were enough attempts and faults of each kind, then lets everything recover and finish.
func (r *Run) Execute(ctx context.Context, o options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.backgroundCtx = ctx
	stop, err := r.start(ctx, o)
	if err != nil {
		return err
	}
	defer stop()
	faultCtx, doneCtx := context.WithTimeout(ctx, o.duration)
	defer doneCtx()
	var group sync.WaitGroup
	group.Go(func() { r.InjectFaults(faultCtx, newSchedule(o.seed, agentFaults, agents)) })
	group.Go(func() { r.InjectFaults(faultCtx, newSchedule(o.seed, leaderFaults, agents)) })
	group.Go(func() { r.tasks.Submit(faultCtx) })
	r.await(faultCtx, o)
	doneCtx()
	group.Wait()
	fmt.Printf("faults are over: %d tasks, %d of them not finished\n", r.tasks.Submitted(), r.tasks.Unfinished())
	return r.awaitFinished(ctx)
}

// start starts operators and agents, and returns how to stop them.
func (r *Run) start(ctx context.Context, o options) (stop func(), err error) {
	operating, stopOperators := context.WithCancel(ctx)
	var operators sync.WaitGroup
	addresses, err := r.startOperators(operating, &operators, o.operator)
	if err != nil {
		stopOperators()
		return nil, err
	}
	if err := r.prepareKubelet(ctx, addresses); err != nil {
		stopOperators()
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	fleet, err := fakeagents.Start(ctx, r.cluster, fakeagents.Options{Namespace: namespace, Runner: r.kubelet.Run, Log: log})
	stop = func() {
		if fleet != nil {
			fleet.Stop()
		}
		stopOperators()
		operators.Wait()
	}
	if err == nil {
		err = r.createSwarm(ctx)
	}
	if err != nil {
		stop()
	}
	go r.tasks.WatchTasks(ctx)
	return stop, err
}

// startOperators starts the operators.
func (r *Run) startOperators(ctx context.Context, group *sync.WaitGroup, program string) (addresses []string, err error) {
	for n := range operators {
		operator, err := newOperator(ctx, r, n)
		if err != nil {
			return nil, err
		}
		r.operators = append(r.operators, operator)
		addresses = append(addresses, operator.address())
		group.Go(func() {
			if err := operator.KeepRunning(ctx, program); err != nil {
				panic(err) // nothing works without it
			}
		})
	}
	return addresses, nil
}

// prepareKubelet makes a kubelet, and a link for each agent.
func (r *Run) prepareKubelet(ctx context.Context, addresses []string) error {
	output, err := os.Create(filepath.Join(r.folder, "agents.log"))
	if err != nil {
		return err
	}
	r.kubelet = &Kubelet{run: r, links: map[string]*Link{}, output: output, agents: map[string]*container{},
		orphans: map[types.UID]time.Duration{}}
	for n := range agents {
		if r.kubelet.links[podName(n)], err = newLink(ctx, addresses); err != nil {
			return err
		}
	}
	return nil
}

// progressEvery is how often a run reports its progress.
const progressEvery = 30 * time.Second

// await returns when enough attempts were started and every kind of fault happened often enough, or the context ends.
func (r *Run) await(ctx context.Context, o options) {
	lastReport := time.Now()
	for ctx.Err() == nil {
		pause(ctx, time.Second)
		count, err := countStarts(r.journalPath())
		if err != nil {
			return
		}
		kind, missing := r.faults.FindMissing(o.faults)
		if count >= o.attempts && !missing {
			return
		}
		if time.Since(lastReport) >= progressEvery {
			lastReport = time.Now()
			fmt.Printf("%d attempts, %d tasks, %d of them not finished", count, r.tasks.Submitted(), r.tasks.Unfinished())
			if missing {
				fmt.Printf(", fewer than %d times %s", o.faults, kind)
			}
			fmt.Println()
		}
	}
}

// countStarts counts the attempts in a journal that is being written.
func countStarts(path string) (count int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		if strings.Contains(scanner.Text(), `"kind":"`+eventStarted+`"`) {
			count++
		}
	}
	return count, nil
}

// awaitFinished waits until every task is finished, and writes down how.
func (r *Run) awaitFinished(ctx context.Context) error {
	for began := time.Now(); r.tasks.Unfinished() > 0 && time.Since(began) < settleTimeout && ctx.Err() == nil; {
		pause(ctx, 200*time.Millisecond)
	}
	list := &v1alpha1.TaskList{}
	persist(ctx, func(ctx context.Context) error { return r.api.List(ctx, list, client.InNamespace(namespace)) })
	for n := range list.Items {
		r.journal.Write(newStoredEvent(&list.Items[n], "end"))
	}
	return ctx.Err()
}
