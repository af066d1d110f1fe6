// Command acceptance reports which rows of docs/acceptance.md are proven, clause by clause, at which level and by which tests. It believes
// only results: a skipped test proves nothing, a failed one marks its clauses failed whatever else passed, and a claim that is not in the
// list is an error. It never runs a test itself.
//
// Tests name clauses in their names or Ginkgo texts as [S08/critical-first], or right after Test: TestS08_CriticalFirst. Results are files
// of `go test -json` or Ginkgo's --json-report; what stands before the first dot or dash of a file's name is the level: unit.json,
// integration-api.json. They must be of the commit that is checked out, and every planned report must be there: a stamp beside them names
// both, which tools/suites writes when it starts. What `make bench` has measured proves clauses of level bench, as long as the measured
// program is the same: comments, layout and tests may change.
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
	"strings"

	"github.com/swarm-io/swarm-operator/tools/internal/stamp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	healthy, err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "acceptance:", err)
		os.Exit(1)
	case !healthy:
		os.Exit(1)
	}
}

// files are where everything is.
type files struct {
	root    string
	list    string
	results string
	bench   string
}

// run answers whether nothing failed.
func run(ctx context.Context, out io.Writer, arguments []string) (bool, error) {
	flags := flag.NewFlagSet("acceptance", flag.ContinueOnError)
	root := flags.String("root", ".", "folder of the repository")
	list := flags.String("list", "", "the acceptance list (default docs/acceptance.md of the repository)")
	results := flags.String("results", "", "folder of test results (default bin/results of the repository)")
	measured := flags.String("bench", "", "what was measured (default test/bench/results.json of the repository)")
	maxNames := flags.Int("tests", 3, "how many tests to name for each clause, level and outcome (0: all)")
	writeStamp := flags.Bool("stamp", false, "only write the stamp of the results, and remove those of another commit")
	if err := flags.Parse(arguments); err != nil {
		return false, err
	}
	paths := files{
		root: *root, list: resolvePath(*list, *root, "docs/acceptance.md"),
		results: resolvePath(*results, *root, "bin/results"), bench: resolvePath(*measured, *root, "test/bench/results.json"),
	}
	if *writeStamp {
		return true, stamp.Write(ctx, paths.results)
	}
	printed, err := paths.readReport(ctx)
	if err != nil {
		return false, err
	}
	printed.maxNames = *maxNames
	return printed.isHealthy(), printed.write(out)
}

func resolvePath(named, root, usual string) string {
	if named != "" {
		return named
	}
	return filepath.Join(root, filepath.FromSlash(usual))
}

// readReport reads everything there is.
func (f files) readReport(ctx context.Context) (report, error) {
	content, err := os.ReadFile(f.list)
	if err != nil {
		return report{}, fmt.Errorf("read acceptance list: %w", err)
	}
	sections, err := parseList(string(content))
	if err != nil {
		return report{}, fmt.Errorf("read acceptance list %q: %w", f.list, err)
	}
	tests, err := f.tests(ctx)
	if err != nil {
		return report{}, err
	}
	measured, staleRuns, err := readBench(ctx, f.root, f.bench)
	if err != nil {
		return report{}, err
	}
	all, err := collect(sections, append(tests, measured...))
	return report{sections: sections, evidence: all, stale: staleRuns}, err
}

// fix is the remedy for a missing or foreign result.
const fix = "run make check"

// tests are the results, which must be of the current source.
func (f files) tests(ctx context.Context) ([]test, error) {
	if err := f.checkStamp(ctx); err != nil {
		return nil, err
	}
	tests, err := readResults(os.DirFS(f.results))
	if err == nil && len(tests) == 0 {
		err = fmt.Errorf("no test names a clause: %s", fix)
	}
	if err != nil {
		return nil, fmt.Errorf("read results in %s: %w", f.results, err)
	}
	return tests, nil
}

// checkStamp fails unless the results are of the current source, and every report is there that a run on it was to write.
func (f files) checkStamp(ctx context.Context) error {
	current, err := stamp.DescribeTree(ctx, f.root)
	if err != nil {
		return err
	}
	recorded, err := stamp.Read(f.results)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("there are no results in %s, or nothing says of which commit they are: %s", f.results, fix)
	case err != nil:
		return err
	case recorded.Source != current:
		return fmt.Errorf("the results in %s are of %s, the source is %s: %s", f.results, recorded.Source, current, fix)
	}
	missing, err := recorded.MissingReports(f.results)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("reports of suites that were to run are missing in %s: %s: %s", f.results, strings.Join(missing, ", "), fix)
	}
	return err
}
