// Package devcluster carries the sources that the Kubernetes program is built from, so that the command knows which build
// in the user's cache is its own: same sources, same program; changed sources, a new build beside the old one.
package devcluster

import "embed"

// Module is the path of this module; the folder it lies in is recognised by it.
const Module = "github.com/swarm-io/swarm-operator/devcluster"

// Sources is everything that decides what the Kubernetes program is, except the compiler.
//
//go:embed go.mod go.sum kube/*.go pause/*.go
var Sources embed.FS
