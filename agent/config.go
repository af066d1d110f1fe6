package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/settings"
)

// exitFenced is the exit code of a process that could not stop its work in time.
const exitFenced = 70

// maxSlots is the maximum in the API.
const maxSlots = 1000

// Config is the configuration of an agent. In a pod that the operator created, ConfigFromEnvironment returns it.
type Config struct {
	Namespace string // SWARM_NAMESPACE
	Swarm     string // SWARM_NAME
	Agent     string // SWARM_AGENT, the pod's name
	Slots     int    // SWARM_SLOTS, default 1

	Addresses  []string // SWARM_LINK_ADDRESS, comma-separated host:port
	ServerName string   // SWARM_LINK_SERVER_NAME, in the operator's certificate; default the host of the first address
	TokenFile  string   // SWARM_LINK_TOKEN_FILE, default /var/run/secrets/swarm.io/token
	CAFile     string   // SWARM_LINK_CA_FILE, default /var/run/secrets/swarm.io/ca.crt

	Grace      time.Duration // SWARM_GRACE_SECONDS, default 30: between the request to stop and force
	StateDir   string        // SWARM_STATE, default /var/lib/swarm
	RuntimeDir string        // SWARM_RUNTIME_DIR, for pipes; default the directory for temporary files
	Journal    string        // SWARM_JOURNAL, a file that gets a line for each start and finish; default none

	// TerminationLog is the container's terminationMessagePath, to which the name of this process is written: SWARM_TERMINATION_LOG,
	// default /dev/termination-log. It is not created if it does not exist.
	TerminationLog string

	Version string       // sent to the operator
	Log     *slog.Logger // default: JSON on standard error from ConfigFromEnvironment, else none
	// Abort is called instead of os.Exit when code survives the end of the lease. It must not block for long.
	Abort func(reason string)

	clock        func() time.Duration // for tests; default the time since boot
	stuckTimeout time.Duration        // for tests; how long an attempt may continue after it was killed
}

// ConfigFromEnvironment reads the variables that the operator sets in an agent's pod, by os.Getenv or the like.
func ConfigFromEnvironment(getenv func(string) string) (Config, error) {
	reader := settings.NewReader(getenv)
	config := Config{
		Namespace:  getenv("SWARM_NAMESPACE"),
		Swarm:      getenv("SWARM_NAME"),
		Agent:      getenv("SWARM_AGENT"),
		ServerName: getenv("SWARM_LINK_SERVER_NAME"),
		TokenFile:  reader.Text("SWARM_LINK_TOKEN_FILE", "/var/run/secrets/swarm.io/token"),
		CAFile:     reader.Text("SWARM_LINK_CA_FILE", "/var/run/secrets/swarm.io/ca.crt"),
		StateDir:   reader.Text("SWARM_STATE", "/var/lib/swarm"),
		RuntimeDir: reader.Text("SWARM_RUNTIME_DIR", os.TempDir()),
		Journal:    getenv("SWARM_JOURNAL"),
		Log:        slog.New(slog.NewJSONHandler(os.Stderr, nil)),

		TerminationLog: reader.Text("SWARM_TERMINATION_LOG", "/dev/termination-log"),
	}
	if addresses := getenv("SWARM_LINK_ADDRESS"); addresses != "" {
		config.Addresses = strings.Split(addresses, ",")
	}
	config.Slots = reader.Number("SWARM_SLOTS", "1")
	config.Grace = reader.Seconds("SWARM_GRACE_SECONDS", "30")
	return config, errors.Join(reader.Err(), config.validate())
}

// validate reports all problems at once.
func (c Config) validate() error {
	var problems []error
	for name, value := range map[string]string{
		"SWARM_NAMESPACE": c.Namespace, "SWARM_NAME": c.Swarm, "SWARM_AGENT": c.Agent,
		"SWARM_LINK_ADDRESS": strings.Join(c.Addresses, ","), "SWARM_LINK_TOKEN_FILE": c.TokenFile, "SWARM_LINK_CA_FILE": c.CAFile,
	} {
		if value == "" {
			problems = append(problems, fmt.Errorf("read agent configuration: %s is not set", name))
		}
	}
	if c.Slots < 1 || c.Slots > maxSlots {
		problems = append(problems, fmt.Errorf("read agent configuration: SWARM_SLOTS is %d, not 1 to %d", c.Slots, maxSlots))
	}
	if c.Grace < 0 {
		problems = append(problems, errors.New("read agent configuration: SWARM_GRACE_SECONDS is negative"))
	}
	return errors.Join(problems...)
}
