package main

import (
	"cmp"
	"errors"
	"flag"
	"path/filepath"
	"runtime"
	"time"
)

type options struct {
	root       string
	version    string
	kubeconfig string // as named; empty: the development cluster
	image      string // as named; empty: built here
	picture    string
	timeout    time.Duration
	remove     bool
	next       hints
}

// parse reads the flags. The development cluster is that of the folder data, DEVCLUSTER_DATA, or the default one.
func parse(arguments []string, data string) (options, error) {
	opts := options{}
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.StringVar(&opts.root, "root", "", "root of the repository, absolute")
	flags.StringVar(&opts.version, "version", "dev", "version, also the tag of the images")
	flags.StringVar(&opts.kubeconfig, "kubeconfig", "", "the cluster, from the root (default: the development cluster, which comes up)")
	flags.StringVar(&opts.image, "image", "", "image of the agents, which the nodes have or can pull (default: built, and loaded)")
	flags.StringVar(&opts.picture, "picture", "", "draw the last frame into this file, as SVG")
	flags.DurationVar(&opts.timeout, "timeout", 3*time.Minute, "how long the swarm may take")
	flags.BoolVar(&opts.remove, "remove", false, "take the demo out of the cluster again, or the development cluster down")
	if err := flags.Parse(arguments); err != nil {
		return options{}, err
	}
	if opts.root == "" {
		return options{}, errors.New("name the repository with --root")
	}
	opts.next = hintsFor(opts.kubeconfig, data)
	return opts, nil
}

// hintsFor returns how people call kubectl and make for the cluster that they have named, or for the development cluster.
func hintsFor(kubeconfig, data string) hints {
	switch {
	case kubeconfig != "":
		return hints{kubectl: "bin/devcluster kubectl --kubeconfig=" + kubeconfig, down: "make demo-down KUBECONFIG=" + kubeconfig}
	case data != "":
		return hints{kubectl: "DEVCLUSTER_DATA=" + data + " bin/devcluster kubectl", down: "make demo-down DEVCLUSTER_DATA=" + data}
	}
	return hints{kubectl: "bin/devcluster kubectl", down: "make demo-down"}
}

// kubeconfigPath is absolute, or empty for the development cluster.
func (o options) kubeconfigPath() string {
	if o.kubeconfig == "" || filepath.IsAbs(o.kubeconfig) {
		return o.kubeconfig
	}
	return filepath.Join(o.root, o.kubeconfig)
}

func (o options) imageName() string {
	return cmp.Or(o.image, "localhost/swarm-research:"+o.version)
}

// tarball is the image that was built here, from the root.
func (o options) tarball() string {
	if o.image != "" {
		return ""
	}
	return "bin/images/swarm-research-" + runtime.GOARCH + ".tar"
}
