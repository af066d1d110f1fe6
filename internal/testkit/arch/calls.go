package arch

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// uses reports every mention of the named things of an imported package, under whatever name it was imported.
func (f file) uses(wall int, pkg string, names []string, why string) []Breach {
	local := f.localName(pkg)
	if local == "" {
		return nil
	}
	if local == "." {
		return []Breach{f.breach(wall, f.syntax.Name, "imports %s with a dot, which hides what it uses", pkg)}
	}
	var breaches []Breach
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		selector, isSelector := node.(*ast.SelectorExpr)
		if isSelector && isNamed(selector.X, local) && slices.Contains(names, selector.Sel.Name) {
			breaches = append(breaches, f.breach(wall, node, "uses %s.%s: %s", pkg, selector.Sel.Name, why))
		}
		return true
	})
	return breaches
}

// localName is what the file calls a package, "" when it does not import it.
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

// worldReaders are packages that exist to read flags and configuration.
var worldReaders = []string{
	"flag", "io/ioutil", "github.com/spf13/pflag", "github.com/spf13/viper", "github.com/spf13/cobra",
}

// worldReads are the names in package os that read files, arguments or environment. Writing to os.Stdout is no secret input.
var worldReads = []string{
	"Args", "Environ", "ExpandEnv", "Getenv", "LookupEnv", "Getwd", "Hostname", "UserHomeDir", "UserConfigDir",
	"Open", "OpenFile", "OpenRoot", "OpenInRoot", "ReadFile", "ReadDir", "Readlink", "DirFS", "Stat", "Lstat",
}

// readers may read the world: operator composes the operator, cli and mains are run by users, agent and worker are
// libraries in third-party pods that get their whole input from there. tools, devcluster and examples are programs of their own.
var readers = []string{"internal/operator", "internal/cli", "cmd", "agent", "worker", "tools", "devcluster", "examples"}

func onlyOperatorReadsTheWorld(t tree) []Breach {
	const why = "flags, files and environment are read by operator, which passes values on"
	var breaches []Breach
	for _, f := range t.programs() {
		if f.under(readers...) {
			continue
		}
		for name, spec := range f.imports() {
			if slices.Contains(worldReaders, name) {
				breaches = append(breaches, f.breach(4, spec, "imports %s: %s", name, why))
			}
		}
		breaches = append(breaches, f.uses(4, "os", worldReads, why)...)
	}
	return breaches
}

// statusWriters are how the clients we know write a status.
var (
	statusVerbs   = []string{"Create", "Update", "Patch", "Apply"}
	statusMethods = []string{"UpdateStatus", "ApplyStatus"}
)

func onlyKitWritesStatus(t tree) []Breach {
	var breaches []Breach
	for _, f := range t.programs() {
		if !f.under("kit", "devcluster", "tools") {
			breaches = append(breaches, statusWrites(f)...)
		}
	}
	return breaches
}

func statusWrites(f file) []Breach {
	var breaches []Breach
	harmless := map[ast.Node]bool{}
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.SelectorExpr:
			// err.Status().Reason reads an answer of the API server; only the verbs write.
			if !slices.Contains(statusVerbs, n.Sel.Name) {
				harmless[n.X] = true
			}
		case *ast.CallExpr:
			if how := writesStatus(n); how != "" && !harmless[n] {
				breaches = append(breaches, f.breach(4, n, "%s: only kit writes status", how))
			}
		}
		return true
	})
	return breaches
}

// writesStatus recognises client.Status(), client.SubResource("status"), kinds.UpdateStatus(...) and returns which it saw.
// A status writer that is stored or passed on counts as a write: there is no reason to store one for reading.
func writesStatus(call *ast.CallExpr) string {
	selector, isMethod := call.Fun.(*ast.SelectorExpr)
	if !isMethod || isNamed(selector.X, "kit") {
		return ""
	}
	name := selector.Sel.Name
	switch {
	case name == "Status" && len(call.Args) == 0:
		return "calls .Status()"
	case name == "SubResource" && len(call.Args) == 1 && isText(call.Args[0], "status"):
		return `calls .SubResource("status")`
	case slices.Contains(statusMethods, name):
		return "calls ." + name
	}
	return ""
}

func isText(expression ast.Expr, text string) bool {
	literal, isLiteral := expression.(*ast.BasicLit)
	if !isLiteral {
		return false
	}
	value, err := strconv.Unquote(literal.Value)
	return err == nil && strings.EqualFold(value, text)
}
