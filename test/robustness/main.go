// Command robustness runs real agents and real operators on a development cluster, injects random faults, and checks what every process has
// recorded: never two owners of a task, epochs that only grow, no start after the end, no result that is lost or that no agent reported.
//
// Agents are processes with the public SDK, pods are simulated. The seed determines the order of faults and of work; the exact timing
// depends on the machine. Run it with `make robustness`; see docs/explanation/testing.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// options configures the duration of a run, and the order of faults and work.
type options struct {
	seed     uint64
	attempts int
	faults   int // of each kind
	duration time.Duration
	folder   string
	operator string
	journal  string
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == agentArgument {
		exit(runAgent(slices.Contains(os.Args, programsArgument)))
	}
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "order of faults and of work")
	flag.IntVar(&o.attempts, "attempts", 10_000, "end when so many attempts were started, and there were enough faults")
	flag.IntVar(&o.faults, "faults", 3, "end when each kind of fault happened so often, and there were enough attempts")
	flag.DurationVar(&o.duration, "duration", time.Hour, "fail if there were fewer attempts or faults after this time")
	flag.StringVar(&o.folder, "folder", "bin/robustness", "for the journal and for what programs print; it is replaced")
	flag.StringVar(&o.operator, "operator", "bin/race/swarm-operator", "program of the operator")
	flag.StringVar(&o.journal, "judge", "", "a journal of before that is judged again, instead of a run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(runAndCheck(ctx, o))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "robustness:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runAndCheck makes a run and checks its journal.
func runAndCheck(ctx context.Context, o options) error {
	if o.journal != "" {
		o.attempts, o.faults = 0, 0 // however many there were
		return checkFile(o, 0)
	}
	r, err := newRun(ctx, o)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := r.Execute(ctx, o); err != nil {
		return err
	}
	fmt.Printf("the run took %s\n", time.Since(began).Round(time.Second))
	o.journal = r.journalPath()
	problems := []error{checkFile(o, r.tasks.Submitted())}
	for _, one := range r.operators {
		problems = append(problems, one.problems()...)
	}
	return errors.Join(problems...)
}

// checkFile prints the verdict on a journal.
func checkFile(o options, submitted int) error {
	events, err := readJournal(o.journal)
	if err != nil {
		return err
	}
	verdict := checkJournal(events, submitted)
	explain(verdict, events)
	fmt.Println(verdict.summary(o.seed))
	return verdict.problem(o)
}
