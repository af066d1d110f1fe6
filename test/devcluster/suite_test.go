// Package devcluster tests the development cluster as a program, as its users run it: it starts, breaks on command, logs every request with
// its user, rejects errors with one line that names the fix, and leaves nothing behind, however it ends.
//
// Everything that the suite creates is in one folder. It neither touches other clusters of the machine nor depends on them.
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

// timeout is for a slow and busy machine; everything that is asserted happens much sooner.
const timeout = 3 * time.Minute

// The following are set once, before the first spec.
var (
	devclusterProgram string // the command under test
	testFolder        string // the folder with everything that the suite creates
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

// repositoryPath returns the absolute path of an optional setting, or the default in this repository.
func repositoryPath(chosen, usual string) string {
	if chosen == "" {
		chosen = filepath.Join("..", "..", usual)
	}
	absolute, err := filepath.Abs(chosen)
	if err != nil {
		panic(err) // the working folder no longer exists
	}
	return absolute
}

var _ = BeforeSuite(func() {
	made, err := os.MkdirTemp("", "test-of-devcluster-")
	Expect(err).NotTo(HaveOccurred())
	// Without symbolic links the folder has the same path as in the program, so that it is found in command lines.
	testFolder, err = filepath.EvalSymlinks(made)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.Chmod(testFolder, 0o755)).To(Succeed(), "the suite also works as a plain user")
	DeferCleanup(os.RemoveAll, testFolder)
})

// skipUnlessRoot skips specs that need root.
func skipUnlessRoot(what string) {
	if os.Geteuid() != 0 {
		Skip(what + " needs root")
	}
}

// reportDuration adds a duration and its target to the report of every run.
func reportDuration(name string, took, target time.Duration) {
	verdict := "within"
	if took > target {
		verdict = "OVER"
	}
	text := fmt.Sprintf("%.1f s, %s the target of %s on %d processors", took.Seconds(), verdict, target, runtime.NumCPU())
	AddReportEntry(name, text, ReportEntryVisibilityAlways)
}
