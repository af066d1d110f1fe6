package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// selector is the variable that selects the active mutant, and selectorFile the file that declares it.
const (
	selector     = "mutantActive"
	selectorFile = "mutant_active.go"
	environment  = "SWARM_MUTANT"
)

// selectorSource declares the variable. Package initialization orders it before every function that looks at it.
func selectorSource(packageName string) []byte {
	return fmt.Appendf(nil, "package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar %s, _ = strconv.Atoi(os.Getenv(%q))\n", packageName,
		selector, environment)
}

// edit replaces a range of bytes.
type edit struct {
	start, end int
	text       string
}

func apply(content []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.start - b.start })
	var out bytes.Buffer
	at := 0
	for _, e := range edits {
		out.Write(content[at:e.start])
		out.WriteString(e.text)
		at = e.end
	}
	out.Write(content[at:])
	return out.Bytes()
}

// writeMutants writes a file that holds all of its mutants: each is a copy of its function that the function calls when the mutant is
// active. One program is then compiled and linked for all of them, which takes far longer than most tests.
func writeMutants(file *source, mutants []mutant) []byte {
	var edits []edit
	var copies bytes.Buffer
	for _, function := range functionsOf(mutants) {
		header, call := signature(file, function)
		var cases strings.Builder
		for _, m := range mutants {
			if m.function != function {
				continue
			}
			fmt.Fprintf(&cases, " case %d: %s;", m.id, strings.ReplaceAll(call, "\x00", copyName(function, m.id)))
			fmt.Fprintf(&copies, "\n//line mutant_%d.go:1\n%s\n", m.id, copyFunction(file, m, header))
		}
		body := file.offset(function.Body.Lbrace) + 1
		edits = append(edits, header...)
		edits = append(edits, edit{body, body, " switch " + selector + " {" + cases.String() + " };"})
	}
	return append(apply(file.content, edits), copies.Bytes()...)
}

func functionsOf(mutants []mutant) []*ast.FuncDecl {
	var functions []*ast.FuncDecl
	for _, m := range mutants {
		if !slices.Contains(functions, m.function) {
			functions = append(functions, m.function)
		}
	}
	return functions
}

func copyName(function *ast.FuncDecl, id int) string {
	return fmt.Sprintf("%s_mutant%d", function.Name.Name, id)
}

// copyFunction writes the mutated copy of a function under a name of its own.
func copyFunction(file *source, m mutant, header []edit) []byte {
	name := m.function.Name
	edits := slices.Clone(header)
	edits = append(edits, edit{file.offset(name.Pos()), file.offset(name.End()), copyName(m.function, m.id)}, edit{m.start, m.end,
		m.replacement})
	start, end := file.offset(m.function.Pos()), file.offset(m.function.End())
	for n := range edits {
		edits[n].start, edits[n].end = edits[n].start-start, edits[n].end-start
	}
	return apply(file.content[start:end], edits)
}

// signature returns the edits that name every parameter of a function, and the statement that calls its copy, with \x00 for the copy's
// name.
func signature(file *source, function *ast.FuncDecl) ([]edit, string) {
	var edits []edit
	arguments := parameters(file, function.Type.Params, &edits)
	call := "\x00"
	if function.Recv != nil {
		call = parameters(file, function.Recv, &edits)[0] + ".\x00"
	}
	if function.Type.TypeParams != nil {
		call += "[" + strings.Join(parameters(file, function.Type.TypeParams, &edits), ", ") + "]"
	}
	call += "(" + strings.Join(arguments, ", ") + ")"
	if function.Type.Results == nil {
		return edits, call + "; return"
	}
	return edits, "return " + call
}

func parameters(file *source, fields *ast.FieldList, edits *[]edit) []string {
	var arguments []string
	for _, field := range fields.List {
		suffix := ""
		if _, variadic := field.Type.(*ast.Ellipsis); variadic {
			suffix = "..."
		}
		if len(field.Names) == 0 {
			name := fmt.Sprintf("mutantArg%d", file.offset(field.Pos()))
			at := file.offset(field.Type.Pos())
			*edits = append(*edits, edit{at, at, name + " "})
			arguments = append(arguments, name+suffix)
		}
		for _, identifier := range field.Names {
			name := identifier.Name
			if name == "_" {
				name = fmt.Sprintf("mutantArg%d", file.offset(identifier.Pos()))
				*edits = append(*edits, edit{file.offset(identifier.Pos()), file.offset(identifier.End()), name})
			}
			arguments = append(arguments, name+suffix)
		}
	}
	return arguments
}

// substitute writes a file with one mutant that is outside of functions.
func substitute(m mutant) []byte {
	return apply(m.file.content, []edit{{m.start, m.end, m.replacement}})
}
