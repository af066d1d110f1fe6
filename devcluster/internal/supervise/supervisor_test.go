package supervise

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test program serve as a supervisor, so that Launch starts a real one.
func TestMain(m *testing.M) {
	if len(os.Args) == 6 && os.Args[1] == Command {
		if err := Run(os.Args[3], os.Args[5]); err != nil {
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !reached(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// begin starts a supervisor of two long sleeps, of which the second is held.
func begin(t *testing.T) (data string, role Role, supervisor int) {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	data = t.TempDir()
	role = Role{Name: "test", Components: []Component{
		{Name: "first", Path: sleep, Args: []string{"sleep", "3601"}},
		{Name: "second", Path: sleep, Args: []string{"sleep", "3602"}},
	}}
	if err := role.Save(data); err != nil {
		t.Fatal(err)
	}
	if err := role.Hold(data, "second"); err != nil {
		t.Fatal(err)
	}
	supervisor, err = Launch(data, role)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(supervisor, unix.SIGKILL) })
	eventually(t, "the first component runs", func() bool { return pid(t, role, supervisor, "first") != 0 })
	return data, role, supervisor
}

func pid(t *testing.T, role Role, supervisor int, name string) int {
	t.Helper()
	running, err := Running(supervisor, role)
	if err != nil {
		t.Fatal(err)
	}
	return running[name].PID
}

func TestSupervisorStartsWhatIsNotHeldAndNothingElse(t *testing.T) {
	data, role, supervisor := begin(t)
	if pid(t, role, supervisor, "second") != 0 {
		t.Error("the held component runs")
	}
	if err := role.Release(data, "second"); err != nil {
		t.Fatal(err)
	}
	if err := Look(supervisor); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the released component runs", func() bool { return pid(t, role, supervisor, "second") != 0 })
	if found, err := Find(data); err != nil || found["test"] != supervisor {
		t.Errorf("found supervisors %v, %v, want %d", found, err, supervisor)
	}
}

func TestComponentThatDiesIsStartedAgain(t *testing.T) {
	_, role, supervisor := begin(t)
	before := pid(t, role, supervisor, "first")
	if err := unix.Kill(before, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs again, as another process", func() bool {
		now := pid(t, role, supervisor, "first")
		return now != 0 && now != before
	})
}

func TestComponentsDieWithTheirSupervisor(t *testing.T) {
	_, role, supervisor := begin(t)
	component := pid(t, role, supervisor, "first")
	if err := unix.Kill(supervisor, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !Gone([]int{supervisor, component}, 10*time.Second) {
		t.Error("a process is left")
	}
}

func TestFrozenComponentShows(t *testing.T) {
	_, role, supervisor := begin(t)
	component := pid(t, role, supervisor, "first")
	if err := unix.Kill(component, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is shown as frozen", func() bool {
		running, err := Running(supervisor, role)
		return err == nil && running["first"].Frozen
	})
}
