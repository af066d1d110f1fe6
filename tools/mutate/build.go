package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// mutantInError is the file name that `weave` gives the lines of a mutant, as the compiler prints it.
var mutantInError = regexp.MustCompile(`mutant_(\d+)\.go:`)

// builder compiles test programs with mutants of one package from an overlay, so that the source tree is never written to.
type builder struct {
	pkg    goPackage // that is mutated
	tests  goPackage // the package with the tests: mostly the same
	folder string    // for overlays and programs
}

// sampled are the mutants that compile, and the program with those inside of functions.
type sampled struct {
	mutants []mutant
	program string
}

// sample takes the first `number` mutants that compile. A change that does not compile is no mutant; the next one takes its place.
func (b builder) sample(ctx context.Context, mutants []mutant, number int) (sampled, error) {
	rejected := map[int]bool{}
	for {
		chosen := first(mutants, number, rejected)
		program, broken, err := b.compileAll(ctx, chosen)
		if err != nil {
			return sampled{}, err
		}
		if len(broken) == 0 {
			return sampled{mutants: chosen, program: program}, nil
		}
		for _, id := range broken {
			rejected[id] = true
		}
	}
}

func first(mutants []mutant, number int, rejected map[int]bool) []mutant {
	var result []mutant
	for _, m := range mutants {
		if len(result) < number && !rejected[m.id] {
			result = append(result, m)
		}
	}
	return result
}

// compileAll compiles one program for all mutants inside of functions, and returns the ids of those that do not compile.
func (b builder) compileAll(ctx context.Context, mutants []mutant) (string, []int, error) {
	files := map[string][]byte{filepath.Join(b.pkg.Dir, selectorFile): selectorSource(b.pkg.Name)}
	for file, inside := range byFile(mutants) {
		files[file.path] = writeMutants(file, inside)
	}
	program := filepath.Join(b.folder, "mutants.test")
	out, err := b.compile(ctx, files, program)
	if err == nil {
		return program, nil, nil
	}
	var broken []int
	for _, match := range mutantInError.FindAllStringSubmatch(string(out), -1) {
		if id, _ := strconv.Atoi(match[1]); !slices.Contains(broken, id) {
			broken = append(broken, id)
		}
	}
	if len(broken) == 0 {
		return "", nil, fmt.Errorf("compile tests of %s: %w\n%s", b.pkg.ImportPath, err, out)
	}
	return "", broken, nil
}

// compileOne compiles a program for a mutant outside of functions. It reports false when that does not compile.
func (b builder) compileOne(ctx context.Context, m mutant) (string, bool) {
	program := filepath.Join(b.folder, "mutant.test")
	_, err := b.compile(ctx, map[string][]byte{m.file.path: substitute(m)}, program)
	return program, err == nil
}

func (b builder) compile(ctx context.Context, files map[string][]byte, program string) ([]byte, error) {
	overlay, err := b.overlay(files)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-gcflags=-e", "-overlay", overlay, "-o", program, ".")
	command.Dir = b.tests.Dir
	return command.CombinedOutput()
}

// overlay writes what stands in for files of the source tree.
func (b builder) overlay(files map[string][]byte) (string, error) {
	replace := map[string]string{}
	for path, content := range files {
		replace[path] = filepath.Join(b.folder, filepath.Base(path))
		if err := os.WriteFile(replace[path], content, 0o600); err != nil {
			return "", fmt.Errorf("write overlay: %w", err)
		}
	}
	encoded, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("encode overlay: %w", err)
	}
	path := filepath.Join(b.folder, "overlay.json")
	if err := os.WriteFile(path, encoded, 0o600); err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	return path, nil
}

func byFile(mutants []mutant) map[*source][]mutant {
	files := map[*source][]mutant{}
	for _, m := range mutants {
		if m.function != nil {
			files[m.file] = append(files[m.file], m)
		}
	}
	return files
}
