package arch

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

const (
	maxMethods   = 3
	maxMainLines = 40
)

// interfacesAreSmall counts methods. An embedded interface of the same package counts with its own methods, a foreign one as one.
func interfacesAreSmall(t tree) []Violation {
	local := localInterfaces(t)
	var violations []Violation
	for _, f := range t.files {
		if f.test || f.generated {
			continue
		}
		ast.Inspect(f.syntax, func(node ast.Node) bool {
			iface, isInterface := node.(*ast.InterfaceType)
			if !isInterface {
				return true
			}
			if n := countMethods(iface, local[f.folder], nil); n > maxMethods {
				violations = append(violations, f.violation(6, iface, "interface has %d methods, at most %d", n, maxMethods))
			}
			return true
		})
	}
	return violations
}

// localInterfaces returns the named interfaces of each folder.
func localInterfaces(t tree) map[string]map[string]*ast.InterfaceType {
	interfaces := map[string]map[string]*ast.InterfaceType{}
	for _, f := range t.files {
		if interfaces[f.folder] == nil {
			interfaces[f.folder] = map[string]*ast.InterfaceType{}
		}
		ast.Inspect(f.syntax, func(node ast.Node) bool {
			if spec, isType := node.(*ast.TypeSpec); isType {
				if found, isInterface := spec.Type.(*ast.InterfaceType); isInterface {
					interfaces[f.folder][spec.Name.Name] = found
				}
			}
			return true
		})
	}
	return interfaces
}

func countMethods(iface *ast.InterfaceType, local map[string]*ast.InterfaceType, visited []*ast.InterfaceType) int {
	if slices.Contains(visited, iface) {
		return 0
	}
	visited = append(visited, iface)
	count := 0
	for _, field := range iface.Methods.List {
		switch embedded := field.Type.(type) {
		case *ast.FuncType:
			count += len(field.Names)
		case *ast.Ident:
			if known := local[embedded.Name]; known != nil {
				count += countMethods(known, local, visited)
			}
		case *ast.SelectorExpr, *ast.IndexExpr, *ast.IndexListExpr:
			count++
		}
	}
	return count
}

// vagueNames are package names that do not say what belongs inside, so that everything ends up there.
var vagueNames = []string{"pkg", "util", "utils", "common", "helpers", "types", "constants", "manager"}

func packagesHaveNames(t tree) []Violation {
	var violations []Violation
	for _, f := range t.files {
		if name := strings.TrimSuffix(f.syntax.Name.Name, "_test"); slices.Contains(vagueNames, name) {
			violations = append(violations, f.violation(7, f.syntax.Name, "package is named %s", name))
		}
		for element := range strings.SplitSeq(f.folder, "/") {
			if slices.Contains(vagueNames, element) {
				violations = append(violations, Violation{Rule: 7, Location: f.folder, Message: "folder is named " + element})
			}
		}
	}
	return violations
}

// mainsAreShort counts all files of a program together, so that a second file does not evade the limit.
func mainsAreShort(t tree) []Violation {
	lines := map[string]int{}
	var violations []Violation
	for _, f := range t.productionFiles() {
		if !f.isUnder("cmd") {
			continue
		}
		lines[f.folder] += f.lines
		if f.syntax.Name.Name != "main" {
			violations = append(violations, f.violation(7, f.syntax.Name, "cmd holds mains only, not package %s", f.syntax.Name))
		}
	}
	for folder, n := range lines {
		if n > maxMainLines {
			what := fmt.Sprintf("main has %d lines, at most %d: the rest belongs to operator, cli, agent or worker", n, maxMainLines)
			violations = append(violations, Violation{Rule: 7, Location: folder, Message: what})
		}
	}
	return violations
}
