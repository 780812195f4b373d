// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/consumers"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/page"
)

type uiCommand struct {
	*session
	selection
	port      int
	noBrowser bool
	readOnly  bool
}

func newUICommand(s *session) *cobra.Command {
	c := &uiCommand{session: s}
	cmd := &cobra.Command{
		Use:     "ui",
		GroupID: groupSee,
		Short:   "Show the fleet on a page in the browser",
		Long: `Serves a page with the hosts on 127.0.0.1, and opens it in the browser. The page does what you may do in the
cluster, and nobody else can use it: the link that is printed gives access to the first browser that
opens it. It ends with the command, at Ctrl-C.`,
		Example: `  kubectl bmh ui -n metal3
  kubectl bmh ui -A --read-only
  kubectl bmh ui --no-browser --port 8010   # and from your own machine: ssh -L 8010:127.0.0.1:8010 ...`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.addFlags(cmd)
	cmd.Flags().IntVar(&c.port, "port", 0, "The port on 127.0.0.1; 0 means any that is free")
	cmd.Flags().BoolVar(&c.noBrowser, "no-browser", false, "Only print the link")
	cmd.Flags().BoolVar(&c.readOnly, "read-only", false, "Refuse everything that changes something, and consoles")
	completeFlag(cmd, "field-selector", s.completeFieldSelectors)
	return cmd
}

func (c *uiCommand) run(ctx context.Context) error {
	if c.port < 0 || c.port > 65535 {
		return fmt.Errorf("--port must be between 0 and 65535")
	}
	// Warnings of the server are about the picture, and are shown there.
	c.warnings = rest.NoWarnings{}
	clients, namespace, err := c.connect()
	if err != nil {
		return err
	}
	config, err := c.config()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fleet, err := watchFleet(ctx, clients, c.namespace(namespace), c.options())
	if err != nil {
		return err
	}
	defer fleet.stop()

	behind := make(chan map[string]consumers.Consumer, 1)
	resolver := newConsumerLoop(ctx, clients, fleet, behind)
	defer resolver.wait()
	defer cancel()
	probe, err := c.newProbe(config, c.namespace(namespace))
	if err != nil {
		return err
	}
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	background.Go(func() { probe.run(ctx) })

	known := &consumerNames{}
	server, err := page.Listen(ctx, c.port, c.pageOptions(clients, config, namespace, known))
	if err != nil {
		return err
	}
	shown := &uiView{fleet, behind, known, probe, server}
	// Nobody must see an empty list because the first one has not been shown yet.
	if err := shown.show(); err != nil {
		return err
	}
	served := make(chan error, 1)
	background.Go(func() { served <- server.Serve(ctx) })

	defer c.announce(server.Link())()
	return shown.follow(ctx, served)
}

// uiView is what the page shows, and where that comes from.
type uiView struct {
	fleet  *fleet
	behind <-chan map[string]consumers.Consumer
	known  *consumerNames
	probe  *probe
	server *page.Server
}

// show has the page show what is known now.
func (v *uiView) show() error {
	return v.server.Show(v.fleet.hosts(), v.known.all(), v.probe.freshness(v.fleet.notice()))
}

// follow shows each change until the context ends or the server, whose error is then in served.
func (v *uiView) follow(ctx context.Context, served <-chan error) error {
	for {
		if err := v.fleet.lost(); err != nil {
			return err
		}
		if err := v.show(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // Ctrl-C is the usual end
		case err := <-served:
			return err
		case names := <-v.behind:
			v.known.set(names)
		case <-v.probe.changed:
		case <-v.fleet.changed:
			awaitOthers(ctx)
		}
	}
}

// pageOptions says what the page shows, and what it may do.
func (c *uiCommand) pageOptions(clients *clients, config *rest.Config, namespace string, known *consumerNames) page.Options {
	return page.Options{
		Config: config, Scope: c.scope(config, namespace), ReadOnly: c.readOnly,
		Rights: clients.rightsIn,
		Detail: func(ctx context.Context, namespace, name string) (*page.Detail, error) {
			host, err := clients.getHost(ctx, namespace, name)
			if err != nil {
				return nil, err
			}
			facts, missing := clients.factsOf(ctx, host, factsTimeout)
			return page.NewDetail(facts, known.of(host), missing, c.now()), nil
		},
		LinkReused: func() {
			fmt.Fprintln(c.ErrOut, "warning: the link was opened once more, and that was refused. If it was not you, somebody else knows it: press Ctrl-C and start again.")
		},
	}
}

// announce prints the link and opens it in the browser. It returns what removes its traces when the page ends.
func (c *uiCommand) announce(link string) (remove func()) {
	fmt.Fprintf(c.Out, "%s\n", link)
	fmt.Fprintln(c.ErrOut, "This link opens the page in one browser. Ctrl-C ends it.")
	if c.noBrowser {
		return func() {}
	}
	remove, err := c.openBrowser(link)
	if err != nil {
		fmt.Fprintf(c.ErrOut, "note: no browser was opened: %s\n", err)
	}
	return remove
}

// awaitOthers waits for more changes after one: many hosts change at once.
func awaitOthers(ctx context.Context) {
	rest := time.NewTimer(frameInterval)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
	}
}

