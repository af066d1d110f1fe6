package operator

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// logLines collects the log of several writers.
type logLines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logLines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// drain returns the lines since the last call.
func (l *logLines) drain() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return strings.Split(strings.TrimSpace(l.text.String()), "\n")
}

// A port scanner causes any number of failed handshakes. The log has the first one, and one line per minute.
func TestFailedHandshakesAreOneLinePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &logLines{}
		newLogger(out, Logging{Level: "info", Format: "json"})
		fail := func(times int) {
			for n := range times {
				log.Printf("http: TLS handshake error from 10.0.0.1:%d: EOF", n)
			}
		}
		fail(1000)
		log.Print("http: something else")
		if got := out.drain(); len(got) != 2 || !strings.Contains(got[0], "from 10.0.0.1:0") || !strings.Contains(got[1], "something else") {
			t.Errorf("at once: %q", got)
		}
		log.Print("http: panic serving 10.0.0.1:1: a mistake of ours")
		log.Print("http: panic serving 10.0.0.1:2: another one")
		if got := out.drain(); len(got) != 2 {
			t.Errorf("panics: %q", got)
		}
		for minute, more := range []int{998, 499} {
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := out.drain(); len(got) != 1 || !strings.Contains(got[0], fmt.Sprintf("(and %d more in the last minute)", more)) {
				t.Errorf("minute %d: %q", minute, got)
			}
			fail(500 * (1 - minute))
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := out.drain(); got[0] != "" {
			t.Errorf("after it was quiet: %q", got)
		}
		fail(1)
		if got := out.drain(); len(got) != 1 || got[0] == "" {
			t.Errorf("a new one: %q", got)
		}
		time.Sleep(time.Minute)
	})
}

// Anyone can post to the webhook. Unreadable bodies cause one line per minute, whatever is wrong with them.
func TestBadAdmissionBodiesAreOneLinePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &logLines{}
		hook := withLogging(&ctrladmission.Webhook{Handler: ctrladmission.HandlerFunc(nil)})
		inner, base := hook.LogConstructor, logr.FromSlogHandler(slog.NewJSONHandler(out,
			nil)) // the logger of all libraries is set once per process
		hook.LogConstructor = func(_ logr.Logger, request *ctrladmission.Request) logr.Logger { return inner(base, request) }
		post := func(body string) {
			answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			request.Header.Set("Content-Type", "application/json")
			hook.ServeHTTP(answer, request)
		}
		for n := range 100 {
			post(fmt.Sprintf("{garbage %d", n))
			post("[]")
		}
		if got := out.drain(); len(got) != 1 || !strings.Contains(got[0], "unable to decode the request") {
			t.Errorf("at once: %q", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := out.drain(); len(got) != 1 || !strings.Contains(got[0], `"others":198`) {
			t.Errorf("after a minute: %q", got)
		}
		time.Sleep(time.Minute)
	})
}

// A caller other than the API server writes megabytes into any field. Neither our lines nor those of controller-runtime repeat them.
func TestLinesAboutReviewsAreCut(t *testing.T) {
	out, allowed := &logLines{}, ctrladmission.HandlerFunc(func(ctx context.Context, _ ctrladmission.Request) ctrladmission.Response {
		ctrllog.FromContext(ctx).Info("from the handler")
		return ctrladmission.Allowed("")
	})
	hook := withLogging(&ctrladmission.Webhook{Handler: allowed})
	inner := hook.LogConstructor
	base := logr.FromSlogHandler(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	hook.LogConstructor = func(_ logr.Logger, request *ctrladmission.Request) logr.Logger { return inner(base, request) }
	long := strings.Repeat("x", 256<<10)
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID(long), Namespace: long, Name: long, Resource: metav1.GroupVersionResource{Group: long, Version: long, Resource: long},
			UserInfo: authenticationv1.UserInfo{Username: long},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(review))
	request.Header.Set("Content-Type", "application/json")
	hook.ServeHTTP(httptest.NewRecorder(), request)
	got := out.drain()
	if len(got) < 2 {
		t.Fatalf("logged %.300q", got)
	}
	for _, line := range got {
		if len(line) > 4<<10 || !strings.Contains(line, `"requestID":"xxx`) {
			t.Errorf("a line of %d bytes: %.300s", len(line), line)
		}
	}
}

// HTTP/2 lets one connection open and cancel any number of requests. Neither server needs it.
func TestWebhookAndMetricsSpeakHTTP1(t *testing.T) {
	webhook := &tls.Config{NextProtos: []string{"h2"}}
	for _, apply := range Defaults().Webhook.serverOptions().TLSOpts {
		apply(webhook)
	}
	for name, shown := range map[string]*tls.Config{"webhook": webhook, "metrics": Defaults().Metrics.tlsConfig(nil)} {
		if len(shown.NextProtos) != 1 || shown.NextProtos[0] != "http/1.1" {
			t.Errorf("%s: %v", name, shown.NextProtos)
		}
	}
}
