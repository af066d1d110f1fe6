package main

import (
	"go/ast"
	"strings"
	"unicode/utf8"
)

// longestText is how much is shown of the source that a mutant changes.
const longestText = 70

// logMethods are the methods of slog, logr and the standard log by which programs log.
var logMethods = map[string]bool{
	"Debug": true, "Info": true, "Warn": true, "Error": true, "DebugContext": true, "InfoContext": true, "WarnContext": true,
	"ErrorContext": true, "Log": true, "LogAttrs": true, "Print": true, "Printf": true, "Println": true,
}

// isLogging reports whether a call writes a log line: log.Info(...), slog.Warn(...), r.logger.V(1).Info(...),
// log.FromContext(ctx).Error(...).
func isLogging(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !logMethods[method.Sel.Name] {
		return false
	}
	isLogger := false
	ast.Inspect(method.X, func(node ast.Node) bool {
		if name, ok := node.(*ast.Ident); ok {
			isLogger = isLogger || strings.Contains(strings.ToLower(name.Name), "log")
		}
		return true
	})
	return isLogger
}

func isLoggingStatement(statement ast.Stmt) bool {
	expression, ok := statement.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := expression.X.(*ast.CallExpr)
	return ok && isLogging(call)
}

func isNamed(expression ast.Expr, name string) bool {
	identifier, ok := expression.(*ast.Ident)
	return ok && identifier.Name == name
}

// isZero reports whether an expression is visibly the zero value of its type.
func isZero(expression ast.Expr) bool {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name == "nil" || e.Name == "false"
	case *ast.BasicLit:
		return e.Value == "0" || e.Value == `""`
	case *ast.CompositeLit:
		_, array := e.Type.(*ast.ArrayType)
		_, table := e.Type.(*ast.MapType)
		return len(e.Elts) == 0 && !array && !table
	}
	return false
}

// shorten puts source text on one line of limited length.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= longestText {
		return text
	}
	return string([]rune(text)[:longestText-3]) + "..."
}
