package arch

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// A fakeRepository is a repository in memory: path to content.
type fakeRepository map[string]string

func (w fakeRepository) violations(t *testing.T) []Violation {
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

// fileWithImports is a Go file that imports packages; a path that begins with ~ is one of ours.
func fileWithImports(pkg string, paths ...string) string {
	var text strings.Builder
	text.WriteString("package " + pkg + "\n")
	for _, path := range paths {
		fmt.Fprintf(&text, "import _ %q\n", strings.Replace(path, "~", Module, 1))
	}
	return text.String()
}

// fileWithCall is a Go file with one statement in a function.
func fileWithCall(pkg, imported, statement string) string {
	return fmt.Sprintf("package %s\nimport %s\nfunc f() { %s }\n", pkg, imported, statement)
}

type violationCase struct {
	files    fakeRepository
	rule     int
	location string
	message  string
}

func assertOneViolation(t *testing.T, c violationCase) {
	t.Helper()
	violations := c.files.violations(t)
	if len(violations) != 1 {
		t.Fatalf("found %d breaches: %v", len(violations), violations)
	}
	if violations[0].Rule != c.rule || !strings.HasPrefix(violations[0].Location, c.location) ||
		!strings.Contains(violations[0].Message, c.message) {
		t.Errorf("found %v, want wall %d at %s: %s", violations[0], c.rule, c.location, c.message)
	}
}

func TestImportViolationsAreReported(t *testing.T) {
	for name, c := range map[string]violationCase{
		"engine imports a library": {fakeRepository{"internal/pool/assign/a.go": fileWithImports("assign", "sort", "example.com/x")},
			1, "internal/pool/assign/a.go:3", "imports example.com/x"},
		"engine imports API types": {fakeRepository{"internal/spread/split/a.go": fileWithImports("spread", "~/api/v1alpha1")},
			1, "internal/spread/split/a.go:2", "not the standard library"},
		"engine imports another engine": {fakeRepository{"internal/swarm/topology/a.go": fileWithImports("topology", "~/internal/pool/assign")},
			1, "internal/swarm/topology/a.go", "internal/pool/assign"},
		"engine imports context": {fakeRepository{"internal/swarm/schedule/a.go": fileWithImports("schedule", "context")},
			1, "internal/swarm/schedule/a.go", "engine imports context"},
		"engine part imports randomness": {fakeRepository{"internal/swarm/schedule/queue/a.go": fileWithImports("queue", "math/rand/v2")},
			1, "internal/swarm/schedule/queue/a.go", "math/rand/v2"},
		"engine imports a logger": {fakeRepository{"internal/pool/assign/a.go": fileWithImports("assign", "log/slog")},
			1, "internal/pool/assign/a.go", "log/slog"},
		"engine reads the clock": {fakeRepository{"internal/pool/assign/a.go": fileWithCall("assign", `"time"`, "_ = time.Now()")},
			1, "internal/pool/assign/a.go:3", "time.Now"},
		"engine reads the clock under another name": {fakeRepository{"internal/pool/assign/a.go": fileWithCall("assign", `t "time"`,
			"_ = t.Since")},
			1, "internal/pool/assign/a.go:3", "time.Since"},
		"engine hides where time comes from": {fakeRepository{"internal/pool/assign/a.go": fileWithCall("assign", `. "time"`, "_ = Now()")},
			1, "internal/pool/assign/a.go", "with a dot"},
		"manifest imports a client": {fakeRepository{"internal/swarm/manifest/a.go": fileWithImports("manifest", "k8s.io/api/apps/v1",
			"sigs.k8s.io/controller-runtime/pkg/client")},
			2, "internal/swarm/manifest/a.go:3", "controller-runtime"},
		"manifest imports client-go": {fakeRepository{"internal/swarm/manifest/a.go": fileWithImports("manifest", "k8s.io/client-go/kubernetes")},
			2, "internal/swarm/manifest/a.go", "client-go"},
		"manifest imports context": {fakeRepository{"internal/swarm/manifest/a.go": fileWithImports("manifest", "context")},
			2, "internal/swarm/manifest/a.go", "context"},
		"manifest imports a controller": {fakeRepository{"internal/swarm/manifest/a.go": fileWithImports("manifest",
			"~/internal/controller/swarm")},
			2, "internal/swarm/manifest/a.go", "controller/swarm"},
		"snapshot imports a client": {fakeRepository{"internal/spread/snapshot/a.go": fileWithImports("snapshot",
			"sigs.k8s.io/controller-runtime/pkg/client")},
			8, "internal/spread/snapshot/a.go", "controller-runtime"},
		"plan imports client-go": {fakeRepository{"internal/pool/plan/a.go": fileWithImports("plan", "k8s.io/client-go/kubernetes")},
			8, "internal/pool/plan/a.go", "client-go"},
		"controller imports a webhook": {fakeRepository{"internal/controller/spread/a.go": fileWithImports("spread",
			"~/internal/webhook/spread")},
			3, "internal/controller/spread/a.go", "internal/webhook/spread"},
		"controller imports another": {fakeRepository{"internal/controller/swarm/a.go": fileWithImports("swarm", "~/internal/controller/task")},
			3, "internal/controller/swarm/a.go", "imports " + Module + "/internal/controller/task"},
		"controller imports one that begins alike": {fakeRepository{"internal/controller/swarm/a.go": fileWithImports("swarm",
			"~/internal/controller/swarmsnapshot")},
			3, "internal/controller/swarm/a.go", "swarmsnapshot"},
		"controller imports httpapi": {fakeRepository{"internal/controller/task/a.go": fileWithImports("task", "~/internal/httpapi")},
			3, "internal/controller/task/a.go", "httpapi"},
		"controller part imports cli": {fakeRepository{"internal/controller/task/queue/a.go": fileWithImports("queue", "~/internal/cli")},
			3, "internal/controller/task/queue/a.go", "cli"},
		"controller imports the allocator": {fakeRepository{"internal/controller/spread/a.go": fileWithImports("spread",
			"~/internal/spread/allocator")},
			3, "internal/controller/spread/a.go", "internal/spread/allocator"},
		"test imports devcluster": {fakeRepository{"test/e2e/a_test.go": fileWithImports("e2e", "~/devcluster/cluster")},
			5, "test/e2e/a_test.go", "run as a program"},
		"root module needs Kubernetes": {fakeRepository{"go.mod": "module x\nrequire k8s.io/kubernetes v1.0.0\n"},
			5, "go.mod", "k8s.io/kubernetes"},
		"tools replace Kubernetes": {fakeRepository{"tools/go.mod": "module x\nreplace (\n\tk8s.io/kubernetes => ../k\n)\n"},
			5, "tools/go.mod", "k8s.io/kubernetes"},
	} {
		t.Run(name, func(t *testing.T) { assertOneViolation(t, c) })
	}
}

func TestCallViolationsAreReported(t *testing.T) {
	const dispatch = "internal/swarm/dispatch/a.go"
	for name, c := range map[string]violationCase{
		"status updated": {fakeRepository{dispatch: fileWithCall("dispatch", `"x"`, "c.Status().Update(ctx, o)")}, 4, dispatch + ":3",
			".Status()"},
		"status patched deep": {fakeRepository{dispatch: fileWithCall("dispatch", `"x"`, "_ = r.api.Status().Patch(ctx, o, p)")}, 4, dispatch,
			".Status()"},
		"status writer stored": {fakeRepository{dispatch: fileWithCall("dispatch", `"x"`, "w := c.Status(); w.Update(ctx, o)")}, 4, dispatch,
			".Status()"},
		"status as subresource": {fakeRepository{dispatch: fileWithCall("dispatch", `"x"`, `c.SubResource("status").Patch(ctx, o, p)`)}, 4,
			dispatch, "SubResource"},
		"typed client": {fakeRepository{dispatch: fileWithCall("dispatch", `"x"`, "pods.UpdateStatus(ctx, o)")}, 4, dispatch, "UpdateStatus"},
		"controller itself": {fakeRepository{"internal/controller/swarm/a.go": fileWithCall("swarm", `"x"`, "c.Status().Update(ctx, o)")},
			4, "internal/controller/swarm/a.go", "only kit"},
		"environment read": {fakeRepository{dispatch: fileWithCall("dispatch", `"os"`, `_ = os.Getenv("A")`)}, 4, dispatch + ":3", "os.Getenv"},
		"file read in kit": {fakeRepository{"kit/a.go": fileWithCall("kit", `"os"`, `_, _ = os.ReadFile("a")`)}, 4, "kit/a.go", "os.ReadFile"},
		"flags declared":   {fakeRepository{"internal/link/a.go": fileWithImports("link", "flag")}, 4, "internal/link/a.go", "imports flag"},
		"pflag in the API": {fakeRepository{"api/v1alpha1/a.go": fileWithImports("v1alpha1", "github.com/spf13/pflag")}, 4, "api/v1alpha1/a.go",
			"pflag"},
	} {
		t.Run(name, func(t *testing.T) { assertOneViolation(t, c) })
	}
}

func TestShapeViolationsAreReported(t *testing.T) {
	four := "package link\ntype Big interface { A(); B(); C(); D() }\n"
	embedding := "package link\ntype two interface { A(); B() }\ntype Big interface { two; C(); io.Closer }\n"
	anonymous := "package link\nfunc f(x interface { A(); B(); C(); D() }) {}\n"
	for name, c := range map[string]violationCase{
		"four methods":          {fakeRepository{"internal/link/a.go": four}, 6, "internal/link/a.go:2", "4 methods"},
		"embedded methods":      {fakeRepository{"internal/link/a.go": embedding}, 6, "internal/link/a.go:3", "4 methods"},
		"anonymous":             {fakeRepository{"internal/link/a.go": anonymous}, 6, "internal/link/a.go:2", "4 methods"},
		"in another module too": {fakeRepository{"tools/x/a.go": four}, 6, "tools/x/a.go", "4 methods"},
		"package named utils":   {fakeRepository{"internal/strings/a.go": "package utils\n"}, 7, "internal/strings/a.go", "named utils"},
		"test package of it": {fakeRepository{"internal/strings/a_test.go": "package common_test\n"}, 7, "internal/strings/a_test.go",
			"common"},
		"folder named pkg": {fakeRepository{"pkg/swarm/a.go": "package swarm\n"}, 7, "pkg/swarm", "folder is named pkg"},
		"long main":        {fakeRepository{"cmd/x/main.go": "package main\n" + strings.Repeat("\n", 40)}, 7, "cmd/x", "41 lines"},
		"main in two files": {fakeRepository{"cmd/x/main.go": "package main\n" + strings.Repeat("\n", 29),
			"cmd/x/more.go": "package main\n" + strings.Repeat("\n", 29)},
			7, "cmd/x", "60 lines"},
		"library under cmd": {fakeRepository{"cmd/x/config/a.go": "package config\n"}, 7, "cmd/x/config/a.go", "package config"},
	} {
		t.Run(name, func(t *testing.T) { assertOneViolation(t, c) })
	}
}

// Code that looks like a violation and is none: false positives teach developers to evade the rules.
func TestWhatIsAllowedIsNotReported(t *testing.T) {
	for name, files := range map[string]fakeRepository{
		"engine with its own parts": {"internal/pool/assign/a.go": fileWithImports("assign", "sort", "~/internal/pool/assign/ring")},
		"engine with time's types":  {"internal/pool/assign/a.go": fileWithCall("assign", `"time"`, "var _ time.Duration = time.Second")},
		"engine's tests":            {"internal/pool/assign/a_test.go": fileWithImports("assign", "context", "pgregory.net/rapid")},
		"name that begins alike":    {"internal/assignment/a.go": fileWithImports("assignment", "example.com/x")},
		"manifest with API structs": {"internal/swarm/manifest/a.go": fileWithImports("manifest", "k8s.io/api/apps/v1", "~/api/v1alpha1",
			"~/internal/swarm/topology")},
		"controller with its parts": {"internal/controller/swarm/a.go": fileWithImports("swarm", "~/internal/controller/swarm/x", "~/kit",
			"~/internal/pool/assign")},
		"kit writes status":         {"kit/a.go": fileWithCall("kit", `"x"`, "c.Status().Update(ctx, o)")},
		"controller asks kit":       {"internal/controller/swarm/a.go": fileWithCall("swarm", `"x"`, "kit.UpdateStatus(ctx, o)")},
		"API error is read":         {"internal/swarm/dispatch/a.go": fileWithCall("dispatch", `"x"`, "_ = err.Status().Reason")},
		"status field is set":       {"internal/swarm/dispatch/a.go": fileWithCall("dispatch", `"x"`, "o.Status.Phase = p")},
		"test writes status":        {"test/integration/a_test.go": fileWithCall("integration", `"x"`, "c.Status().Update(ctx, o)")},
		"operator reads the world":  {"internal/operator/a.go": fileWithCall("operator", `"os"`, `_ = os.Getenv("A")`)},
		"main reads arguments":      {"cmd/x/main.go": fileWithCall("main", `"os"`, "_ = os.Args")},
		"writing to stdout":         {"internal/httpapi/a.go": fileWithCall("httpapi", `"os"`, "_ = os.Stdout")},
		"a local variable named os": {"internal/link/a.go": fileWithCall("link", `"x"`, `os := y; _ = os.Getenv("A")`)},
		"three methods":             {"internal/link/a.go": "package link\ntype T interface { A(); B(); C() }\n"},
		"type constraint":           {"internal/link/a.go": "package link\ntype T interface { ~int | ~string }\n"},
		"generated interface":       {"api/link/v1/a.pb.go": "// Code generated by x. DO NOT EDIT.\n\npackage v1\ntype T interface { A(); B(); C(); D() }\n"},
		"devcluster's own parts": {"devcluster/a.go": fileWithImports("main", "~/devcluster/cluster"),
			"devcluster/go.mod": "module x\nrequire k8s.io/kubernetes v1.0.0\n"},
		"a comment in go.mod": {"go.mod": "module x\n// never k8s.io/kubernetes here\n"},
		"forty lines":         {"cmd/x/main.go": "package main\n" + strings.Repeat("\n", 39)},
		"testdata":            {"internal/x/testdata/a.go": "package utils\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if found := files.violations(t); len(found) != 0 {
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
