package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// The output formats besides a table.
const (
	wide   = "wide"
	byName = "name"
	asJSON = "json"
	asYAML = "yaml"
)

// form is the value of -o: one of those that the command supports.
type form struct {
	chosen string
	known  []string
}

func (f *form) String() string { return f.chosen }

func (f *form) Type() string { return "form" }

func (f *form) Set(chosen string) error {
	if !slices.Contains(f.known, chosen) {
		return fmt.Errorf("it is none of %s", strings.Join(f.known, ", "))
	}
	f.chosen = chosen
	return nil
}

func (f *form) wide() bool { return f.chosen == wide }

// formFlag adds -o to a command.
func (s *session) formFlag(command *cobra.Command, known ...string) *form {
	chosen := &form{known: known}
	command.Flags().VarP(chosen, "output", "o", "`form` of the answer: "+strings.Join(known, ", ")+"; left out: text")
	s.offer(command, "output", words(known...))
	return chosen
}

// data writes a value as JSON or YAML, and reports whether one of them was requested.
func (f *form) data(to io.Writer, value any) (bool, error) {
	var text []byte
	var err error
	switch f.chosen {
	case asJSON:
		text, err = json.MarshalIndent(value, "", "    ")
		text = append(text, '\n')
	case asYAML:
		text, err = yaml.Marshal(value)
	default:
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("encode answer: %w", err)
	}
	_, err = to.Write(text)
	return true, err
}
