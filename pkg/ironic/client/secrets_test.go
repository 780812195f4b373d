// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/redact"
)

// Whatever is asked about a host, the password of its BMC is in no answer, in whatever spelling Ironic repeats it. If the
// password cannot be read, Ironic's words are withheld.
func TestNoSecretInAnswers(t *testing.T) {
	const password, node = `tr0ub4dor"&'3`, "a"
	var said string
	f := newFake(t, 96, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/validate") {
			_ = json.NewEncoder(w).Encode(map[string]any{"boot": map[string]any{"result": false, "reason": said}})
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		fault, _ := json.Marshal(map[string]string{"faultstring": said})
		_ = json.NewEncoder(w).Encode(map[string]string{"error_message": string(fault)})
	})
	c := f.client()
	for name, ask := range map[string]func(context.Context) (string, error){
		"GetNode":           func(ctx context.Context) (string, error) { _, err := c.GetNode(ctx, node); return "", err },
		"DeleteNode":        func(ctx context.Context) (string, error) { return "", c.DeleteNode(ctx, ironic.NoFence, node) },
		"ListSubscriptions": func(ctx context.Context) (string, error) { _, err := c.ListSubscriptions(ctx, node); return "", err },
		"GetSubscription":   func(ctx context.Context) (string, error) { _, err := c.GetSubscription(ctx, node, "1"); return "", err },
		"DeleteSubscription": func(ctx context.Context) (string, error) {
			return "", c.DeleteSubscription(ctx, ironic.NoFence, node, "1")
		},
		"GetVirtualMedia": func(ctx context.Context) (string, error) { _, err := c.GetVirtualMedia(ctx, node); return "", err },
		"AttachVirtualMedia": func(ctx context.Context) (string, error) {
			return "", c.AttachVirtualMedia(ctx, ironic.NoFence, node, "http://x/")
		},
		"GetBootDevice":  func(ctx context.Context) (string, error) { _, err := c.GetBootDevice(ctx, node); return "", err },
		"InjectNMI":      func(ctx context.Context) (string, error) { return "", c.InjectNMI(ctx, ironic.NoFence, node) },
		"ListIndicators": func(ctx context.Context) (string, error) { _, err := c.ListIndicators(ctx, node); return "", err },
		"History":        func(ctx context.Context) (string, error) { _, err := c.History(ctx, node); return "", err },
		"Validate": func(ctx context.Context) (string, error) {
			w, err := c.Validate(ctx, node, "boot")
			return fmt.Sprint(w), err
		},
		"Verdicts": func(ctx context.Context) (string, error) { v, err := c.Verdicts(ctx, node); return fmt.Sprint(v), err },
		"SetProvisionState": func(ctx context.Context) (string, error) {
			return "", c.SetProvisionState(ctx, ironic.NoFence, node, ironic.TargetActive, ironic.ProvisionOptions{})
		},
		"SwitchPower": func(ctx context.Context) (string, error) {
			_, _, err := c.SwitchPower(ctx, ironic.NoFence, node, ironic.TargetPowerOn)
			return "", err
		},
	} {
		answer := func(ctx context.Context) string {
			t.Helper()
			words, err := ask(ctx)
			if err != nil {
				words += err.Error() + ironic.MessageOf(err)
			}
			return words
		}
		known := redact.With(t.Context(), func(context.Context) (redact.Known, error) { return redact.Known{Secrets: []string{password}}, nil })
		for _, spelled := range []string{password, strconv.Quote(password), url.QueryEscape(password)} {
			said = "login with " + spelled + " refused"
			if got := answer(known); strings.Contains(got, "tr0ub4dor") || !strings.Contains(got, "login with") || !strings.Contains(got, "refused") {
				t.Errorf("%s: %q is answered with %q", name, said, got)
			}
		}
		unknown := redact.With(t.Context(), func(context.Context) (redact.Known, error) { return redact.Known{}, errors.New("etcd is away") })
		if got := answer(unknown); strings.Contains(got, "tr0ub4dor") || !strings.Contains(got, redact.Withheld+"etcd is away") {
			t.Errorf("%s: a password that is not known is answered with %q", name, got)
		}
	}
}
