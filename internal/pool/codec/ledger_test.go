package codec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

func TestLedgerKeepsUnreleasedLists(t *testing.T) {
	listVersion := func(version int64, jobs ...string) assign.ListVersion {
		return assign.ListVersion{Version: version, Jobs: jobs}
	}
	for _, c := range []struct {
		reason string
		record assign.Record
		want   LedgerEntry
	}{
		{"a worker that has confirmed", assign.Record{Worker: "w", Ordinal: 3, Lists: []assign.ListVersion{listVersion(4, "a")}},
			LedgerEntry{Ordinal: 3, PodUID: "u"}},
		{"a worker that was told nothing", assign.Record{Worker: "w"}, LedgerEntry{PodUID: "u"}},
		{"a job that was revoked", assign.Record{Worker: "w", Lists: []assign.ListVersion{listVersion(1, "a", "b"), listVersion(2, "a")}},
			LedgerEntry{PodUID: "u", Earlier: []assign.ListVersion{listVersion(1, "b")}}},
		{"an earlier list with nothing but what is published", assign.Record{Worker: "w",
			Lists: []assign.ListVersion{listVersion(1, "a"), listVersion(2, "b", "c"), listVersion(3, "a", "b")}},
			LedgerEntry{PodUID: "u", Earlier: []assign.ListVersion{listVersion(2, "c")}}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			got := NewLedger([]assign.Record{c.record}, map[string]string{"w": "u"})["w"]
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestDecodeLedger(t *testing.T) {
	for _, c := range []struct {
		reason string
		text   string
		err    string
	}{
		{"none", "", ""},
		{"an empty one", "{}", ""},
		{"a packed one", compress(`{"w": {"ordinal": 1}}`), ""},
		{"neither JSON nor packed", "hello", "read ledger: unpack: "},
		{"not JSON", "{", "read ledger: unexpected end of JSON input"},
		{"packed, and not JSON", compress("hello"), "read ledger: invalid character"},
		{"packed, and cut", compress(strings.Repeat("{", 100))[:20], "read ledger: unpack: unexpected EOF"},
		{"a few bytes that become many", compress(strings.Repeat("0", maxLedgerSize+1)), "read ledger: unpack: more than 4194304 bytes"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			ledger, err := DecodeLedger(c.text)
			switch {
			case c.err == "" && (err != nil || ledger == nil):
				t.Errorf("got %v, %v", ledger, err)
			case c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err) || ledger != nil):
				t.Errorf("got %v, %v, want %q", ledger, err, c.err)
			}
		})
	}
}

// drawRecords draws workers in intermediate states.
func drawRecords(t *rapid.T) (records []assign.Record) {
	job := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "é: \x7f"})
	for n := range rapid.IntRange(0, 5).Draw(t, "workers") {
		record := assign.Record{Worker: fmt.Sprint("w-", n), Ordinal: n}
		for version := range rapid.IntRange(1, 4).Draw(t, "lists") {
			record = record.WithList(int64(version+1), rapid.SliceOfDistinct(job, rapid.ID).Draw(t, "jobs"))
		}
		records = append(records, record)
	}
	return records
}

// From the file and the ledger alone, a leader knows which worker may hold which job, including workers that are no longer in the file.
func TestLedgerRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := drawRecords(t)
		file := File{Version: 9}
		for n, record := range records {
			if n%2 == 1 && len(record.Current()) == 0 {
				continue
			}
			last := record.Lists[len(record.Lists)-1]
			file.Workers = append(file.Workers, FileEntry{record.Worker, last.Version, last.Jobs})
		}
		text, err := NewLedger(records, nil).Encode()
		if err != nil {
			t.Fatal(err)
		}
		ledger, err := DecodeLedger(text)
		if err != nil {
			t.Fatal(err)
		}
		if heldBefore, heldAfter := heldJobs(records), heldJobs(ledger.Records(file)); !reflect.DeepEqual(heldBefore, heldAfter) {
			t.Fatalf("before %v, after %v", heldBefore, heldAfter)
		}
	})
}

// If the file was set back, the pool does not wait forever: a worker that confirms the published list has given up the rest.
func TestVersionsThatDecreased(t *testing.T) {
	ledger := Ledger{"w": {Earlier: []assign.ListVersion{{Version: 7, Jobs: []string{"b"}}, {Version: 9, Jobs: []string{"c"}}}}}
	record := ledger.Records(File{Version: 7, Workers: []FileEntry{{"w", 7, []string{"a"}}}})[0].WithPod("uid")
	if jobs := record.MayHold(); !slices.Equal(jobs, []string{"a", "b", "c"}) {
		t.Errorf("may hold %v", jobs)
	}
	if jobs := record.WithAcknowledgement("uid", 7).MayHold(); !slices.Equal(jobs, []string{"a"}) {
		t.Errorf("has confirmed, and may hold %v", jobs)
	}
}

// heldJobs maps workers to the jobs that they may hold.
func heldJobs(records []assign.Record) map[string][]string {
	held := map[string][]string{}
	for _, record := range records {
		if jobs := slices.Sorted(slices.Values(record.MayHold())); len(jobs) > 0 {
			held[fmt.Sprint(record.Worker, " ", record.Ordinal)] = jobs
		}
	}
	return held
}

func TestLongLedgersAreCompressed(t *testing.T) {
	ledger := Ledger{}
	for n := range 5000 {
		ledger[fmt.Sprint("worker-", n)] = LedgerEntry{Ordinal: n, PodUID: "0b5a2a0e-6d7e-4a3b-9a53-3a8f5d1c2e4f"}
	}
	text, err := ledger.Encode()
	if err != nil || len(text) > compressAbove {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	again, _ := ledger.Encode()
	read, err := DecodeLedger(text)
	if err != nil || again != text || !reflect.DeepEqual(read, ledger) {
		t.Errorf("read %d accounts of %d, %v; the same again: %v", len(read), len(ledger), err, again == text)
	}
}
