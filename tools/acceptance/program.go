package main

import (
	"bytes"
	"context"
	"fmt"
	"go/scanner"
	"go/token"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// sameProgram reports whether two Git trees of a folder hold the same program: what it is built from differs in comments and layout
// only. Files that only tests use do not count. An error means that Git does not know one of the trees.
func sameProgram(ctx context.Context, root, oldTree, newTree string) (bool, error) {
	changed, err := gitOutput(ctx, root, "diff", "--name-only", "-z", "--no-renames", oldTree, newTree)
	if err != nil {
		return false, err
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(changed), "\x00"), "\x00") {
		if name == "" || isForTests(name) {
			continue
		}
		if path.Ext(name) != ".go" {
			return false, nil
		}
		before, errBefore := gitOutput(ctx, root, "show", oldTree+":"+name)
		after, errAfter := gitOutput(ctx, root, "show", newTree+":"+name)
		if errBefore != nil || errAfter != nil || !slices.Equal(tokens(before), tokens(after)) {
			return false, nil // added, removed or changed
		}
	}
	return true, nil
}

// isForTests reports whether no program is built from a file.
func isForTests(name string) bool {
	return strings.HasSuffix(name, "_test.go") || slices.Contains(strings.Split(path.Dir(name), "/"), "testdata")
}

// tokens returns the tokens of a Go file that make a difference to the compiler: no comments but directives, and no separators that
// depend on where lines are broken.
func tokens(source []byte) []string {
	files := token.NewFileSet()
	var scan scanner.Scanner
	scan.Init(files.AddFile("", files.Base(), len(source)), source, nil, scanner.ScanComments)
	var all []string
	for {
		_, kind, literal := scan.Scan()
		switch kind {
		case token.EOF:
			return all
		case token.COMMENT:
			if strings.HasPrefix(literal, "//go:") {
				all = append(all, literal)
			}
		case token.SEMICOLON:
			all = append(all, ";") // at the end of a line or written
		case token.RPAREN, token.RBRACK, token.RBRACE:
			if last := len(all) - 1; last >= 0 && (all[last] == "," || all[last] == ";") {
				all = all[:last]
			}
			all = append(all, kind.String())
		default:
			all = append(all, kind.String()+literal)
		}
	}
}

// gitOutput is what a Git command prints.
func gitOutput(ctx context.Context, root string, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "git", append([]string{"--no-optional-locks", "-C", root}, arguments...)...)
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", arguments[0], err)
	}
	return bytes.TrimSpace(out), nil
}
