package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// A Stamp is the origin of an image. The date is the commit's and never the clock's, or no image could be built
// a second time.
type Stamp struct {
	Version string
	Commit  string
	Date    time.Time
	Race    bool // built to find data races: for tests
}

// ldflags end up in the variables main.version, main.commit and main.date of every service.
func (s Stamp) ldflags() string {
	stamped := fmt.Sprintf("-s -w -X main.version=%s -X main.commit=%s -X main.date=%s", s.Version, s.Commit, s.date())
	if s.Race {
		stamped += " -linkmode external -extldflags -static"
	}
	return stamped
}

func (s Stamp) date() string { return s.Date.UTC().Format(time.RFC3339) }

func (s Stamp) labels(service string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    service,
		"org.opencontainers.image.version":  s.Version,
		"org.opencontainers.image.revision": s.Commit,
		"org.opencontainers.image.created":  s.date(),
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

// validate keeps what would break out of the linker's flags or the image's name from getting there.
func (s Stamp) validate() error {
	for what, value := range map[string]string{"version": s.Version, "commit": s.Commit} {
		if value == "" || strings.Trim(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
			return fmt.Errorf("use %s %q: only letters, digits, dot, dash and underscore make an image tag", what, value)
		}
	}
	return nil
}

// stampOf asks git about the commit, marked when files differ from it. Outside git, or before the first commit, the
// commit is unknown and the date is the epoch: still the same image every time.
func stampOf(ctx context.Context, root, version string) Stamp {
	stamp := Stamp{Version: version, Commit: "unknown", Date: time.Unix(0, 0)}
	if commit, err := git(ctx, root, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"); err == nil {
		stamp.Commit = commit
	}
	if seconds, err := git(ctx, root, "log", "-1", "--format=%ct"); err == nil {
		if parsed, err := strconv.ParseInt(seconds, 10, 64); err == nil {
			stamp.Date = time.Unix(parsed, 0)
		}
	}
	return stamp
}

func git(ctx context.Context, root string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", arguments...)
	command.Dir = root
	out, err := command.Output()
	return strings.TrimSpace(string(out)), err
}
