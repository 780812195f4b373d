// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"io"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	metal3client "github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned/typed/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/version"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/terminal"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
)

// callTimeout is the longest that a request may take. The server itself answers reads within
// seconds and gives actions 34 s.
const callTimeout = time.Minute

// The rate of requests. An inventory of hundreds of hosts should not take minutes because of the
// client's own limit; the server has priority and fairness.
const (
	requestsPerSecond = 50
	requestsBurst     = 100
)

// clients are the clients of the cluster's API.
type clients struct {
	metal3  versioned.Interface
	core    kubernetes.Interface
	dynamic dynamic.Interface
}

// session is what all commands share: the streams, the flags about the cluster, and what tests
// replace.
type session struct {
	genericiooptions.IOStreams
	flags  *genericclioptions.ConfigFlags
	getenv func(string) string
	now    func() time.Time
	// canAsk reports whether somebody can be asked on the terminal.
	canAsk func() bool
	// readPassword asks for a password without showing it.
	readPassword func(ctx context.Context, prompt string) (string, error)
	// warnings receives the warnings of the server. It can be replaced before connecting.
	warnings rest.WarningHandler
	// connectWith makes clients.
	connectWith func(*rest.Config) (*clients, error)
}

func newSession(streams genericiooptions.IOStreams) *session {
	s := &session{
		IOStreams: streams,
		flags:     genericclioptions.NewConfigFlags(true),
		getenv:    os.Getenv,
		now:       time.Now,
		warnings: cleanWarnings{rest.NewWarningWriter(streams.ErrOut, rest.WarningWriterOptions{
			Deduplicate: true, Color: terminal.AllowsColor(streams.ErrOut),
		})},
		connectWith: connectWith,
	}
	s.canAsk = func() bool { return terminal.IsTerminal(s.In) && terminal.IsTerminal(s.ErrOut) }
	s.readPassword = func(ctx context.Context, prompt string) (string, error) {
		return terminal.ReadPassword(ctx, s.In, s.ErrOut, prompt)
	}
	return s
}

// cleanWarnings makes warnings of the server fit for a terminal.
type cleanWarnings struct{ to rest.WarningHandler }

// HandleWarningHeader implements rest.WarningHandler.
func (w cleanWarnings) HandleWarningHeader(code int, agent, text string) {
	w.to.HandleWarningHeader(code, agent, view.Clean(text))
}

// objects returns where objects are printed to with -o.
func (s *session) objects(format string) io.Writer {
	if format == "json" {
		return view.JSONWriter(s.Out)
	}
	return s.Out
}

// connect returns clients of the cluster that the flags select, and the namespace.
func (s *session) connect() (*clients, string, error) {
	namespace, _, err := s.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, "", err
	}
	config, err := s.config()
	if err != nil {
		return nil, "", err
	}
	c, err := s.connectWith(config)
	return c, namespace, err
}

// config returns how to connect to the cluster that the flags select.
func (s *session) config() (*rest.Config, error) {
	config, err := s.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.UserAgent = "kubectl-bmh/" + version.Version
	config.QPS, config.Burst = requestsPerSecond, requestsBurst
	config.WarningHandler = s.warnings
	return config, nil
}

func connectWith(config *rest.Config) (*clients, error) {
	metal3, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	dynamic, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &clients{metal3, core, dynamic}, nil
}

// hostClient is the client of the hosts of a namespace.
type hostClient = metal3client.BareMetalHostInterface

func (c *clients) hosts(namespace string) hostClient {
	return c.metal3.Metal3V1alpha1().BareMetalHosts(namespace)
}

// listHosts lists hosts in one request, so that all of them are as of the same moment.
func (c *clients) listHosts(ctx context.Context, namespace string, options metav1.ListOptions) (*metal3.BareMetalHostList, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.hosts(namespace).List(ctx, options)
}

// getHost reads a host.
func (c *clients) getHost(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.hosts(namespace).Get(ctx, name, metav1.GetOptions{})
}

// style returns what can be shown on a stream.
func (s *session) style(stream any) view.Style {
	style := view.Style{ASCII: !terminal.AllowsUTF8(s.getenv)}
	if w, ok := stream.(*os.File); ok {
		style.Color = terminal.AllowsColor(w)
		if !terminal.IsTerminal(w) {
			style.ASCII = false // what reads a pipe has a locale of its own
		}
	}
	return style
}
