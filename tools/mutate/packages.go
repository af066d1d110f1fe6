package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// goPackage is a package in the output of `go list`.
type goPackage struct {
	Dir, ImportPath, Name              string
	GoFiles, TestGoFiles, XTestGoFiles []string
	TestImports, XTestImports          []string
	Module                             struct{ Dir string }
}

func (p goPackage) hasTests() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// source is a parsed file.
type source struct {
	path    string
	content []byte
	set     *token.FileSet
	tree    *ast.File
}

func (s *source) offset(at token.Pos) int { return s.set.Position(at).Offset }

// listPackages resolves a pattern such as ./kit/... below root, in the module that holds its folder.
func listPackages(ctx context.Context, root, pattern string) ([]goPackage, error) {
	folder := filepath.Join(root, strings.TrimSuffix(strings.TrimSuffix(pattern, "..."), "/"))
	module, err := moduleOf(folder)
	if err != nil {
		return nil, fmt.Errorf("find packages %q: %w", pattern, err)
	}
	local, err := filepath.Rel(module, folder)
	if err != nil {
		return nil, fmt.Errorf("find packages %q: %w", pattern, err)
	}
	local = "./" + filepath.ToSlash(local)
	if strings.HasSuffix(pattern, "...") {
		local += "/..."
	}
	command := exec.CommandContext(ctx, "go", "list", "-json", local)
	command.Dir = module
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages %q: %w", pattern, withOutput(err))
	}
	return decodePackages(out)
}

func decodePackages(listed []byte) ([]goPackage, error) {
	var packages []goPackage
	decoder := json.NewDecoder(bytes.NewReader(listed))
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decode list of packages: %w", err)
		}
		packages = append(packages, p)
	}
}

// moduleOf finds the folder of the module that a folder belongs to.
func moduleOf(folder string) (string, error) {
	if _, err := os.Stat(folder); err != nil {
		return "", err
	}
	for at := folder; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.mod in %q or above", folder)
		}
	}
}

// mutantsOf lists every mutant of a package, in the order of its files. Generated files have none.
func mutantsOf(p goPackage) ([]mutant, error) {
	var mutants []mutant
	for _, name := range p.GoFiles {
		file := &source{path: filepath.Join(p.Dir, name), set: token.NewFileSet()}
		var err error
		if file.content, err = os.ReadFile(file.path); err != nil {
			return nil, fmt.Errorf("read source: %w", err)
		}
		if file.tree, err = parser.ParseFile(file.set, file.path, file.content, parser.ParseComments); err != nil {
			return nil, fmt.Errorf("parse source: %w", err)
		}
		if !ast.IsGenerated(file.tree) {
			mutants = append(mutants, findMutants(file)...)
		}
	}
	for n := range mutants {
		mutants[n].id = n + 1
	}
	return mutants, nil
}

// shuffle puts mutants into an order that depends only on the seed and on the package.
func shuffle(mutants []mutant, seed uint64, importPath string) {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(importPath))
	random := rand.New(rand.NewPCG(seed, hash.Sum64()))
	random.Shuffle(len(mutants), func(a, b int) { mutants[a], mutants[b] = mutants[b], mutants[a] })
}

// withOutput adds what a command wrote to stderr to its error.
func withOutput(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return err
}
