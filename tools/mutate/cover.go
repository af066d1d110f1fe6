package main

import (
	"context"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"

	"golang.org/x/tools/cover"
)

// coverage holds the blocks of each file of a package, by the name of the file.
type coverage map[string][]cover.ProfileBlock

// measureCoverage runs the unmutated tests once, and returns what they cover of a package. They must pass.
func measureCoverage(ctx context.Context, p, tests goPackage, folder string) (coverage, error) {
	profile := filepath.Join(folder, "cover.out")
	command := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=1", "-covermode=set", "-coverpkg", p.ImportPath, "-coverprofile",
		profile, ".")
	command.Dir = tests.Dir
	if out, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("run the unmutated tests of %s: %w\n%s", tests.ImportPath, err, out)
	}
	return readCoverage(profile)
}

func readCoverage(profile string) (coverage, error) {
	profiles, err := cover.ParseProfiles(profile)
	if err != nil {
		return nil, fmt.Errorf("read cover profile: %w", err)
	}
	blocks := coverage{}
	for _, p := range profiles {
		blocks[path.Base(p.FileName)] = p.Blocks
	}
	return blocks, nil
}

// covers reports whether a test reaches the mutant. What is in no block, such as a package variable, may be reached.
func (c coverage) covers(m mutant) bool {
	at := m.file.set.Position(m.file.set.File(m.file.tree.Pos()).Pos(m.start))
	inBlock := false
	for _, block := range c[filepath.Base(m.file.path)] {
		if !isWithin(block, at.Line, at.Column) {
			continue
		}
		if block.Count > 0 {
			return true
		}
		inBlock = true
	}
	return !inBlock
}

func isWithin(b cover.ProfileBlock, line, column int) bool {
	after := line > b.StartLine || line == b.StartLine && column >= b.StartCol
	before := line < b.EndLine || line == b.EndLine && column < b.EndCol
	return after && before
}
