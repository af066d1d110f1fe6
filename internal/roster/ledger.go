package roster

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/swarm-io/swarm-operator/internal/assign"
)

// Ledger is what the file does not record about its workers, and what must be known before a job can be given to another worker. It is
// stored in the same write as the file.
type Ledger map[string]Account

// Account is the ledger entry of a worker.
type Account struct {
	Ordinal int              `json:"ordinal"`
	UID     string           `json:"uid,omitempty"`     // of the pod that existed when the list was published
	Earlier []assign.Edition `json:"earlier,omitempty"` // lists that it is not known to have given up, without the jobs published now
}

// Keep returns the ledger of records: what they hold in addition to their published list. Births are the pods for which a list was
// published.
func Keep(records []assign.Record, births map[string]string) Ledger {
	ledger := make(Ledger, len(records))
	for _, record := range records {
		account := Account{Ordinal: record.Ordinal, UID: births[record.Worker]}
		current := make(map[string]bool, len(record.Current()))
		for _, job := range record.Current() {
			current[job] = true
		}
		for n := range len(record.Lists) - 1 {
			rest := slices.DeleteFunc(slices.Clone(record.Lists[n].Jobs), func(job string) bool { return current[job] })
			if len(rest) > 0 {
				account.Earlier = append(account.Earlier, assign.Edition{Version: record.Lists[n].Version, Jobs: rest})
			}
		}
		ledger[record.Worker] = account
	}
	return ledger
}

// Records returns what workers may hold according to the file and its ledger. No worker has confirmed anything yet: they must be asked.
func (l Ledger) Records(file File) []assign.Record {
	records := make([]assign.Record, 0, len(file.Workers))
	listed := make(map[string]bool, len(file.Workers))
	for _, entry := range file.Workers {
		account := l[entry.Worker]
		listed[entry.Worker] = true
		record := assign.Record{Worker: entry.Worker, Ordinal: account.Ordinal, Lists: account.before(entry.Version)}
		records = append(records, record.Published(entry.Version, entry.Jobs))
	}
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if account := l[name]; !listed[name] && len(account.Earlier) > 0 {
			record := assign.Record{Worker: name, Ordinal: account.Ordinal, Lists: account.before(file.Version)}
			records = append(records, record.Published(file.Version, nil))
		}
	}
	return records
}

// before returns the earlier lists, with versions below the published one. Other versions exist only if the file was modified by another
// writer, and a worker that confirms the published list must not be taken to confirm an earlier one.
func (a Account) before(version int64) []assign.Edition {
	lists := slices.Clone(a.Earlier)
	for n := range lists {
		lists[n].Version = min(lists[n].Version, version-1)
	}
	return lists
}

// Encode returns the ledger as text, compressed if it is long.
func (l Ledger) Encode() (string, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return "", fmt.Errorf("encode ledger: %w", err)
	}
	if len(text) <= long {
		return string(text), nil
	}
	return pack(string(text)), nil
}

// ReadLedger reads the output of Encode. An empty text is an empty ledger.
func ReadLedger(text string) (Ledger, error) {
	ledger := Ledger{}
	if text == "" {
		return ledger, nil
	}
	if text[0] != '{' {
		unpacked, err := unpack(text, mostLedger)
		if err != nil {
			return nil, fmt.Errorf("read ledger: %w", err)
		}
		text = unpacked
	}
	if err := json.Unmarshal([]byte(text), &ledger); err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	return ledger, nil
}
