// Command acceptance says which lines of docs/acceptance.md are proven, at which level and by which tests. It believes
// only test results: a skipped test proves nothing, a failed one marks its ids failed whatever else passed, and an id
// that is not in the list is an error. It never runs a test itself.
//
// Tests name ids in their names or Ginkgo texts as [S08] (or [S08, S09]), as the Ginkgo label S08, or right after Test or
// Benchmark: TestS08_CriticalGoesFirst. Results are files of `go test -json` or Ginkgo's --json-report; what stands
// before the first dot or dash of a file's name is the level: unit.json, integration-api.json. What `make bench` has measured last
// proves as well, by lines that name an id and met their target.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
)

func main() {
	healthy, err := run(os.Stdout, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "acceptance:", err)
		os.Exit(2)
	case !healthy:
		os.Exit(1)
	}
}

// run answers whether no id failed; missing proofs are no failure, they are what is left to do.
func run(out io.Writer, arguments []string) (bool, error) {
	flags := flag.NewFlagSet("acceptance", flag.ContinueOnError)
	list := flags.String("list", "docs/acceptance.md", "the acceptance list")
	results := flags.String("results", "bin/results", "folder of test results")
	measured := flags.String("bench", "", "file of what was measured (none: nothing was)")
	most := flags.Int("tests", 3, "how many tests to name for each id and level (0: all)")
	if err := flags.Parse(arguments); err != nil {
		return false, err
	}
	content, err := os.ReadFile(*list)
	if err != nil {
		return false, fmt.Errorf("read acceptance list: %w", err)
	}
	chapters, err := parseList(string(content))
	if err != nil {
		return false, fmt.Errorf("read acceptance list %q: %w", *list, err)
	}
	tests, err := readResults(os.DirFS(*results))
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(out, "No results in %s: run the tests first.\n\n", *results)
		err = nil
	}
	if err != nil {
		return false, fmt.Errorf("read results in %q: %w", *results, err)
	}
	measures, err := readBench(*measured)
	if err != nil {
		return false, err
	}
	return judge(out, chapters, append(tests, measures...), *most)
}

func judge(out io.Writer, chapters []chapter, tests []test, most int) (bool, error) {
	evidence, err := collect(chapters, tests)
	if err != nil {
		return false, err
	}
	printed := report{chapters: chapters, evidence: evidence, most: most}
	return printed.healthy(), printed.write(out)
}
