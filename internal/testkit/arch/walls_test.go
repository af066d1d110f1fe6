package arch

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// A world is a repository in memory: path to content.
type world map[string]string

func (w world) breaches(t *testing.T) []Breach {
	t.Helper()
	files := fstest.MapFS{}
	for name, content := range w {
		files[name] = &fstest.MapFile{Data: []byte(content)}
	}
	found, err := Check(files)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// importing is a Go file that imports packages; a path that begins with ~ is one of ours.
func importing(pkg string, paths ...string) string {
	var text strings.Builder
	text.WriteString("package " + pkg + "\n")
	for _, path := range paths {
		fmt.Fprintf(&text, "import _ %q\n", strings.Replace(path, "~", Module, 1))
	}
	return text.String()
}

// calling is a Go file with one statement in a function.
func calling(pkg, imported, statement string) string {
	return fmt.Sprintf("package %s\nimport %s\nfunc f() { %s }\n", pkg, imported, statement)
}

type breachCase struct {
	files world
	wall  int
	where string
	what  string
}

func assertOneBreach(t *testing.T, c breachCase) {
	t.Helper()
	found := c.files.breaches(t)
	if len(found) != 1 {
		t.Fatalf("found %d breaches: %v", len(found), found)
	}
	if found[0].Wall != c.wall || !strings.HasPrefix(found[0].Where, c.where) || !strings.Contains(found[0].What, c.what) {
		t.Errorf("found %v, want wall %d at %s: %s", found[0], c.wall, c.where, c.what)
	}
}

func TestBrokenImportWallsAreSeen(t *testing.T) {
	for name, c := range map[string]breachCase{
		"engine imports a library": {world{"internal/assign/a.go": importing("assign", "sort", "example.com/x")},
			1, "internal/assign/a.go:3", "imports example.com/x"},
		"engine imports API types": {world{"internal/spread/a.go": importing("spread", "~/api/v1alpha1")},
			1, "internal/spread/a.go:2", "not the standard library"},
		"engine imports another engine": {world{"internal/topology/a.go": importing("topology", "~/internal/assign")},
			1, "internal/topology/a.go", "internal/assign"},
		"engine imports context": {world{"internal/schedule/a.go": importing("schedule", "context")},
			1, "internal/schedule/a.go", "engine imports context"},
		"engine part imports randomness": {world{"internal/schedule/queue/a.go": importing("queue", "math/rand/v2")},
			1, "internal/schedule/queue/a.go", "math/rand/v2"},
		"engine imports a logger": {world{"internal/assign/a.go": importing("assign", "log/slog")},
			1, "internal/assign/a.go", "log/slog"},
		"engine reads the clock": {world{"internal/assign/a.go": calling("assign", `"time"`, "_ = time.Now()")},
			1, "internal/assign/a.go:3", "time.Now"},
		"engine reads the clock under another name": {world{"internal/assign/a.go": calling("assign", `t "time"`, "_ = t.Since")},
			1, "internal/assign/a.go:3", "time.Since"},
		"engine hides where time comes from": {world{"internal/assign/a.go": calling("assign", `. "time"`, "_ = Now()")},
			1, "internal/assign/a.go", "with a dot"},
		"manifest imports a client": {world{"internal/manifest/a.go": importing("manifest", "k8s.io/api/apps/v1", "sigs.k8s.io/controller-runtime/pkg/client")},
			2, "internal/manifest/a.go:3", "controller-runtime"},
		"manifest imports client-go": {world{"internal/manifest/a.go": importing("manifest", "k8s.io/client-go/kubernetes")},
			2, "internal/manifest/a.go", "client-go"},
		"manifest imports context": {world{"internal/manifest/a.go": importing("manifest", "context")},
			2, "internal/manifest/a.go", "context"},
		"manifest imports a controller": {world{"internal/manifest/a.go": importing("manifest", "~/internal/controller/swarm")},
			2, "internal/manifest/a.go", "controller/swarm"},
		"controller imports another": {world{"internal/controller/swarm/a.go": importing("swarm", "~/internal/controller/task")},
			3, "internal/controller/swarm/a.go", "imports " + Module + "/internal/controller/task"},
		"controller imports one that begins alike": {world{"internal/controller/swarm/a.go": importing("swarm", "~/internal/controller/swarmsnapshot")},
			3, "internal/controller/swarm/a.go", "swarmsnapshot"},
		"controller imports httpapi": {world{"internal/controller/task/a.go": importing("task", "~/internal/httpapi")},
			3, "internal/controller/task/a.go", "httpapi"},
		"controller part imports cli": {world{"internal/controller/task/queue/a.go": importing("queue", "~/internal/cli")},
			3, "internal/controller/task/queue/a.go", "cli"},
		"controller imports placement": {world{"internal/controller/spread/a.go": importing("spread", "~/internal/placement")},
			3, "internal/controller/spread/a.go", "placement"},
		"test imports devcluster": {world{"test/e2e/a_test.go": importing("e2e", "~/devcluster/cluster")},
			5, "test/e2e/a_test.go", "run as a program"},
		"root module needs Kubernetes": {world{"go.mod": "module x\nrequire k8s.io/kubernetes v1.0.0\n"},
			5, "go.mod", "k8s.io/kubernetes"},
		"tools replace Kubernetes": {world{"tools/go.mod": "module x\nreplace (\n\tk8s.io/kubernetes => ../k\n)\n"},
			5, "tools/go.mod", "k8s.io/kubernetes"},
	} {
		t.Run(name, func(t *testing.T) { assertOneBreach(t, c) })
	}
}

func TestBrokenCallWallsAreSeen(t *testing.T) {
	const dispatch = "internal/dispatch/a.go"
	for name, c := range map[string]breachCase{
		"status updated":        {world{dispatch: calling("dispatch", `"x"`, "c.Status().Update(ctx, o)")}, 4, dispatch + ":3", ".Status()"},
		"status patched deep":   {world{dispatch: calling("dispatch", `"x"`, "_ = r.api.Status().Patch(ctx, o, p)")}, 4, dispatch, ".Status()"},
		"status writer stored":  {world{dispatch: calling("dispatch", `"x"`, "w := c.Status(); w.Update(ctx, o)")}, 4, dispatch, ".Status()"},
		"status as subresource": {world{dispatch: calling("dispatch", `"x"`, `c.SubResource("status").Patch(ctx, o, p)`)}, 4, dispatch, "SubResource"},
		"typed client":          {world{dispatch: calling("dispatch", `"x"`, "pods.UpdateStatus(ctx, o)")}, 4, dispatch, "UpdateStatus"},
		"controller itself": {world{"internal/controller/swarm/a.go": calling("swarm", `"x"`, "c.Status().Update(ctx, o)")},
			4, "internal/controller/swarm/a.go", "only kit"},
		"environment read": {world{dispatch: calling("dispatch", `"os"`, `_ = os.Getenv("A")`)}, 4, dispatch + ":3", "os.Getenv"},
		"file read in kit": {world{"kit/a.go": calling("kit", `"os"`, `_, _ = os.ReadFile("a")`)}, 4, "kit/a.go", "os.ReadFile"},
		"flags declared":   {world{"internal/link/a.go": importing("link", "flag")}, 4, "internal/link/a.go", "imports flag"},
		"pflag in the API": {world{"api/v1alpha1/a.go": importing("v1alpha1", "github.com/spf13/pflag")}, 4, "api/v1alpha1/a.go", "pflag"},
	} {
		t.Run(name, func(t *testing.T) { assertOneBreach(t, c) })
	}
}

func TestBrokenShapeWallsAreSeen(t *testing.T) {
	four := "package link\ntype Big interface { A(); B(); C(); D() }\n"
	embedding := "package link\ntype two interface { A(); B() }\ntype Big interface { two; C(); io.Closer }\n"
	anonymous := "package link\nfunc f(x interface { A(); B(); C(); D() }) {}\n"
	for name, c := range map[string]breachCase{
		"four methods":          {world{"internal/link/a.go": four}, 6, "internal/link/a.go:2", "4 methods"},
		"embedded methods":      {world{"internal/link/a.go": embedding}, 6, "internal/link/a.go:3", "4 methods"},
		"anonymous":             {world{"internal/link/a.go": anonymous}, 6, "internal/link/a.go:2", "4 methods"},
		"in another module too": {world{"tools/x/a.go": four}, 6, "tools/x/a.go", "4 methods"},
		"package named utils":   {world{"internal/strings/a.go": "package utils\n"}, 7, "internal/strings/a.go", "named utils"},
		"test package of it":    {world{"internal/strings/a_test.go": "package common_test\n"}, 7, "internal/strings/a_test.go", "common"},
		"folder named pkg":      {world{"pkg/swarm/a.go": "package swarm\n"}, 7, "pkg/swarm", "folder is named pkg"},
		"long main":             {world{"cmd/x/main.go": "package main\n" + strings.Repeat("\n", 40)}, 7, "cmd/x", "41 lines"},
		"main in two files": {world{"cmd/x/main.go": "package main\n" + strings.Repeat("\n", 29), "cmd/x/more.go": "package main\n" + strings.Repeat("\n", 29)},
			7, "cmd/x", "60 lines"},
		"library under cmd": {world{"cmd/x/config/a.go": "package config\n"}, 7, "cmd/x/config/a.go", "package config"},
	} {
		t.Run(name, func(t *testing.T) { assertOneBreach(t, c) })
	}
}

// Code that looks like a breach and is none: a wall in the wrong place teaches developers to climb.
func TestWhatIsAllowedIsNotReported(t *testing.T) {
	for name, files := range map[string]world{
		"engine with its own parts": {"internal/assign/a.go": importing("assign", "sort", "~/internal/assign/ring")},
		"engine with time's types":  {"internal/assign/a.go": calling("assign", `"time"`, "var _ time.Duration = time.Second")},
		"engine's tests":            {"internal/assign/a_test.go": importing("assign", "context", "pgregory.net/rapid")},
		"name that begins alike":    {"internal/assignment/a.go": importing("assignment", "example.com/x")},
		"manifest with API structs": {"internal/manifest/a.go": importing("manifest", "k8s.io/api/apps/v1", "~/api/v1alpha1", "~/internal/topology")},
		"controller with its parts": {"internal/controller/swarm/a.go": importing("swarm", "~/internal/controller/swarm/x", "~/kit", "~/internal/assign")},
		"kit writes status":         {"kit/a.go": calling("kit", `"x"`, "c.Status().Update(ctx, o)")},
		"controller asks kit":       {"internal/controller/swarm/a.go": calling("swarm", `"x"`, "kit.UpdateStatus(ctx, o)")},
		"API error is read":         {"internal/dispatch/a.go": calling("dispatch", `"x"`, "_ = err.Status().Reason")},
		"status field is set":       {"internal/dispatch/a.go": calling("dispatch", `"x"`, "o.Status.Phase = p")},
		"test writes status":        {"test/integration/a_test.go": calling("integration", `"x"`, "c.Status().Update(ctx, o)")},
		"operator reads the world":  {"internal/operator/a.go": calling("operator", `"os"`, `_ = os.Getenv("A")`)},
		"main reads arguments":      {"cmd/x/main.go": calling("main", `"os"`, "_ = os.Args")},
		"writing to stdout":         {"internal/httpapi/a.go": calling("httpapi", `"os"`, "_ = os.Stdout")},
		"a local variable named os": {"internal/link/a.go": calling("link", `"x"`, `os := y; _ = os.Getenv("A")`)},
		"three methods":             {"internal/link/a.go": "package link\ntype T interface { A(); B(); C() }\n"},
		"type constraint":           {"internal/link/a.go": "package link\ntype T interface { ~int | ~string }\n"},
		"generated interface":       {"api/link/v1/a.pb.go": "// Code generated by x. DO NOT EDIT.\n\npackage v1\ntype T interface { A(); B(); C(); D() }\n"},
		"devcluster's own parts":    {"devcluster/a.go": importing("main", "~/devcluster/cluster"), "devcluster/go.mod": "module x\nrequire k8s.io/kubernetes v1.0.0\n"},
		"a comment in go.mod":       {"go.mod": "module x\n// never k8s.io/kubernetes here\n"},
		"forty lines":               {"cmd/x/main.go": "package main\n" + strings.Repeat("\n", 39)},
		"testdata":                  {"internal/x/testdata/a.go": "package utils\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if found := files.breaches(t); len(found) != 0 {
				t.Errorf("reported %v", found)
			}
		})
	}
}

func TestUnreadableFileIsAnError(t *testing.T) {
	if _, err := Check(fstest.MapFS{"a.go": {Data: []byte("not Go")}}); err == nil {
		t.Error("a file that does not parse passed the walls")
	}
}
