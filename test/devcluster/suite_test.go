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

// timeout is the timeout on a slow and busy machine; all that is asserted comes much sooner.
const timeout = 3 * time.Minute

// What every spec works with. They are set once, before the first spec.
var (
	devclusterProgram string // the command under test
	testFolder        string // the folder that holds everything the suite makes
)

func TestDevcluster(t *testing.T) {
	devclusterProgram = repositoryPath(os.Getenv("DEVCLUSTER"), "bin/devcluster")
	if _, err := os.Stat(devclusterProgram); err != nil {
		t.Fatal(devclusterProgram + " is missing: run `make build`")
	}
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "The development cluster")
}

// repositoryPath makes a path absolute; one that is not chosen lies in this repository.
func repositoryPath(chosen, usual string) string {
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
	testFolder, err = filepath.EvalSymlinks(made)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.Chmod(testFolder, 0o755)).To(Succeed(), "the suite also works as a plain user")
	DeferCleanup(os.RemoveAll, testFolder)
})

// skipUnlessRoot skips what a plain user may not do.
func skipUnlessRoot(what string) {
	if os.Geteuid() != 0 {
		Skip(what + " needs root")
	}
}

// reportDuration puts a duration, and what it should be, into the report of every run.
func reportDuration(name string, took, target time.Duration) {
	verdict := "within"
	if took > target {
		verdict = "OVER"
	}
	text := fmt.Sprintf("%.1f s, %s the target of %s on %d processors", took.Seconds(), verdict, target, runtime.NumCPU())
	AddReportEntry(name, text, ReportEntryVisibilityAlways)
}
