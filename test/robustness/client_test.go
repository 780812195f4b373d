// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	typed "github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned/typed/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
)

// tokenAnnotation is different after each write of a client.
const tokenAnnotation = "test.metal3.io/token"

// requestTimeout is how long a client waits for an answer.
const requestTimeout = 10 * time.Second

// client records what it asks for. It does one thing at a time.
type client struct {
	*bed
	id     int
	writes int
}

// warned notes that an answer to a request has a warning.
type warned struct {
	mu  sync.Mutex
	has bool
}

type warnedKey struct{}

// noteWarnings passes warnings to the request that they are about.
type noteWarnings struct{}

func (noteWarnings) HandleWarningHeaderWithContext(ctx context.Context, _ int, _, _ string) {
	if w, is := ctx.Value(warnedKey{}).(*warned); is {
		w.mu.Lock()
		w.has = true
		w.mu.Unlock()
	}
}

// once keeps client-go from repeating a request: the first one may have been carried out, and the answer to the second one says
// nothing of that.
type once struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(r)
	if err == nil {
		response.Header.Del("Retry-After")
	}
	return response, err
}

// do makes a request to a replica, and records it. It returns the hosts in the answer.
func (c *client) do(r *replica, o history.Operation, request func(ctx context.Context, hosts typed.BareMetalHostInterface, o *history.Operation) ([]metal3.BareMetalHost, error)) ([]metal3.BareMetalHost, history.Operation) {
	w := &warned{}
	ctx, cancel := context.WithTimeout(context.WithValue(c.ctx, warnedKey{}, w), requestTimeout)
	defer cancel()
	o.Client, o.Server = c.id, r.name
	o.Start = c.record.Now()
	hosts, err := request(ctx, r.metal3.Metal3V1alpha1().BareMetalHosts(c.ns), &o)
	o.End = c.record.Now()
	o.Outcome, o.Reason, o.Message = outcomeOf(err)
	w.mu.Lock()
	o.Warned = w.has
	w.mu.Unlock()
	for i := range hosts {
		o.Hosts = append(o.Hosts, convert(c.ironic, &hosts[i]))
	}
	c.record.Add(history.Entry{Operation: &o})
	return hosts, o
}

// outcomeOf reports whether a request that has failed may have been carried out.
func outcomeOf(err error) (history.Outcome, string, string) {
	if err == nil {
		return history.OK, "", ""
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		outcome := history.Unknown
		switch code := status.Status().Code; code {
		case 400, 401, 403, 404, 409, 410, 422, 429:
			outcome = history.Refused
		}
		return outcome, string(status.Status().Reason), err.Error()
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return history.Refused, "ConnectionRefused", err.Error()
	}
	return history.Unknown, "", err.Error()
}

func one(host *metal3.BareMetalHost, err error) ([]metal3.BareMetalHost, error) {
	if err != nil {
		return nil, err
	}
	return []metal3.BareMetalHost{*host}, nil
}

func (c *client) token() string {
	c.writes++
	return strconv.Itoa(c.id) + "-" + strconv.Itoa(c.writes)
}

func (c *client) get(r *replica, name string) (*metal3.BareMetalHost, history.Operation) {
	hosts, o := c.do(r, history.Operation{Verb: history.Get, Name: name}, func(ctx context.Context, hosts typed.BareMetalHostInterface, _ *history.Operation) ([]metal3.BareMetalHost, error) {
		return one(hosts.Get(ctx, name, metav1.GetOptions{}))
	})
	if len(hosts) == 0 {
		return nil, o
	}
	return &hosts[0], o
}

// list reads all pages of a list.
func (c *client) list(r *replica, version string, limit int64) ([]metal3.BareMetalHost, history.Operation) {
	return c.do(r, history.Operation{Verb: history.List, Version: &version, Limit: limit}, func(ctx context.Context, hosts typed.BareMetalHostInterface, o *history.Operation) (all []metal3.BareMetalHost, err error) {
		options := metav1.ListOptions{ResourceVersion: version, Limit: limit}
		for {
			page, err := hosts.List(ctx, options)
			if err != nil {
				return nil, err
			}
			all = append(all, page.Items...)
			o.ListVersion = parseVersion(page.ResourceVersion)
			if page.Continue == "" {
				return all, nil
			}
			options.ResourceVersion, options.Continue = "", page.Continue
		}
	})
}

