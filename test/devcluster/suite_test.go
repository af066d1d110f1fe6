// Package devcluster proves the development cluster by running it as its users do, as a program: it comes up, breaks on
// command, logs every request with its user, refuses with one line that names the fix, and leaves nothing behind, however it ends.
//
// Everything that the suite creates lies in one folder of its own. Other clusters of the machine are left alone and do not disturb it.
package devcluster

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// patience is the timeout on a slow and busy machine; all that is asserted comes much sooner.
const patience = 3 * time.Minute

// What every spec works with. They are set once, before the first spec.
var (
	program string // the command under test
	ground  string // the folder that holds everything the suite makes
)

func TestDevcluster(t *testing.T) {
	program = fromRepository(os.Getenv("DEVCLUSTER"), "bin/devcluster")
	if _, err := os.Stat(program); err != nil {
		t.Fatal(program + " is missing: run `make build`")
	}
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "The development cluster")
}

// fromRepository makes a path absolute; one that is not chosen lies in this repository.
func fromRepository(chosen, usual string) string {
	if chosen == "" {
		chosen = filepath.Join("..", "..", usual)
	}
	absolute, err := filepath.Abs(chosen)
	if err != nil {
		panic(err) // the working folder is gone
	}
	return absolute
}

var _ = BeforeSuite(func() {
	made, err := os.MkdirTemp("", "test-of-devcluster-")
	Expect(err).NotTo(HaveOccurred())
	// Without symbolic links the folder is spelled as the program spells it, and so is found in command lines.
	ground, err = filepath.EvalSymlinks(made)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.Chmod(ground, 0o755)).To(Succeed(), "the suite also works as a plain user")
	DeferCleanup(os.RemoveAll, ground)
})

// needsRoot skips what a plain user may not do.
func needsRoot(what string) {
	if os.Geteuid() != 0 {
		Skip(what + " needs root")
	}
}

// measured puts a duration, and what it should be, into the report of every run.
func measured(what string, took, target time.Duration) {
	verdict := "within"
	if took > target {
		verdict = "OVER"
	}
	text := fmt.Sprintf("%.1f s, %s the target of %s on %d processors", took.Seconds(), verdict, target, runtime.NumCPU())
	AddReportEntry(what, text, ReportEntryVisibilityAlways)
}
