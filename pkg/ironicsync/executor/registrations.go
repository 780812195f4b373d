// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// registrations takes the steps that register a host in Ironic.
type registrations struct {
	*settler
	registrar Registrar
	claims    Claims
	secrets   *secrets.Secrets
}

// reportUnlessSecretExists reports what keeps the host from being registered, unless
// that is a Secret which was created along with the host and the watch has yet to tell of.
func (r *registrations) reportUnlessSecretExists(ctx context.Context, task Task) (Outcome, error) {
	if name := task.Step.Secret; name != "" {
		if exists, err := r.secrets.Exists(ctx, task.Host.Namespace, name); exists || err != nil {
			return Outcome{}, err
		}
	}
	_, err := r.recorder.Record(ctx, task.Host, func(h *metal3.BareMetalHost) { lifecycle.Reported(h, task.Step) })
	return Outcome{}, err
}

func (r *registrations) findNode(ctx context.Context, task Task) (Outcome, error) {
	host, err := r.registrar.FindNode(ctx, task.Host)
	if err != nil {
		return Outcome{}, err
	}
	return planAgainWith(host, nil), nil
}

func (r *registrations) createNode(ctx context.Context, task Task) (Outcome, error) {
	host := task.Host
	if free, err := r.claims.HasBMCToItself(ctx, host); err != nil || !free {
		return planAgainWith(host, task.Node), err // the next step reports it
	}
	changed, err := r.registrar.CreateNode(ctx, task.Fence, host)
	if err != nil {
		return Outcome{}, err
	}
	host, node, err := r.observer.FreshNode(ctx, host.Namespace, host.Name, !changed)
	if err != nil {
		return Outcome{}, &ObservationError{err}
	}
	return planAgainWith(host, node), nil
}

// register registers the host. A deletion does not wait for what keeps it from being registered.
func (r *registrations) register(ctx context.Context, task Task) (Outcome, error) {
	changed, err := r.registrar.Register(ctx, task.Fence, task.Host, task.Node)
	if err == nil && changed {
		err = r.observe(ctx, task.Host)
	}
	if err != nil && !task.Host.DeletionTimestamp.IsZero() && !isTransient(err) {
		err = r.recorder.Report(ctx, task.Host, metal3.RequestFailedReason, err.Error())
	}
	return Outcome{}, err
}
