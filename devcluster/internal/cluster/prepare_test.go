package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOptionsThatCannotWorkAreRefusedWithTheFix(t *testing.T) {
	good := Options{APIServers: 1}
	if err := good.check(); err != nil {
		t.Fatalf("good options: %v", err)
	}
	for want, change := range map[string]func(*Options){
		"--real-nodes is -1: choose 0 to 32":           func(o *Options) { o.RealNodes = -1 },
		"--simulated-nodes is 5001: choose 0 to 5000":  func(o *Options) { o.SimulatedNodes = 5001 },
		"--apiservers is 3: choose 1 or 2":             func(o *Options) { o.APIServers = 3 },
		"--port is 70000: choose 1 to 65535, or leave": func(o *Options) { o.Port = 70000 },
	} {
		t.Run(want, func(t *testing.T) {
			options := good
			change(&options)
			if err := options.check(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestFolderThatIsSomebodyElsesIsRefused(t *testing.T) {
	folder := t.TempDir()
	if err := vacant(folder); err != nil {
		t.Errorf("an empty folder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "thesis.txt"), []byte("years of work"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := vacant(folder); err == nil || !strings.Contains(err.Error(), "name another folder with --data") {
		t.Errorf("a folder with files in it: %v", err)
	}
}

func TestPathsThatSomeComponentCannotReadAreRefused(t *testing.T) {
	for path, want := range map[string]bool{"/data/my cluster": true, "/data/a,b": false, "/data/\"a\"": false, "/data/{{.}}": false} {
		if err := plain(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestLeftoversAreTold(t *testing.T) {
	c := &Cluster{Data: t.TempDir()}
	if err := c.save(); err != nil {
		t.Fatal(err)
	}
	if err := vacant(c.Data); err == nil || !strings.Contains(err.Error(), "run `devcluster down --data "+c.Data) {
		t.Errorf("got %v", err)
	}
}

func TestDownNeverRemovesAFolderThatIsNoClusters(t *testing.T) {
	folder := t.TempDir()
	keep := filepath.Join(folder, "thesis.txt")
	if err := os.WriteFile(keep, []byte("years of work"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Down(folder); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(keep); err != nil {
		t.Error(err)
	}
}

// An `up` that is killed after it has made the folder, and before it has written anything, leaves an empty one.
func TestDownRemovesAnEmptyFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "cluster")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Down(folder); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the empty folder is still there: %v", err)
	}
	if err := Down(folder); err != nil {
		t.Errorf("no folder at all: %v", err)
	}
}
