package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// mutant is one small change to one source file.
type mutant struct {
	id          int
	file        *source
	function    *ast.FuncDecl // nil: the change is outside of functions
	start, end  int           // the bytes of the file that are replaced
	replacement string
	change      string // what was changed, for reports
}

func (m mutant) line() int {
	return m.file.set.Position(m.file.set.File(m.file.tree.Pos()).Pos(m.start)).Line
}

// operatorSwaps holds the operators that are replaced by a neighbor: the boundary of an order, and the connective of a condition.
var operatorSwaps = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
}

// finder collects the mutants of one file in the order of the source.
type finder struct {
	file     *source
	function *ast.FuncDecl
	results  []*ast.FieldList // of the functions and function literals around the node
	negated  map[ast.Expr]bool
	mutants  []mutant
}

// findMutants lists every mutant of a file.
func findMutants(file *source) []mutant {
	f := &finder{file: file, negated: map[ast.Expr]bool{}}
	for _, decl := range file.tree.Decls {
		f.function, f.results = nil, nil
		if function, ok := decl.(*ast.FuncDecl); ok {
			if function.Body == nil || function.Name.Name == "_" || recovers(function) {
				continue
			}
			f.function, f.results = function, []*ast.FieldList{function.Type.Results}
			ast.Walk(f, function.Body)
			continue
		}
		ast.Walk(f, decl)
	}
	return f.mutants
}

// recovers reports whether the function calls recover itself. It works only in the function that was deferred, not in a copy which that
// one calls.
func recovers(function *ast.FuncDecl) bool {
	calls := false
	ast.Inspect(function.Body, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok && isNamed(call.Fun, "recover") {
			calls = true
		}
		_, literal := node.(*ast.FuncLit)
		return !literal
	})
	return calls
}

// Visit implements ast.Visitor.
func (f *finder) Visit(node ast.Node) ast.Visitor {
	switch n := node.(type) {
	case *ast.FuncLit:
		inner := *f
		inner.results = slices.Concat(f.results, []*ast.FieldList{n.Type.Results})
		ast.Walk(&inner, n.Body)
		f.mutants = inner.mutants
		return nil
	case *ast.ImportSpec:
		return nil
	case *ast.ReturnStmt:
		f.returns(n)
	case *ast.BasicLit:
		f.constant(n)
	case *ast.BinaryExpr:
		f.operator(n)
	case *ast.CallExpr:
		if isLogging(n) {
			return nil
		}
		f.skipCapacity(n)
	case ast.Stmt:
		return f.statement(n)
	}
	return f
}

func (f *finder) statement(statement ast.Stmt) ast.Visitor {
	if isRemovable(statement) {
		f.add(statement, "if false { "+f.text(statement)+" }", "removed `"+f.short(statement)+"`")
	}
	switch s := statement.(type) {
	case *ast.IfStmt:
		f.negate(s.Cond)
		f.empty(s.Body, s.Cond)
	case *ast.ForStmt:
		f.negate(s.Cond)
	case *ast.SwitchStmt:
		if s.Tag == nil {
			f.negateCases(s.Body)
		}
	}
	return f
}

// isRemovable reports whether the program still compiles without the statement. It stays in the text behind `if false`, so that what it
// uses stays used.
func isRemovable(statement ast.Stmt) bool {
	switch s := statement.(type) {
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && !isLogging(call)
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE && !allBlank(s.Lhs)
	case *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt:
		return true
	}
	return false
}

func allBlank(expressions []ast.Expr) bool {
	for _, e := range expressions {
		if !isNamed(e, "_") {
			return false
		}
	}
	return true
}

func (f *finder) negateCases(body *ast.BlockStmt) {
	for _, clause := range body.List {
		for _, condition := range clause.(*ast.CaseClause).List {
			f.negate(condition)
		}
	}
}

func (f *finder) negate(condition ast.Expr) {
	if condition == nil {
		return
	}
	f.negated[condition] = true
	f.add(condition, "!("+f.text(condition)+")", "negated `"+f.short(condition)+"`")
}

// empty removes the body of an if. A body of one statement that is removed anyway would be the same mutant twice.
func (f *finder) empty(body *ast.BlockStmt, condition ast.Expr) {
	if len(body.List) == 0 || len(body.List) == 1 && (isRemovable(body.List[0]) || isLoggingStatement(body.List[0])) {
		return
	}
	f.add(body, "{ if false "+f.text(body)+" }", "removed the body of `if "+f.short(condition)+"`")
}

