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
	formatWide = "wide"
	formatName = "name"
	formatJSON = "json"
	formatYAML = "yaml"
)

// outputFlag is the value of -o: one of those that the command supports.
type outputFlag struct {
	format  string
	formats []string
}

func (f *outputFlag) String() string { return f.format }

func (f *outputFlag) Type() string { return "form" }

func (f *outputFlag) Set(format string) error {
	if !slices.Contains(f.formats, format) {
		return fmt.Errorf("must be one of %s", strings.Join(f.formats, ", "))
	}
	f.format = format
	return nil
}

func (f *outputFlag) isWide() bool { return f.format == formatWide }

// addOutputFlag adds -o to a command.
func (s *session) addOutputFlag(command *cobra.Command, formats ...string) *outputFlag {
	output := &outputFlag{formats: formats}
	command.Flags().VarP(output, "output", "o", "output `format`: "+strings.Join(formats, ", ")+"; default text")
	s.registerCompletion(command, "output", fixedWords(formats...))
	return output
}

// writeData writes a value as JSON or YAML, and reports whether one of them was requested.
func (f *outputFlag) writeData(w io.Writer, value any) (bool, error) {
	var text []byte
	var err error
	switch f.format {
	case formatJSON:
		text, err = json.MarshalIndent(value, "", "    ")
		text = append(text, '\n')
	case formatYAML:
		text, err = yaml.Marshal(value)
	default:
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("encode output: %w", err)
	}
	_, err = w.Write(text)
	return true, err
}
