package kit

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// withQueue runs a test with a queue for this many workers, of a controller that serves these namespaces.
func withQueue(t *testing.T, workers int, namespaces []string, test func(t *testing.T, q *fairQueue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		served := &activeNamespaces{}
		for _, namespace := range namespaces {
			served.add(namespace)
		}
		limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute)
		q := newFairQueue("test-"+t.Name(), limiter, newFairOrder(workers, served))
		defer q.ShutDown()
		test(t, q)
	})
}

func keyOf(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// getAsync gets a key as a worker does. It receives the key once there is one.
func getAsync(q *fairQueue) <-chan string {
	got := make(chan string, 1)
	go func() {
		if key, ended := q.Get(); ended {
			got <- "ended"
		} else {
			got <- key.String()
		}
	}()
	return got
}

// getAll returns the keys that this many workers get at once, "-" for a worker that waits.
func getAll(q *fairQueue, workers int) []string {
	var keys []string
	for range workers {
		got := getAsync(q)
		synctest.Wait()
		select {
		case key := <-got:
			keys = append(keys, key)
		default:
			keys = append(keys, "-")
		}
	}
	return keys
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestManyKeysOfANamespaceDoNotDelayAnother(t *testing.T) {
	withQueue(t, 1, nil, func(t *testing.T, q *fairQueue) {
		const busyNamespace = 5000
		for n := range busyNamespace {
			q.Add(keyOf("storm", fmt.Sprint(n)))
		}
		synctest.Wait()
		q.Add(keyOf("calm", "a"))
		synctest.Wait()
		if q.Len() != busyNamespace+1 {
			t.Errorf("%d keys are due", q.Len())
		}
		seen := map[string]int{}
		for turn := range busyNamespace + 1 {
			key, ended := q.Get()
			if key.Namespace == "calm" && turn > 1 || ended {
				t.Fatalf("%s came in turn %d", key, turn)
			}
			seen[key.String()]++
			q.Done(key)
		}
		if len(seen) != busyNamespace+1 || q.Len() != 0 {
			t.Errorf("%d keys were handed out, %d are left", len(seen), q.Len())
		}
	})
}

func TestKeysOfANamespaceKeepTheirOrder(t *testing.T) {
	withQueue(t, 9, nil, func(t *testing.T, q *fairQueue) {
		for _, key := range []string{"a1", "a2", "a3", "b1", "c1", "b2"} {
			q.Add(keyOf(key[:1], key))
		}
		synctest.Wait()
		expect(t, "turns", getAll(q, 6), "a/a1", "b/b1", "c/c1", "a/a2", "b/b2", "a/a3")
	})
}

func TestLastWorkerIsFreeForOtherNamespaces(t *testing.T) {
	for _, namespaces := range [][]string{{"storm", "calm"}, {"calm"}, {"calm", "calm", "else"}} {
		withQueue(t, 4, namespaces, testLastWorker)
	}
}

func testLastWorker(t *testing.T, q *fairQueue) {
	for n := range 10 {
		q.Add(keyOf("storm", fmt.Sprint(n)))
	}
	expect(t, "storm", getAll(q, 3), "storm/0", "storm/1", "storm/2")
	last := getAsync(q)
	synctest.Wait()
	if len(last) > 0 {
		t.Fatalf("the last worker has %s", <-last)
	}
	q.Add(keyOf("calm", "a"))
	synctest.Wait()
	if len(last) == 0 || <-last != "calm/a" {
		t.Fatal("the last worker did not get the key of the other namespace")
	}
	q.Done(keyOf("calm", "a"))
	expect(t, "after that", getAll(q, 1), "-")
	q.Done(keyOf("storm", "0"))
	synctest.Wait()
	if got := q.Len(); got != 6 {
		t.Errorf("%d keys are left, want 6: a worker that waited gets the next one", got)
	}
}

// Of three workers one has a key of a, one has a key of b, and one waits. The key that comes back leaves room for two others.
func TestWaitingWorkerIsWokenForEveryKeyItMayHave(t *testing.T) {
	withQueue(t, 3, []string{"a", "b"}, func(t *testing.T, q *fairQueue) {
		q.Add(keyOf("a", "a1"))
		q.Add(keyOf("b", "b1"))
		expect(t, "first", getAll(q, 2), "a/a1", "b/b1")
		q.Add(keyOf("b", "b2"))
		q.Add(keyOf("a", "a2"))
		waits := getAsync(q)
		synctest.Wait()
		q.mu.Lock() // the worker that gives its key back is faster than the one that waits
		q.order.done(keyOf("a", "a1"))
		q.due.Done(keyOf("a", "a1"))
		q.mu.Unlock()
		expect(t, "next", getAll(q, 1), "b/b2")
		if len(waits) == 0 || <-waits != "a/a2" {
			t.Error("the worker waits, and the key as well")
		}
	})
}

func TestNamespaceThatIsAloneHasAllWorkers(t *testing.T) {
	for _, namespaces := range [][]string{{"storm"}, {"storm", "storm"}, nil} {
		withQueue(t, 2, namespaces, func(t *testing.T, q *fairQueue) {
			for n := range 3 {
				q.Add(keyOf("storm", fmt.Sprint(n)))
			}
			expect(t, "alone", getAll(q, 2), "storm/0", "storm/1")
		})
	}
}

func TestKeysOfLowPriorityComeLast(t *testing.T) {
	withQueue(t, 9, nil, func(t *testing.T, q *fairQueue) {
		low := priorityqueue.AddOpts{Priority: new(handler.LowPriority)}
		q.AddWithOpts(low, keyOf("a", "low"), keyOf("b", "low"), keyOf("b", "raised"), keyOf("c", "raised later"))
		synctest.Wait()
		q.Add(keyOf("a", "1"))
		q.Add(keyOf("a", "2"))
		q.Add(keyOf("b", "raised"))
		synctest.Wait()
		q.AddAfter(keyOf("c", "raised later"), time.Hour)
		synctest.Wait()
		key, priority, _ := q.GetWithPriority()
		if key.String() != "a/1" || priority != 0 {
			t.Errorf("got %s of priority %d", key, priority)
		}
		expect(t, "order", getAll(q, 4), "b/raised", "c/raised later", "a/2", "a/low")
		if key, priority, _ := q.GetWithPriority(); key.String() != "b/low" || priority != handler.LowPriority {
			t.Errorf("got %s of priority %d", key, priority)
		}
		if q.Len() != 0 || len(q.order.levels) != 0 || len(q.order.priorities) != 0 {
			t.Errorf("left: %d keys, %d bands, %d priorities", q.Len(), len(q.order.levels), len(q.order.priorities))
		}
	})
}

// expectNotAgain requires that a key whose reconcile ends does not return after a delay that was asked for before.
func expectNotAgain(t *testing.T, q *fairQueue, key reconcile.Request) {
	t.Helper()
	q.Done(key)
	time.Sleep(time.Hour)
	synctest.Wait()
	if q.Len() != 0 {
		t.Error("it comes again after an earlier delay")
	}
}

// One reconcile is enough for all requests from before it began.
func TestKeyIsInTheQueueOnce(t *testing.T) {
	key, name := keyOf("ns", "a"), "ns/a"
	withQueue(t, 9, nil, func(t *testing.T, q *fairQueue) {
		q.AddAfter(key, time.Hour)
		q.AddAfter(key, time.Minute)
		expect(t, "too early", getAll(q, 1), "-")
		time.Sleep(time.Minute)
		synctest.Wait()
		if q.order.busyByNamespace["ns"] != 1 {
			t.Error("it does not come after the shorter delay")
		}
		expectNotAgain(t, q, key)
		q.AddAfter(key, time.Hour)
		q.Add(key)
		synctest.Wait()
		q.AddAfter(key, time.Hour)
		q.AddRateLimited(key)
		expect(t, "at once", getAll(q, 1), name)
		if q.NumRequeues(key) != 1 {
			t.Error("the failure does not count")
		}
		expectNotAgain(t, q, key)
	})
}

func TestKeyThatIsAddedDuringItsReconcileComesAgain(t *testing.T) {
	key, name := keyOf("ns", "a"), "ns/a"
	withQueue(t, 9, nil, func(t *testing.T, q *fairQueue) {
		q.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, key)
		expect(t, "first", getAll(q, 1), name)
		q.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, key)
		q.Add(key)
		q.Add(key)
		again := getAsync(q)
		synctest.Wait()
		if len(again) > 0 {
			t.Fatal("two workers have it at once")
		}
		q.Done(key)
		synctest.Wait()
		if len(again) == 0 || <-again != name || q.order.lastPriority != 0 {
			t.Errorf("it does not come again, or with priority %d", q.order.lastPriority)
		}
		q.Done(key)
		expect(t, "then", getAll(q, 1), "-")
	})
}

