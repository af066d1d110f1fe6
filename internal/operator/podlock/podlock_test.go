package podlock

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain is also a process that takes the lock, prints its id and lives until it is killed.
func TestMain(m *testing.M) {
	directory, isProcess := os.LookupEnv("TAKE_LOCK")
	if !isProcess {
		os.Exit(m.Run())
	}
	lock, err := Acquire(directory)
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(lock.ID() + "\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// startProcess starts a process that takes the lock, and returns its id and a function that kills it.
func startProcess(t *testing.T, directory string) (id string, kill func()) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "TAKE_LOCK="+directory)
	if _, err := command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), kill
}

func TestOnlyProcessesThatHaveEndedShareAnID(t *testing.T) {
	directory := t.TempDir()
	first, kill := startProcess(t, directory)
	if beside, _ := startProcess(t, directory); first == "" || beside != "" {
		t.Errorf("id %q, and beside it %q", first, beside)
	}
	kill()
	second, kill := startProcess(t, directory)
	kill()
	if third, _ := startProcess(t, directory); second != first || third != first {
		t.Errorf("ids %q, %q, %q of one pod", first, second, third)
	}
	if elsewhere, _ := startProcess(t, t.TempDir()); elsewhere == "" || elsewhere == first {
		t.Errorf("id %q of another pod", elsewhere)
	}
}

func TestNextProcessHasAnotherIDAfterReset(t *testing.T) {
	directory := t.TempDir()
	lock, err := Acquire(directory)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.ResetID(); err != nil {
		t.Fatal(err)
	}
	if err := lock.file.Close(); err != nil {
		t.Fatal(err)
	}
	if next, err := Acquire(directory); err != nil || next.ID() == "" || next.ID() == lock.ID() {
		t.Errorf("id %q after %q: %v", next.ID(), lock.ID(), err)
	}
	if err := lock.ResetID(); err == nil {
		t.Error("a file that cannot be changed is no error")
	}
}

func TestWithoutADirectoryThereIsNoProof(t *testing.T) {
	lock, err := Acquire("")
	if err != nil || lock.ID() != "" || lock.ResetID() != nil {
		t.Errorf("got %+v, %v", lock, err)
	}
}

func TestDirectoryThatIsMissingIsAnError(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := Acquire(missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v", err)
	}
}
