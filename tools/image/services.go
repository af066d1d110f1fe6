package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Service is a program of ours that becomes an image.
type Service struct {
	Name      string   // also the name of the binary in the image, and of the image
	Module    string   // folder of its Go module, from the root of the repository
	Package   string   // folder of its main package, from the module
	Platforms []string // os/arch
	Files     []File   // what else the image holds
	Links     []string // other names of the binary in the image, by which it is another program
}

// A File is copied from the repository into the image, readable by everybody and not writable.
type File struct {
	From string // from the root of the repository
	To   string // absolute, in the image
}

var (
	everyPlatform = []string{"linux/amd64", "linux/arm64"}
	licence       = File{From: "LICENSE", To: "/LICENSE"}
)

// services is the one list of our images. The Dockerfile and docker-bake.hcl offer the same, and a test compares them.
var services = []Service{
	{Name: "swarm-operator", Module: ".", Package: "./cmd/swarm-operator", Platforms: everyPlatform, Files: []File{licence}},
	{Name: "swarm-agent", Module: ".", Package: "./cmd/swarm-agent", Platforms: everyPlatform, Files: []File{licence}},
	{Name: "swarm-worker", Module: ".", Package: "./cmd/swarm-worker", Platforms: everyPlatform, Files: []File{licence},
		Links: []string{"/bin/cat"}},
	{Name: "swarm-research", Module: ".", Package: "./examples/research", Platforms: everyPlatform, Files: []File{licence}},
	{Name: "swarm-streams", Module: ".", Package: "./examples/streams", Platforms: everyPlatform, Files: []File{licence}},
	{Name: "probe", Module: ".", Package: "./test/cmd/probe", Platforms: everyPlatform, Files: []File{licence}},
}

// user is an ID without an account anywhere, so that pods may demand runAsNonRoot without naming a user.
const user = "65532:65532"

func (s Service) reference(version string) string { return "localhost/" + s.Name + ":" + version }

func (s Service) binary() string { return "/" + s.Name }

// contents are the paths in the image, sorted.
func (s Service) contents() []string {
	paths := []string{s.binary()}
	for _, file := range s.Files {
		paths = append(paths, path.Clean(file.To))
	}
	for _, link := range s.Links {
		paths = append(paths, path.Clean(link))
	}
	slices.Sort(paths)
	return paths
}

// findServices picks services out of the list, all of them when no name is given.
func findServices(names []string) ([]Service, error) {
	if len(names) == 0 {
		return services, nil
	}
	var result []Service
	for _, name := range names {
		at := slices.IndexFunc(services, func(s Service) bool { return s.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("find service %q: the list has %s", name, strings.Join(serviceNames(), ", "))
		}
		result = append(result, services[at])
	}
	return result, nil
}

func serviceNames() []string {
	names := make([]string, 0, len(services))
	for _, s := range services {
		names = append(names, s.Name)
	}
	return names
}
