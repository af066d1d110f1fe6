package arch

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

const (
	mostMethods   = 3
	mostMainLines = 40
)

// interfacesAreSmall counts methods, an embedded interface of the same package by its own methods, a foreign one as one.
func interfacesAreSmall(t tree) []Breach {
	local := localInterfaces(t)
	var breaches []Breach
	for _, f := range t.files {
		if f.test || f.generated {
			continue
		}
		ast.Inspect(f.syntax, func(node ast.Node) bool {
			found, isInterface := node.(*ast.InterfaceType)
			if !isInterface {
				return true
			}
			if n := methods(found, local[f.folder], nil); n > mostMethods {
				breaches = append(breaches, f.breach(6, found, "interface has %d methods, at most %d", n, mostMethods))
			}
			return true
		})
	}
	return breaches
}

// localInterfaces are the named interfaces of each folder.
func localInterfaces(t tree) map[string]map[string]*ast.InterfaceType {
	all := map[string]map[string]*ast.InterfaceType{}
	for _, f := range t.files {
		if all[f.folder] == nil {
			all[f.folder] = map[string]*ast.InterfaceType{}
		}
		ast.Inspect(f.syntax, func(node ast.Node) bool {
			if spec, isType := node.(*ast.TypeSpec); isType {
				if found, isInterface := spec.Type.(*ast.InterfaceType); isInterface {
					all[f.folder][spec.Name.Name] = found
				}
			}
			return true
		})
	}
	return all
}

func methods(of *ast.InterfaceType, local map[string]*ast.InterfaceType, seen []*ast.InterfaceType) int {
	if slices.Contains(seen, of) {
		return 0
	}
	seen = append(seen, of)
	count := 0
	for _, field := range of.Methods.List {
		switch embedded := field.Type.(type) {
		case *ast.FuncType:
			count += len(field.Names)
		case *ast.Ident:
			if known := local[embedded.Name]; known != nil {
				count += methods(known, local, seen)
			}
		case *ast.SelectorExpr, *ast.IndexExpr, *ast.IndexListExpr:
			count++
		}
	}
	return count
}

// vague names say nothing about what is inside, so everything ends up inside.
var vague = []string{"pkg", "util", "utils", "common", "helpers", "types", "constants", "manager"}

func packagesHaveNames(t tree) []Breach {
	var breaches []Breach
	for _, f := range t.files {
		if name := strings.TrimSuffix(f.syntax.Name.Name, "_test"); slices.Contains(vague, name) {
			breaches = append(breaches, f.breach(7, f.syntax.Name, "package is named %s", name))
		}
		for element := range strings.SplitSeq(f.folder, "/") {
			if slices.Contains(vague, element) {
				breaches = append(breaches, Breach{Wall: 7, Where: f.folder, What: "folder is named " + element})
			}
		}
	}
	return breaches
}

// mainsAreShort counts all files of a program together, so that a second file is no way round.
func mainsAreShort(t tree) []Breach {
	lines := map[string]int{}
	var breaches []Breach
	for _, f := range t.programs() {
		if !f.under("cmd") {
			continue
		}
		lines[f.folder] += f.lines
		if f.syntax.Name.Name != "main" {
			breaches = append(breaches, f.breach(7, f.syntax.Name, "cmd holds mains only, not package %s", f.syntax.Name))
		}
	}
	for folder, n := range lines {
		if n > mostMainLines {
			what := fmt.Sprintf("main has %d lines, at most %d: the rest belongs to operator, cli, agent or worker", n, mostMainLines)
			breaches = append(breaches, Breach{Wall: 7, Where: folder, What: what})
		}
	}
	return breaches
}
