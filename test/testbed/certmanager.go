// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"path/filepath"
)

// CertManager runs the controllers of cert-manager and its cainjector.
type CertManager struct{ run *process }

// StartCertManager creates the CustomResourceDefinitions of cert-manager in a cluster and starts bin/cert-manager there, with
// its log in dir. Its webhook does not run.
func StartCertManager(ctx context.Context, dir string, admin *Client) (*CertManager, error) {
	program, err := builtProgram("cert-manager", buildTools)
	if err != nil {
		return nil, err
	}
	if err := CreateCertManagerCRDs(ctx, admin); err != nil {
		return nil, err
	}
	c := &CertManager{}
	c.run, err = command{
		name: "cert-manager", log: filepath.Join(dir, "cert-manager.log"), path: program, args: []string{"--kubeconfig=" + admin.Kubeconfig},
	}.within(admin.enter).start()
	return c, err
}

// CreateCertManagerCRDs creates the CustomResourceDefinitions of cert-manager, and waits until they are served.
func CreateCertManagerCRDs(ctx context.Context, admin *Client) error {
	crds, err := builtProgram("cert-manager-crds", buildTools)
	if err != nil {
		return err
	}
	if _, _, err := admin.Kubectl(ctx, "", "create", "-f", crds); err != nil {
		return fmt.Errorf("the CustomResourceDefinitions of cert-manager: %w", err)
	}
	_, _, err = admin.Kubectl(ctx, "", "wait", "--for=condition=Established", "--timeout=5m", "-f", crds)
	return err
}

// Log returns the end of its log.
func (c *CertManager) Log() string { return tail(c.run.log) }

// Stop stops cert-manager.
func (c *CertManager) Stop() error { return c.run.stop() }
