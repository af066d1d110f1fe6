package arch

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// uses reports every use of the named identifiers of an imported package, under whatever name it was imported.
func (f file) uses(ruleNumber int, pkg string, names []string, reason string) []Violation {
	local := f.localName(pkg)
	if local == "" {
		return nil
	}
	if local == "." {
		return []Violation{f.violation(ruleNumber, f.syntax.Name, "imports %s with a dot, which hides what it uses", pkg)}
	}
	var violations []Violation
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		selector, isSelector := node.(*ast.SelectorExpr)
		if isSelector && isNamed(selector.X, local) && slices.Contains(names, selector.Sel.Name) {
			violations = append(violations, f.violation(ruleNumber, node, "uses %s.%s: %s", pkg, selector.Sel.Name, reason))
		}
		return true
	})
	return violations
}

// localName returns the name of an imported package in the file, "" if the file does not import it.
func (f file) localName(pkg string) string {
	spec := f.imports()[pkg]
	switch {
	case spec == nil:
		return ""
	case spec.Name != nil:
		return spec.Name.Name
	}
	return path.Base(pkg)
}

func isNamed(expression ast.Expr, name string) bool {
	identifier, isIdentifier := expression.(*ast.Ident)
	return isIdentifier && identifier.Name == name
}

// configPackages are packages that exist to read flags and configuration.
var configPackages = []string{
	"flag", "io/ioutil", "github.com/spf13/pflag", "github.com/spf13/viper", "github.com/spf13/cobra",
}

// osReadNames are the names in package os that read files, arguments or environment. Writing to os.Stdout is not input.
var osReadNames = []string{
	"Args", "Environ", "ExpandEnv", "Getenv", "LookupEnv", "Getwd", "Hostname", "UserHomeDir", "UserConfigDir",
	"Open", "OpenFile", "OpenRoot", "OpenInRoot", "ReadFile", "ReadDir", "Readlink", "DirFS", "Stat", "Lstat",
}

// mayReadEnvironment lists the paths that may read flags, files and environment: operator composes the operator, users run cli and the
// mains, and agent and worker are libraries in third-party pods that get all input from there. tools, devcluster and examples are separate
// programs.
var mayReadEnvironment = []string{"internal/operator", "internal/cli", "cmd", "agent", "worker", "tools", "devcluster", "examples"}

func onlyOperatorReadsEnvironment(t tree) []Violation {
	const reason = "flags, files and environment are read by operator, which passes values on"
	var violations []Violation
	for _, f := range t.productionFiles() {
		if f.isUnder(mayReadEnvironment...) {
			continue
		}
		for name, spec := range f.imports() {
			if slices.Contains(configPackages, name) {
				violations = append(violations, f.violation(4, spec, "imports %s: %s", name, reason))
			}
		}
		violations = append(violations, f.uses(4, "os", osReadNames, reason)...)
	}
	return violations
}

// statusWriters are the methods with which clients write a status.
var (
	statusVerbs   = []string{"Create", "Update", "Patch", "Apply"}
	statusMethods = []string{"UpdateStatus", "ApplyStatus"}
)

func onlyKitWritesStatus(t tree) []Violation {
	var violations []Violation
	for _, f := range t.productionFiles() {
		if !f.isUnder("kit", "devcluster", "tools") {
			violations = append(violations, statusWrites(f)...)
		}
	}
	return violations
}

func statusWrites(f file) []Violation {
	var violations []Violation
	allowed := map[ast.Node]bool{}
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.SelectorExpr:
			// err.Status().Reason reads a response of the API server; only the verbs write.
			if !slices.Contains(statusVerbs, n.Sel.Name) {
				allowed[n.X] = true
			}
		case *ast.CallExpr:
			if how := writesStatus(n); how != "" && !allowed[n] {
				violations = append(violations, f.violation(4, n, "%s: only kit writes status", how))
			}
		}
		return true
	})
	return violations
}

// writesStatus recognizes client.Status(), client.SubResource("status") and kinds.UpdateStatus(...), and returns which one it found. A
// status writer that is stored or passed on counts as a write: there is no reason to store one for reading.
func writesStatus(call *ast.CallExpr) string {
	selector, isMethod := call.Fun.(*ast.SelectorExpr)
	if !isMethod || isNamed(selector.X, "kit") {
		return ""
	}
	name := selector.Sel.Name
	switch {
	case name == "Status" && len(call.Args) == 0:
		return "calls .Status()"
	case name == "SubResource" && len(call.Args) == 1 && isStringLiteral(call.Args[0], "status"):
		return `calls .SubResource("status")`
	case slices.Contains(statusMethods, name):
		return "calls ." + name
	}
	return ""
}

func isStringLiteral(expression ast.Expr, text string) bool {
	literal, isLiteral := expression.(*ast.BasicLit)
	if !isLiteral {
		return false
	}
	value, err := strconv.Unquote(literal.Value)
	return err == nil && strings.EqualFold(value, text)
}
