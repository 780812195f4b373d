// SPDX-License-Identifier: Apache-2.0

package client

import "errors"

// Client asks Ironic. It is safe for concurrent use. Each of its parts has the methods for a part of Ironic's API.
type Client struct {
	*connection
	nodeReader
	nodeWriter
	nodeManagement
	ports
	virtualMedia
	eventSubscriptions
	conductors
}

// New makes a client. It reads the files of the configuration, but does not use
// the network: Ironic may be away when this process starts.
func New(cfg Config) (*Client, error) {
	if errs := cfg.Validate(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	registerMetrics()
	cfg = cfg.withDefaults()
	t, err := newTransport(cfg)
	if err != nil {
		return nil, err
	}
	auth, err := newAuthenticator(cfg, t)
	if err != nil {
		return nil, err
	}
	c := &connection{
		name:      cfg.Name,
		auth:      auth,
		transport: t,
		timeout:   cfg.Timeout,
		clock:     cfg.Clock,
		slots:     newSlots(cfg),
	}
	return &Client{c, nodeReader{connection: c}, nodeWriter{c}, nodeManagement{c}, ports{c}, virtualMedia{c}, eventSubscriptions{c}, conductors{c}}, nil
}
