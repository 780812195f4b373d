// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	componentconfig "k8s.io/component-base/config"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds/networkswitch"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
	"github.com/metal3-io/metal3-apiserver/pkg/version"
)

// Config is the configuration of the server.
type Config struct {
	// Generic is the configuration of the generic API server.
	Generic *genericapiserver.RecommendedConfig
	ExtraConfig
}

// ExtraConfig is the configuration of everything but the generic API server.
type ExtraConfig struct {
	// Ironic is the client of the Ironic of the flags, which are IronicFlags.
	Ironic         *client.Client
	IronicFlags    client.Config
	Etcd           *etcdBackend
	Settings       reconcile.Settings
	Switches       networkswitch.Settings
	CleanSteps     validation.CleanSteps
	LeaderElection componentconfig.LeaderElectionConfiguration
	// OperatorNamespaces are those in which the Bare Metal Operator is looked for.
	OperatorNamespaces []string
	// ReadTimeout is how long a read of hosts waits for Ironic.
	ReadTimeout time.Duration
}

// Config returns the configuration for the options. Both etcd and the cluster must answer: the generic
// server begins to watch the former, and reads from the latter whom it trusts to authenticate users.
func (o *Options) Config(ironic *client.Client, etcd *etcdBackend) (*Config, error) {
	generic, err := o.genericConfig(etcd.storage)
	if err != nil {
		return nil, err
	}
	steps, err := validation.AllowCleanSteps(o.CleanSteps)
	if err != nil {
		return nil, fmt.Errorf("--clean-steps: %w", err)
	}
	return &Config{Generic: generic, ExtraConfig: ExtraConfig{
		Ironic: ironic, IronicFlags: o.Ironic, Etcd: etcd, Settings: o.Settings, Switches: o.Switches, CleanSteps: steps, LeaderElection: o.LeaderElection, OperatorNamespaces: o.OperatorNamespaces, ReadTimeout: o.ReadTimeout,
	}}, nil
}

func (o *Options) genericConfig(etcd storagebackend.Config) (*genericapiserver.RecommendedConfig, error) {
	if err := o.Recommended.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.ParseIP("127.0.0.1")}); err != nil {
		return nil, fmt.Errorf("creating a self-signed certificate: %w (--cert-dir is the directory in which it is kept; to use your own certificate, set --tls-cert-file and --tls-private-key-file)", err)
	}
	generic := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	apiserver.AddOpenAPI(generic, version.Version)
	if err := o.Run.ApplyTo(&generic.Config); err != nil {
		return nil, err
	}
	recommended, etcdOptions := *o.Recommended, *o.Recommended.Etcd
	etcdOptions.StorageConfig = etcd // the embedded etcd has an address only now
	recommended.Etcd = &etcdOptions
	if err := recommended.ApplyTo(generic); err != nil {
		return nil, err
	}
	reviewGetsOfHostsOnce(generic)
	if err := reviewDirectUsersApart(generic, o.Recommended.Authorization); err != nil {
		return nil, err
	}
	// A console lasts as long as somebody uses it.
	generic.LongRunningFunc = genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"), sets.NewString("console"))
	// This also limits how long the shutdown waits for requests in progress.
	generic.Config.RequestTimeout = min(generic.Config.RequestTimeout, time.Minute)
	return generic, nil
}

// completedConfig is a Config from which a server can be made.
type completedConfig struct {
	generic genericapiserver.CompletedConfig
	ExtraConfig
	cluster *clusterClients
}

// Complete adds what follows from the configuration.
func (c *Config) Complete() (*completedConfig, error) {
	cluster, err := newClusterClients(c.Generic.ClientConfig)
	if err != nil {
		return nil, err
	}
	return &completedConfig{generic: apiserver.Complete(c.Generic), ExtraConfig: c.ExtraConfig, cluster: cluster}, nil
}
