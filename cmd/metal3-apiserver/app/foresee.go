// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/foresight"
	"github.com/metal3-io/metal3-apiserver/pkg/migrate"
)

// validateForesight checks the flags of import that say with what metal3-apiserver will run.
func (m *migration) validateForesight() error {
	var errs []error
	m.options.validateDestinations(func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) })
	if m.asksIronic() {
		errs = append(errs, m.options.Ironic.Validate()...)
	}
	return joinOnOneLine(errs)
}

func (m *migration) asksIronic() bool {
	return m.options.Ironic.Endpoint != "" || m.options.Ironic.Cloud != ""
}

// foresee says what metal3-apiserver will do with hosts of the cluster. What cannot be checked is said once.
func (m *migration) foresee(ctx context.Context, cluster *migrate.Cluster, report *migrate.Report, hosts []*metal3.BareMetalHost) (problems, first []string, err error) {
	var once sync.Once
	checks := foresight.Checks{BMCs: m.options.Settings.BMCs, HasSecret: func(ctx context.Context, namespace, name string) (bool, error) {
		has, err := cluster.HasSecret(ctx, namespace, name)
		if apierrors.IsForbidden(err) {
			once.Do(func() {
				report.Done("not checked: whether the Secrets with the credentials of BMCs exist, because this user may not get Secrets")
			})
			return true, nil
		}
		return has, err
	}}
	if m.asksIronic() {
		if checks.Drivers, err = m.drivers(ctx); err != nil {
			return nil, nil, err
		}
	} else {
		report.Done("not checked: whether Ironic has the drivers of the hosts, because there is no --ironic-endpoint")
	}
	found, err := checks.Of(ctx, hosts)
	return found.Problems, found.First, err
}

// drivers returns the drivers that Ironic has enabled.
func (m *migration) drivers(ctx context.Context) ([]string, error) {
	ironic, err := client.New(m.options.Ironic)
	if err != nil {
		return nil, err
	}
	defer ironic.Close()
	return ironic.ListDrivers(ctx)
}
