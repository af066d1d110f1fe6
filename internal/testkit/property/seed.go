// Package property makes property tests repeatable. A test package imports it for its side effect: rapid then starts with a fixed seed, so
// that the same code has the same result everywhere. `make soak` uses other seeds.
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
