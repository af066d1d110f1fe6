package codec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// Ledger is what the file does not record about its workers, and what must be known before a job can be given to another worker. It is
// stored in the same write as the file.
type Ledger map[string]LedgerEntry

// LedgerEntry is the ledger entry of a worker.
type LedgerEntry struct {
	Ordinal int                  `json:"ordinal"`
	PodUID  string               `json:"uid,omitempty"`     // of the pod that existed when the list was published
	Earlier []assign.ListVersion `json:"earlier,omitempty"` // lists that it is not known to have given up, without the jobs published now
}

// NewLedger returns the ledger of records: what they hold in addition to their published list. Births are the pods for which a list was
// published.
func NewLedger(records []assign.Record, podUIDs map[string]string) Ledger {
	ledger := make(Ledger, len(records))
	for _, record := range records {
		entry := LedgerEntry{Ordinal: record.Ordinal, PodUID: podUIDs[record.Worker]}
		current := make(map[string]bool, len(record.Current()))
		for _, job := range record.Current() {
			current[job] = true
		}
		for n := range len(record.Lists) - 1 {
			unreleased := slices.DeleteFunc(slices.Clone(record.Lists[n].Jobs), func(job string) bool { return current[job] })
			if len(unreleased) > 0 {
				entry.Earlier = append(entry.Earlier, assign.ListVersion{Version: record.Lists[n].Version, Jobs: unreleased})
			}
		}
		ledger[record.Worker] = entry
	}
	return ledger
}

// Records returns what workers may hold according to the file and its ledger. No worker has confirmed anything yet: they must be asked.
func (l Ledger) Records(file File) []assign.Record {
	records := make([]assign.Record, 0, len(file.Workers))
	inFile := make(map[string]bool, len(file.Workers))
	for _, entry := range file.Workers {
		ledgerEntry := l[entry.Worker]
		inFile[entry.Worker] = true
		record := assign.Record{Worker: entry.Worker, Ordinal: ledgerEntry.Ordinal, Lists: ledgerEntry.earlierLists(entry.Version)}
		records = append(records, record.WithList(entry.Version, entry.Jobs))
	}
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if ledgerEntry := l[name]; !inFile[name] && len(ledgerEntry.Earlier) > 0 {
			record := assign.Record{Worker: name, Ordinal: ledgerEntry.Ordinal, Lists: ledgerEntry.earlierLists(file.Version)}
			records = append(records, record.WithList(file.Version, nil))
		}
	}
	return records
}

// earlierLists returns the earlier lists, with versions below the published one. Other versions exist only if the file was modified by
// another writer, and a worker that confirms the published list must not be taken to confirm an earlier one.
func (a LedgerEntry) earlierLists(version int64) []assign.ListVersion {
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
	if len(text) <= compressAbove {
		return string(text), nil
	}
	return compress(string(text)), nil
}

// DecodeLedger reads the output of Encode. An empty text is an empty ledger.
func DecodeLedger(text string) (Ledger, error) {
	ledger := Ledger{}
	if text == "" {
		return ledger, nil
	}
	if text[0] != '{' {
		unpacked, err := decompress(text, maxLedgerSize)
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
