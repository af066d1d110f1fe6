package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// uncommitted stands for the tree of a package with uncommitted changes: the code behind its numbers cannot be found again.
const uncommitted = "uncommitted"

// source is where numbers come from.
type source struct {
	Commit   string            `json:"commit"`
	Date     string            `json:"date"`
	Machine  *machine          `json:"machine,omitempty"`
	Packages map[string]string `json:"packages"` // the hash of each folder's Git tree
}

// machine is what numbers depend on besides the code.
type machine struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPUs   int    `json:"cpus"`
	CPU    string `json:"cpu,omitempty"`    // the model, if the system reports it
	Memory int64  `json:"memory,omitempty"` // bytes, if the system reports it
}

func originOf(ctx context.Context, packages []string) (source, error) {
	if len(packages) == 0 {
		return source{}, errors.New("name the packages that are measured")
	}
	commit, err := git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return source{}, err
	}
	result := source{
		Commit: commit, Date: time.Now().UTC().Format(time.RFC3339), Machine: thisMachine(), Packages: map[string]string{},
	}
	for _, folder := range packages {
		if result.Packages[folder], err = treeOf(ctx, folder); err != nil {
			return source{}, err
		}
	}
	return result, nil
}

func treeOf(ctx context.Context, folder string) (string, error) {
	tree, err := git(ctx, "rev-parse", "HEAD:"+folder)
	if err != nil {
		return "", err
	}
	edits, err := git(ctx, "status", "--porcelain", "--", ":/"+folder)
	if edits != "" {
		fmt.Printf("%s has uncommitted changes: what is measured proves nothing\n", folder)
		tree = uncommitted
	}
	return tree, err
}

func git(ctx context.Context, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", arguments...)
	var complaint bytes.Buffer
	command.Stderr = &complaint
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

func thisMachine() *machine {
	m := &machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), CPU: procfs("/proc/cpuinfo", "model name")}
	kilobytes := strings.TrimSuffix(procfs("/proc/meminfo", "MemTotal"), " kB")
	if count, err := strconv.ParseInt(kilobytes, 10, 64); err == nil {
		m.Memory = count * 1024
	}
	return m
}

// procfs returns the first value of a key, or "" if it is missing.
func procfs(file, key string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
