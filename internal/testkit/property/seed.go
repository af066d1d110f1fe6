// Package property makes property tests repeatable. A test package imports it for its effect: rapid then begins with a fixed seed, so that
// the same code has the same result everywhere. `make soak` searches with other seeds.
package property

import (
	"flag"

	_ "pgregory.net/rapid" // registers the flag
)

func init() {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
}