func TestKeyComesAfterItsBackOff(t *testing.T) {
	key := keyOf("ns", "a")
	withQueue(t, 9, nil, func(t *testing.T, q *fairQueue) {
		for _, backOff := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			q.AddRateLimited(key)
			began := time.Now()
			q.Get()
			if got := time.Since(began); got != backOff {
				t.Errorf("it came after %s, want %s", got, backOff)
			}
			q.Done(key)
		}
		if q.Forget(key); q.NumRequeues(key) != 0 {
			t.Error("its failures still count")
		}
	})
}

func TestQueueIsMeasured(t *testing.T) {
	withQueue(t, 9, nil, func(t *testing.T, q *fairQueue) {
		shows := func(series string) float64 {
			families, err := metrics.Registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, family := range families {
				for _, one := range family.GetMetric() {
					for _, label := range one.GetLabel() {
						if family.GetName() == series && label.GetName() == "name" && label.GetValue() == "test-"+t.Name() {
							return one.GetGauge().GetValue() + one.GetCounter().GetValue() + float64(one.GetHistogram().GetSampleCount())
						}
					}
				}
			}
			return -1
		}
		wants := map[string]float64{
			"workqueue_adds_total": 3, "workqueue_depth": 2, "workqueue_retries_total": 2,
			"workqueue_queue_duration_seconds": 1, "workqueue_work_duration_seconds": 1,
		}
		before := map[string]float64{}
		for series := range wants {
			before[series] = shows(series)
		}
		for n := range 3 {
			q.Add(keyOf("ns", fmt.Sprint(n)))
		}
		q.AddAfter(keyOf("ns", "later"), time.Hour)
		q.AddRateLimited(keyOf("ns", "later"))
		synctest.Wait()
		q.Get()
		q.Done(keyOf("ns", "0"))
		for series, want := range wants {
			if got := shows(series) - before[series]; got != want {
				t.Errorf("%s grew by %v, want %v", series, got, want)
			}
		}
		q.Get()
		q.Get()
	})
}