// scope says which cluster and which hosts the page is about.
func (c *uiCommand) scope(config *rest.Config, namespace string) page.Scope {
	scope := page.Scope{Server: config.Host, Namespace: namespace, AllNamespaces: c.allNamespaces}
	if raw, err := c.flags.ToRawKubeConfigLoader().RawConfig(); err == nil {
		scope.Context = raw.CurrentContext
	}
	if *c.flags.Context != "" {
		scope.Context = *c.flags.Context
	}
	var selected []string
	for _, s := range []string{c.labels, c.fields} {
		if s != "" {
			selected = append(selected, s)
		}
	}
	scope.Selector = strings.Join(selected, " and ")
	return scope
}

// consumerNames are what stands behind the consumers of hosts, by their UIDs.
type consumerNames struct {
	mu    sync.Mutex
	names map[string]consumers.Consumer
}

func (n *consumerNames) set(names map[string]consumers.Consumer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names = names
}

// all returns a map that must not be changed.
func (n *consumerNames) all() map[string]consumers.Consumer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.names
}

func (n *consumerNames) of(host *metal3.BareMetalHost) consumers.Consumer {
	return n.all()[string(host.UID)]
}

// rightsTimeout is how long the page waits to know what the user may do.
const rightsTimeout = 10 * time.Second

// rightsIn returns what the user may do to the hosts of a namespace. What the cluster does not
// tell counts as allowed: it decides again when it is asked to do it.
func (c *clients) rightsIn(ctx context.Context, namespace string) map[page.Right]bool {
	ctx, cancel := context.WithTimeout(ctx, rightsTimeout)
	defer cancel()
	attributes := map[page.Right]authorizationv1.ResourceAttributes{
		page.RightCreateSecrets: {Verb: "create", Version: "v1", Resource: "secrets"},
	}
	host := func(verb, subresource string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{
			Verb: verb, Group: metal3.GroupName, Version: metal3.SchemeGroupVersion.Version, Resource: hostResource.Resource, Subresource: subresource,
		}
	}
	attributes[page.RightCreateHosts] = host("create", "")
	attributes[page.RightChange] = host("patch", "")
	attributes[page.RightDelete] = host("delete", "")
	for _, action := range []page.Right{
		page.RightPower, page.RightInspect, page.RightRetry, page.RightRebuild, page.RightMaintenance, page.RightIndicator, page.RightNMI, page.RightConsole,
	} {
		attributes[action] = host("create", string(action))
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	rights := map[page.Right]bool{}
	for right, a := range attributes {
		a.Namespace = namespace
		asking.Go(func() {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}
			answer, err := c.core.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			mu.Lock()
			defer mu.Unlock()
			rights[right] = err != nil || answer.Status.Allowed
		})
	}
	asking.Wait()
	return rights
}