func (f *finder) operator(e *ast.BinaryExpr) {
	replacement, ok := operatorSwaps[e.Op]
	equality := e.Op == token.EQL || e.Op == token.NEQ
	if !ok || equality && f.negated[e] {
		return
	}
	start := f.offset(e.OpPos)
	f.addRange(start, start+len(e.Op.String()), replacement.String(), fmt.Sprintf("`%s` to `%s` in `%s`", e.Op, replacement, f.short(e)))
}

func (f *finder) constant(literal *ast.BasicLit) {
	if literal.Kind != token.INT || f.negated[literal] {
		return
	}
	for _, delta := range []string{"+1", "-1"} {
		f.add(literal, "("+literal.Value+delta+")", fmt.Sprintf("`%s` to `%s%s` in `%s`", literal.Value, literal.Value, delta, f.lineOf(literal)))
	}
}

// skipCapacity keeps the capacity that a slice or a map starts with: it changes nothing but speed.
func (f *finder) skipCapacity(call *ast.CallExpr) {
	if !isNamed(call.Fun, "make") || len(call.Args) < 2 {
		return
	}
	last := call.Args[len(call.Args)-1]
	_, isMap := call.Args[0].(*ast.MapType)
	if len(call.Args) == 3 || isMap {
		f.negated[last] = true
	}
}

// returns replaces each result by the zero value of its type, one at a time, and the results of a call all together.
func (f *finder) returns(statement *ast.ReturnStmt) {
	types := resultTypes(f.results[len(f.results)-1])
	if len(statement.Results) == 0 {
		return
	}
	if len(statement.Results) != len(types) {
		zeros := make([]string, len(types))
		for n := range types {
			zeros[n] = f.zero(types[n])
		}
		f.returnInstead(statement, strings.Join(zeros, ", "))
		return
	}
	for n, result := range statement.Results {
		if isZero(result) {
			continue
		}
		values := make([]string, len(types))
		for m, other := range statement.Results {
			values[m] = f.text(other)
		}
		values[n] = f.zero(types[n])
		f.returnInstead(statement, strings.Join(values, ", "))
	}
}

func (f *finder) returnInstead(statement *ast.ReturnStmt, values string) {
	text := fmt.Sprintf("{ if false { %s }; return %s }", f.text(statement), values)
	f.add(statement, text, fmt.Sprintf("`%s` to `return %s`", f.short(statement), shorten(values)))
}

func resultTypes(fields *ast.FieldList) []ast.Expr {
	var types []ast.Expr
	if fields == nil {
		return nil
	}
	for _, field := range fields.List {
		for range max(1, len(field.Names)) {
			types = append(types, field.Type)
		}
	}
	return types
}

// zero writes the zero value of a type.
func (f *finder) zero(expression ast.Expr) string {
	switch t := expression.(type) {
	case *ast.StarExpr, *ast.MapType, *ast.FuncType, *ast.InterfaceType, *ast.ChanType:
		return "nil"
	case *ast.ArrayType:
		if t.Len == nil {
			return "nil"
		}
	case *ast.Ident:
		if zero, ok := map[string]string{"error": "nil", "any": "nil", "bool": "false", "string": `""`, "int": "0"}[t.Name]; ok {
			return zero
		}
	}
	return "*new(" + f.text(expression) + ")"
}

func (f *finder) add(node ast.Node, replacement, change string) {
	f.addRange(f.offset(node.Pos()), f.offset(node.End()), replacement, change)
}

func (f *finder) addRange(start, end int, replacement, change string) {
	f.mutants = append(f.mutants, mutant{file: f.file, function: f.function, start: start, end: end, replacement: replacement, change: change})
}

func (f *finder) offset(at token.Pos) int { return f.file.set.Position(at).Offset }

func (f *finder) text(node ast.Node) string {
	return string(f.file.content[f.offset(node.Pos()):f.offset(node.End())])
}

// lineOf returns the source line that a node starts on.
func (f *finder) lineOf(node ast.Node) string {
	at := f.offset(node.Pos())
	start := bytes.LastIndexByte(f.file.content[:at], '\n') + 1
	line, _, _ := bytes.Cut(f.file.content[start:], []byte("\n"))
	return shorten(string(line))
}

func (f *finder) short(node ast.Node) string { return shorten(f.text(node)) }
