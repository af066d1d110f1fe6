// Package stamp ties test results to the source they came from: a file beside the results names the commit and, where the working tree
// differs from it, a hash of the difference. It also names the reports of the runs that began, so that a missing one is noticed.
package stamp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// File is the name of the stamp in a folder of results.
const File = "commit"

// DescribeTree describes the working tree that root lies in: the commit, followed by " dirty:" and a hash when anything differs from it,
// files included that Git does not track yet.
func DescribeTree(ctx context.Context, root string) (string, error) {
	described, err := git(ctx, root, "rev-parse", "HEAD", "--show-toplevel")
	if err != nil {
		return "", err
	}
	commit, top, _ := strings.Cut(strings.TrimSpace(string(described)), "\n")
	changed, err := git(ctx, root, "diff", "HEAD", "--binary", "--no-ext-diff", "--no-color")
	if err != nil {
		return "", err
	}
	added, err := untracked(ctx, top)
	if err != nil {
		return "", err
	}
	if len(changed)+len(added) == 0 {
		return commit, nil
	}
	return fmt.Sprintf("%s dirty:%.8x", commit, sha256.Sum256(append(changed, added...))), nil
}

// untracked is a line for each file that Git neither tracks nor ignores: its name and a hash of its content.
func untracked(ctx context.Context, folder string) ([]byte, error) {
	names, err := git(ctx, folder, "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, err
	}
	var lines bytes.Buffer
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read untracked file: %w", err)
		}
		fmt.Fprintf(&lines, "%s %x\n", name, sha256.Sum256(content))
	}
	return lines.Bytes(), nil
}

// A Stamp is the content of the file in a folder of results.
type Stamp struct {
	Source         string   // as DescribeTree describes it
	PlannedReports []string // the reports that runs on this source were to write, sorted
}

// Write stamps a folder of results, which must lie in the working tree, before a run that is to write the planned reports. Results that
// are there already and belong to another state of the source are removed: beside the new stamp they would pass for results of this one.
// Reports that were planned before on the same source stay planned.
func Write(ctx context.Context, dir string, planned ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("stamp results: %w", err)
	}
	current, err := DescribeTree(ctx, dir)
	if err != nil {
		return fmt.Errorf("stamp results: %w", err)
	}
	if before, err := Read(dir); err == nil && before.Source == current {
		planned = slices.Concat(before.PlannedReports, planned)
	} else if err := removeReports(dir); err != nil {
		return err
	}
	planned = slices.Compact(slices.Sorted(slices.Values(planned)))
	text := strings.Join(append([]string{current}, planned...), "\n") + "\n"
	if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o600); err != nil {
		return fmt.Errorf("stamp results: %w", err)
	}
	return nil
}

func removeReports(dir string) error {
	old, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return fmt.Errorf("find old results: %w", err)
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("remove old results: %w", err)
		}
	}
	return nil
}

// Read is the stamp of a folder of results: a line for the source, and one for each planned report. The error is fs.ErrNotExist when it has
// none.
func Read(dir string) (Stamp, error) {
	text, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		return Stamp{}, fmt.Errorf("read stamp: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return Stamp{Source: lines[0], PlannedReports: lines[1:]}, nil
}

// MissingReports returns the planned reports that are not in the folder of results.
func (s Stamp) MissingReports(dir string) ([]string, error) {
	var missing []string
	for _, report := range s.PlannedReports {
		switch _, err := os.Stat(filepath.Join(dir, report)); {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, report)
		case err != nil:
			return nil, fmt.Errorf("look for report: %w", err)
		}
	}
	return missing, nil
}

func git(ctx context.Context, folder string, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "git", append([]string{"--no-optional-locks", "-C", folder}, arguments...)...)
	var complaint bytes.Buffer
	command.Stderr = &complaint
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", arguments[0], err, strings.TrimSpace(complaint.String()))
	}
	return out, nil
}
