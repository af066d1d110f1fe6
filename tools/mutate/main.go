// Command mutate measures the unit tests of packages: it changes the code in small ways, one at a time, and counts how many of these
// mutants the tests notice. The mutants are a sample that depends only on the seed and the code. Nothing is written to the source tree.
// A mutant on a line that no test reaches counts as a survivor, without a test run. docs/explanation/mutation.md explains the result.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// options are the options of the command line.
type options struct {
	root   string
	tests  string // the package with the tests; empty for those of each package
	number int
	seed   uint64
	limit  time.Duration
	grace  time.Duration // that tests of a mutant get beyond a multiple of the usual time: a busy machine pauses them
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, arguments []string) error {
	var o options
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "folder that packages are named from")
	flags.StringVar(&o.tests, "tests", "", "the package whose tests are run, if not those of each package itself")
	flags.IntVar(&o.number, "n", 100, "how many mutants of each package")
	flags.Uint64Var(&o.seed, "seed", 1, "which mutants: the same seed picks the same ones")
	flags.DurationVar(&o.limit, "limit", 15*time.Minute, "the longest time for one package")
	flags.DurationVar(&o.grace, "grace", 5*time.Second, "what the tests of a mutant may take beyond four times their usual time")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() == 0 || o.number < 1 {
		return errors.New("name packages, such as ./kit/..., and at least one mutant")
	}
	var err error
	if o.root, err = filepath.Abs(o.root); err != nil {
		return fmt.Errorf("find folder %q: %w", o.root, err)
	}
	for _, pattern := range flags.Args() {
		packages, err := listPackages(ctx, o.root, pattern)
		if err != nil {
			return err
		}
		for _, p := range packages {
			tests, err := o.testsOf(ctx, p)
			if err != nil {
				return err
			}
			if err := o.measure(ctx, out, p, tests); err != nil {
				return err
			}
		}
	}
	return nil
}

// testsOf finds the package with the tests for the mutants of a package.
func (o options) testsOf(ctx context.Context, p goPackage) (goPackage, error) {
	if o.tests == "" {
		return p, nil
	}
	packages, err := listPackages(ctx, o.root, o.tests)
	if err != nil {
		return goPackage{}, err
	}
	if len(packages) != 1 || packages[0].Module.Dir != p.Module.Dir {
		return goPackage{}, fmt.Errorf("-tests %s: name one package of the module that %s is in", o.tests, p.ImportPath)
	}
	return packages[0], nil
}

// measure prints the score of one package.
func (o options) measure(ctx context.Context, out io.Writer, p, tests goPackage) error {
	name := relative(o.root, p.Dir)
	if o.tests != "" {
		name += " by the tests of " + relative(o.root, tests.Dir)
	}
	if !tests.hasTests() {
		fmt.Fprintf(out, "%s: no unit tests\n\n", name)
		return nil
	}
	mutants, err := mutantsOf(p)
	if err != nil {
		return err
	}
	shuffle(mutants, o.seed, p.ImportPath)
	folder, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	defer os.RemoveAll(folder)
	limited, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	r := &report{out: out, root: o.root, name: name}
	err = o.tryMutants(limited, builder{pkg: p, tests: tests, folder: folder}, mutants, r)
	if errors.Is(limited.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		fmt.Fprintf(out, "%s: stopped after %s\n", name, o.limit)
		err = nil
	}
	if err == nil {
		r.summary()
	}
	return err
}

// tryMutants runs the tests once for each mutant of the sample.
func (o options) tryMutants(ctx context.Context, b builder, mutants []mutant, r *report) error {
	covered, err := measureCoverage(ctx, b.pkg, b.tests, b.folder)
	if err != nil {
		return err
	}
	sample, err := b.sample(ctx, mutants, o.number)
	if err != nil {
		return err
	}
	t := &trial{tests: b.tests, seed: o.seed, grace: o.grace}
	took, err := t.baseline(ctx, sample.program)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "%s: %d of %d mutants, seed %d; its tests take %s\n", r.name, len(sample.mutants), len(mutants), o.seed,
		took.Round(10*time.Millisecond))
	for _, m := range sample.mutants {
		result, err := t.verdictOf(ctx, b, sample.program, m, covered)
		if err != nil {
			return err
		}
		if result != "" {
			r.add(outcome{m, result}, len(sample.mutants))
		}
	}
	return nil
}

// verdictOf returns the verdict on a mutant, or nothing for a change that does not compile.
func (t *trial) verdictOf(ctx context.Context, b builder, program string, m mutant, covered coverage) (verdict, error) {
	if !covered.covers(m) {
		return notCovered, nil
	}
	id := m.id
	if m.function == nil {
		var ok bool
		if program, ok = b.compileOne(ctx, m); !ok {
			return "", ctx.Err()
		}
		id = 0
	}
	found, _, err := t.run(ctx, program, id)
	return found, err
}
