// Command image makes container images from our own Go programs without Docker: static, non-root, one layer, and the
// same bytes whenever the same commit is built by the same Go. It never pulls a base image and never pushes: it leaves
// a tarball per service and platform that `ctr images import` and `docker load` both take.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

type options struct {
	root      string
	out       string
	services  []string
	platforms []string
	stamp     Stamp
	list      bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, arguments []string) error {
	opts, err := parseOptions(ctx, arguments)
	if err != nil {
		return err
	}
	targets, err := targetsOf(opts)
	if err != nil {
		return err
	}
	if opts.list {
		return printList(out, targets)
	}
	for _, target := range targets {
		if err := target.build(ctx, out, opts); err != nil {
			return err
		}
	}
	return nil
}

func parseOptions(ctx context.Context, arguments []string) (options, error) {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	root := flags.String("root", "", "root of the repository (default: the folder above that has docker-bake.hcl)")
	out := flags.String("out", "bin/images", "folder for the tarballs, from the root")
	list := flags.Bool("list", false, "print what would be made, as JSON, and make nothing")
	version := flags.String("version", "dev", "version, also the tag")
	commit := flags.String("commit", "", "commit (default: git's)")
	date := flags.String("date", "", "date of the commit, RFC 3339 (default: git's)")
	names := flags.String("services", "", "services to make, with commas (default: all)")
	platforms := flags.String("platforms", "", "platforms to make, with commas (default: all of the service)")
	race := flags.Bool("race", false,
		"build programs that find data races, for tests (needs a C compiler, and only for this machine's platform)")
	if err := flags.Parse(arguments); err != nil {
		return options{}, err
	}
	opts := options{root: *root, out: *out, list: *list, services: words(*names), platforms: words(*platforms)}
	if err := opts.findRoot(); err != nil {
		return options{}, err
	}
	opts.stamp = stampOf(ctx, opts.root, *version)
	opts.stamp.Race = *race
	if err := opts.applyOverrides(*commit, *date); err != nil {
		return options{}, err
	}
	return opts, opts.stamp.validate()
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

func (o *options) applyOverrides(commit, date string) error {
	if commit != "" {
		o.stamp.Commit = commit
	}
	if date == "" {
		return nil
	}
	parsed, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return fmt.Errorf("read --date: %w", err)
	}
	o.stamp.Date = parsed
	return nil
}

func (o *options) findRoot() error {
	if o.root != "" {
		return nil
	}
	folder, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find root of the repository: %w", err)
	}
	for ; ; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "docker-bake.hcl")); err == nil {
			o.root = folder
			return nil
		}
		if folder == filepath.Dir(folder) {
			return errors.New("find root of the repository: no docker-bake.hcl here or above, name it with --root")
		}
	}
}