func (c *client) create(r *replica, host *metal3.BareMetalHost) history.Operation {
	write := written(host)
	_, o := c.do(r, history.Operation{Verb: history.Create, Name: host.Name, Write: &write}, func(ctx context.Context, hosts typed.BareMetalHostInterface, _ *history.Operation) ([]metal3.BareMetalHost, error) {
		return one(hosts.Create(ctx, host, metav1.CreateOptions{}))
	})
	return o
}

// update writes a host that was read before, with its resourceVersion.
func (c *client) update(r *replica, host *metal3.BareMetalHost, change func(*metal3.BareMetalHost)) history.Operation {
	base := host.Annotations[tokenAnnotation]
	changed := host.DeepCopy()
	change(changed)
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, tokenAnnotation, c.token())
	write := written(changed)
	write.TokenOnly = changed.Spec.Online == host.Spec.Online
	_, o := c.do(r, history.Operation{Verb: history.Update, Name: host.Name, Write: &write, Base: base}, func(ctx context.Context, hosts typed.BareMetalHostInterface, _ *history.Operation) ([]metal3.BareMetalHost, error) {
		return one(hosts.Update(ctx, changed, metav1.UpdateOptions{}))
	})
	return o
}

// patch writes what the spec is to be, or only the token, whatever the version.
func (c *client) patch(r *replica, name string, write history.Write, image *metal3.Image) history.Operation {
	write.Token = c.token()
	annotations := map[string]any{tokenAnnotation: write.Token}
	if write.Reboot {
		annotations[metal3.RebootAnnotation] = `{"mode":"hard"}`
	}
	body := map[string]any{"metadata": map[string]any{"annotations": annotations}}
	if !write.TokenOnly && !write.Reboot {
		body["spec"] = map[string]any{"online": write.Online, "image": image}
		if image != nil {
			write.Image = image.URL
		}
	}
	patch, err := json.Marshal(body)
	if err != nil {
		c.t.Error(err)
	}
	_, o := c.do(r, history.Operation{Verb: history.Patch, Name: name, Write: &write}, func(ctx context.Context, hosts typed.BareMetalHostInterface, _ *history.Operation) ([]metal3.BareMetalHost, error) {
		return one(hosts.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}))
	})
	return o
}

func (c *client) delete(r *replica, name string) history.Operation {
	_, o := c.do(r, history.Operation{Verb: history.Delete, Name: name}, func(ctx context.Context, hosts typed.BareMetalHostInterface, _ *history.Operation) ([]metal3.BareMetalHost, error) {
		return nil, hosts.Delete(ctx, name, metav1.DeleteOptions{})
	})
	return o
}

// power asks for the host to be switched off by the action, which also changes its spec.
func (c *client) power(r *replica, name string, action metal3.PowerAction) history.Operation {
	_, o := c.do(r, history.Operation{Verb: history.Power, Name: name}, func(ctx context.Context, hosts typed.BareMetalHostInterface, _ *history.Operation) ([]metal3.BareMetalHost, error) {
		_, err := hosts.Power(ctx, name, &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: action}}, metav1.CreateOptions{})
		return nil, err
	})
	return o
}

func (c *client) inspect(r *replica, name string) history.Operation {
	_, o := c.do(r, history.Operation{Verb: history.Inspect, Name: name}, func(ctx context.Context, hosts typed.BareMetalHostInterface, _ *history.Operation) ([]metal3.BareMetalHost, error) {
		_, err := hosts.Inspect(ctx, name, &metal3.HostInspection{}, metav1.CreateOptions{})
		return nil, err
	})
	return o
}

func parseVersion(version string) int64 {
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// hashOf is that of the whole content of a host. Items of a list have no kind.
func hashOf(h *metal3.BareMetalHost) string {
	content := *h
	content.TypeMeta = metav1.TypeMeta{}
	encoded, err := json.Marshal(&content)
	if err != nil {
		return err.Error()
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:6])
}
