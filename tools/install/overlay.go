package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/template"
)

// An overlay is what one installation adds to deploy/kustomize.
type overlay struct {
	root     string
	operator string   // image
	agent    string   // image
	tarballs []string // of images that we have built ourselves
}

// The annotation changes with the images and the configuration, and with it the pods.
var patch = template.Must(template.New("overlay").Parse(`# Written by make install.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- {{.Base}}
patches:
- patch: |
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: swarm-operator
      namespace: swarm-system
    spec:
      template:
        metadata:
          annotations:
            swarm.io/installed: {{.Digest}}
        spec:
          containers:
          - name: operator
            image: {{printf "%q" .Operator}}
            env:
            - name: AGENT_IMAGE
              value: {{printf "%q" .Agent}}
`))

// write makes the folder that kubectl applies, and names it.
func (o overlay) write() (string, error) {
	digest, err := o.digest()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(o.root, "bin", "install")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("make folder of the overlay: %w", err)
	}
	file, err := os.Create(filepath.Join(folder, "kustomization.yaml"))
	if err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	err = patch.Execute(file, struct{ Base, Digest, Operator, Agent string }{"../../deploy/kustomize", digest, o.operator, o.agent})
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	return folder, nil
}

// digest is of everything that a pod reads once: its image and its configuration. A third-party image is known by its name.
func (o overlay) digest() (string, error) {
	sum := sha256.New()
	for _, name := range append([]string{"deploy/kustomize/operator/config.yaml"}, o.tarballs...) {
		file, err := os.Open(filepath.Join(o.root, name))
		if err != nil {
			return "", fmt.Errorf("digest what is installed: %w", err)
		}
		_, err = io.Copy(sum, file)
		file.Close()
		if err != nil {
			return "", fmt.Errorf("digest %q: %w", name, err)
		}
	}
	return fmt.Sprintf("%.16x", sum.Sum(nil)), nil
}
