package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Build is the version information that the linker sets.
type Build struct{ Version, Commit, Date string }

func (b Build) String() string {
	return fmt.Sprintf("kubectl-swarm %s (commit %s, %s)", b.Version, b.Commit, b.Date)
}

func (s *session) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program",
		Args: func(command *cobra.Command, arguments []string) error {
			if len(arguments) > 0 {
				return usageErrorf(command, "unexpected argument %q", arguments[0])
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(s.Out, s.build)
			return err
		},
	}
}