func TestQueueEnds(t *testing.T) {
	withQueue(t, 9, nil, func(t *testing.T, q *fairQueue) {
		waits := []<-chan string{getAsync(q), getAsync(q)}
		synctest.Wait()
		q.ShutDown()
		q.ShutDownWithDrain()
		for _, one := range waits {
			if got := <-one; got != "ended" {
				t.Errorf("got %s", got)
			}
		}
		q.Add(keyOf("ns", "late"))
		q.AddAfter(keyOf("ns", "late"), time.Second)
		synctest.Wait()
		if _, ended := q.Get(); !ended || !q.ShuttingDown() {
			t.Error("it goes on")
		}
	})
}

// Whatever happens at once, a key that was added is reconciled afterwards, and by one worker at a time.
func TestNoKeyIsLostOrDoneTwiceAtOnce(t *testing.T) {
	withQueue(t, 4, []string{"0", "1", "2"}, func(t *testing.T, q *fairQueue) {
		const keys = 30
		key := func(n int) reconcile.Request { return keyOf(fmt.Sprint(n%3), fmt.Sprint(n%keys)) }
		var mu sync.Mutex
		added, seen, inProgress := map[reconcile.Request]int{}, map[reconcile.Request]int{}, map[reconcile.Request]bool{}
		for range 4 {
			go func() {
				for {
					one, ended := q.Get()
					if ended {
						return
					}
					mu.Lock()
					if inProgress[one] {
						t.Errorf("two workers have %s", one)
					}
					inProgress[one], seen[one] = true, added[one]
					mu.Unlock()
					time.Sleep(time.Millisecond)
					mu.Lock()
					inProgress[one] = false
					mu.Unlock()
					q.Done(one)
				}
			}()
		}
		for n := range 3000 {
			mu.Lock()
			added[key(n)]++
			mu.Unlock()
			q.AddAfter(key(n), time.Duration(n%7)*time.Millisecond)
			if n%50 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		for n := range keys {
			if seen[key(n)] != added[key(n)] {
				t.Errorf("%s was asked for %d times, and last reconciled after %d", key(n), added[key(n)], seen[key(n)])
			}
		}
	})
}
