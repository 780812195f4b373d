// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	cliflag "k8s.io/component-base/cli/flag"
	componentconfig "k8s.io/component-base/config"
	componentoptions "k8s.io/component-base/config/options"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/bmo"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds/networkswitch"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

const (
	// etcdPrefix must differ from that of any kube-apiserver. Below it, keys have the same
	// form as in the etcd of a kube-apiserver.
	etcdPrefix = "/registry/metal3-apiserver"

	defaultReadTimeout = 2500 * time.Millisecond
)

// Options are the options of the server, from the command line and the environment.
type Options struct {
	Recommended    *genericoptions.RecommendedOptions
	Run            *genericoptions.ServerRunOptions
	Logs           *logs.Options
	LeaderElection componentconfig.LeaderElectionConfiguration

	// DataDir is the directory of the embedded etcd, which is used if no --etcd-servers are
	// given.
	DataDir string
	// DataDirQuota is the maximum size of the database of the embedded etcd, in bytes.
	DataDirQuota int64
	// Ironic says how to connect to Ironic.
	Ironic client.Config
	// Settings apply to all hosts.
	Settings reconcile.Settings
	// Switches says whether and how the switches of hosts are configured.
	Switches networkswitch.Settings
	// BMCHosts, ImageHosts and EventHosts are the allowed destinations of Settings, as given.
	BMCHosts, ImageHosts, EventHosts []string
	// CleanSteps are the clean steps that are allowed in addition to those known to be harmless.
	CleanSteps []string
	// OperatorNamespaces are those in which the Bare Metal Operator is looked for.
	OperatorNamespaces []string
	// ReadTimeout is how long a read of hosts waits for Ironic.
	ReadTimeout time.Duration

	environment environment
}

// NewOptions returns options with their defaults.
func NewOptions() *Options {
	o := &Options{
		Recommended: genericoptions.NewRecommendedOptions(etcdPrefix, store.Compact(apiserver.Codecs.LegacyCodec(apiserver.StorageVersions...))),
		Run:         genericoptions.NewServerRunOptions(),
		Logs:        logs.NewOptions(),
		LeaderElection: componentconfig.LeaderElectionConfiguration{
			LeaderElect:       true,
			ResourceLock:      "leases",
			ResourceName:      "metal3-apiserver",
			ResourceNamespace: "metal3-system",
		},
		Ironic:       client.Config{Endpoint: os.Getenv("IRONIC_ENDPOINT")},
		Settings:     defaultSettings(),
		DataDirQuota: defaultEtcdQuota,
		ReadTimeout:  defaultReadTimeout,

		OperatorNamespaces: bmo.DefaultNamespaces,
	}
	setLeaderElectionTimes(&o.LeaderElection)
	enforceQuotas(o.Recommended)
	offerOwnerPermissions(o.Recommended.Admission)
	o.Recommended.Etcd.DeleteCollectionWorkers = 4
	// FirmwareSchemas are the largest objects, and hardly anybody watches them. What the watch cache
	// keeps of the other kinds, store.Budget limits.
	o.Recommended.Etcd.WatchCacheSizes = []string{"firmwareschemas." + v1alpha1.GroupName + "#0"}
	o.Recommended.Etcd.StorageConfig.EncodeVersioner = apiserver.StorageVersions
	// The default, 443, needs privileges.
	o.Recommended.SecureServing.BindPort = 6443
	// Open watches would otherwise delay the shutdown for up to a minute.
	o.Run.ShutdownWatchTerminationGracePeriod = 2 * time.Second
	return o
}

// setLeaderElectionTimes sets the times so that a new leader takes over within 15 s after the
// old one has died. After an orderly shutdown, the Lease is released at once, and the other
// replicas check it every 1 to 2.2 retry periods.
func setLeaderElectionTimes(l *componentconfig.LeaderElectionConfiguration) {
	l.LeaseDuration.Duration = 10 * time.Second
	l.RenewDeadline.Duration = 7 * time.Second
	l.RetryPeriod.Duration = time.Second
}

// Flags returns the flags in the groups that --help prints.
func (o *Options) Flags() (fss cliflag.NamedFlagSets) {
	o.addIronicFlags(fss.FlagSet("Ironic"))
	addSettingsFlags(fss.FlagSet("Hosts"), &o.Settings)
	o.addDestinationFlags(fss.FlagSet("Hosts"))
	o.addSwitchFlags(fss.FlagSet("Hosts"))
	o.environment.flags = pflag.NewFlagSet("environment", pflag.ContinueOnError)
	o.environment.flags.AddFlagSet(fss.FlagSet("Ironic"))
	o.environment.flags.AddFlagSet(fss.FlagSet("Hosts"))
	o.addStorageFlags(fss.FlagSet("Storage"))
	o.Recommended.SecureServing.AddFlags(fss.FlagSet("Secure serving"))
	o.Recommended.Authentication.AddFlags(fss.FlagSet("Authentication"))
	o.Recommended.Authorization.AddFlags(fss.FlagSet("Authorization"))
	o.Recommended.Audit.AddFlags(fss.FlagSet("Auditing"))
	o.Recommended.Admission.AddFlags(fss.FlagSet("Admission"))
	o.Recommended.CoreAPI.AddFlags(fss.FlagSet("Kubernetes"))
	componentoptions.BindLeaderElectionFlags(&o.LeaderElection, fss.FlagSet("Leader election"))
	fss.FlagSet("Leader election").StringSliceVar(&o.OperatorNamespaces, "bare-metal-operator-namespaces", o.OperatorNamespaces,
		"Namespaces in which the leader looks for the Lease of the Bare Metal Operator. While that is renewed, all hosts are held.")
	o.Recommended.Traces.AddFlags(fss.FlagSet("Traces"))
	generic := fss.FlagSet("Generic server")
	o.Run.AddUniversalFlags(generic)
	o.Recommended.Features.AddFlags(generic)
	o.Recommended.EgressSelector.AddFlags(generic)
	logsapi.AddFlags(o.Logs, fss.FlagSet("Logs"))
	return fss
}

func (o *Options) addStorageFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.DataDir, "data-dir", o.DataDir,
		"Directory of the embedded etcd, which is used if no --etcd-servers are given. It can be used by a single replica only.")
	fs.Int64Var(&o.DataDirQuota, "data-dir-quota-bytes", o.DataDirQuota,
		"Maximum size of the database in --data-dir. Writes are refused when it is reached. The volume should be at least twice as large.")
	o.Recommended.Etcd.AddFlags(fs)
}

func (o *Options) addIronicFlags(fs *pflag.FlagSet) {
	c := &o.Ironic
	fs.StringVar(&c.Endpoint, "ironic-endpoint", c.Endpoint,
		"URL of Ironic, with or without /v1 (env IRONIC_ENDPOINT). With --ironic-cloud, it overrides the URL from the service catalog.")
	fs.StringVar(&c.Cloud, "ironic-cloud", c.Cloud,
		"Entry of clouds.yaml with which to authenticate with Keystone and find Ironic.")
	fs.StringVar(&c.UsernameFile, "ironic-username-file", c.UsernameFile,
		"File with the user name for HTTP basic authentication with Ironic. It is read again when it changes.")
	fs.StringVar(&c.PasswordFile, "ironic-password-file", c.PasswordFile,
		"File with the password for HTTP basic authentication with Ironic. It is read again when it changes.")
	fs.StringVar(&c.CAFile, "ironic-ca-file", c.CAFile,
		"File with the certificates of the authorities that may have signed Ironic's certificate (env IRONIC_CACERT_FILE). Default: the authorities that the system trusts.")
	fs.StringVar(&c.CertFile, "ironic-cert-file", c.CertFile, "File with the client certificate for Ironic (env IRONIC_CLIENT_CERT_FILE).")
	fs.StringVar(&c.KeyFile, "ironic-key-file", c.KeyFile, "File with the key of --ironic-cert-file (env IRONIC_CLIENT_PRIVATE_KEY_FILE).")
	fs.BoolVar(&c.Insecure, "ironic-insecure", c.Insecure,
		"Do not verify Ironic's certificate (env IRONIC_INSECURE). Anybody who can intercept the connection can then read the credentials of all BMCs.")
	fs.DurationVar(&c.Timeout, "ironic-timeout", client.DefaultTimeout, "Time limit for one request to Ironic (env IRONIC_CLIENT_TIMEOUT).")
	fs.IntVar(&c.ReadConnections, "ironic-read-connections", client.DefaultReadConnections, "How many reads this replica sends to Ironic at a time.")
	fs.IntVar(&c.WriteConnections, "ironic-write-connections", client.DefaultWriteConnections, "How many writes this replica sends to Ironic at a time.")
	fs.DurationVar(&o.Settings.PollInterval, "ironic-poll-interval", o.Settings.PollInterval,
		"How often the leader looks for changes in Ironic on behalf of watchers while nobody reads. While Ironic is working on a host, it does so up to three times as often, but not for more than a tenth of the time.")
	fs.DurationVar(&o.ReadTimeout, "ironic-read-timeout", o.ReadTimeout,
		"How long a read waits for Ironic. After that, the last recorded status is served with a warning.")
}

// Validate completes the options from the environment where no flag is given, and refuses
// invalid values and combinations with an error of a single line.
func (o *Options) Validate() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	o.completeFromEnvironment(refuse)
	external := o.validateStorage(refuse)
	if o.Ironic.Endpoint == "" && o.Ironic.Cloud == "" {
		refuse("one of --ironic-endpoint and --ironic-cloud is required")
	} else {
		errs = append(errs, o.Ironic.Validate()...)
	}
	o.validateSettings(refuse)
	if o.ReadTimeout < 100*time.Millisecond {
		refuse("--ironic-read-timeout is %s, it must be at least 100ms", o.ReadTimeout)
	}
	if l := o.LeaderElection; l.LeaderElect {
		if l.LeaseDuration.Duration <= l.RenewDeadline.Duration || float64(l.RenewDeadline.Duration) <= 1.2*float64(l.RetryPeriod.Duration) {
			refuse("--leader-elect-lease-duration (%s) must be greater than --leader-elect-renew-deadline (%s), which must be greater than 1.2 times --leader-elect-retry-period (%s)", l.LeaseDuration.Duration, l.RenewDeadline.Duration, l.RetryPeriod.Duration)
		}
	}
	for _, err := range o.Recommended.Validate() {
		if external || !strings.Contains(err.Error(), "--etcd-servers must be specified") {
			errs = append(errs, err)
		}
	}
	errs = append(errs, o.Run.Validate()...)
	if _, err := cliflag.TLSVersion(o.Recommended.SecureServing.MinTLSVersion); err != nil {
		refuse("--tls-min-version: %w", err)
	}
	if _, err := cliflag.TLSCipherSuites(o.Recommended.SecureServing.CipherSuites); err != nil {
		refuse("--tls-cipher-suites: %w", err)
	}
	return joinOnOneLine(errs)
}

// validateStorage checks the options about etcd, and reports whether an external etcd is used.
func (o *Options) validateStorage(refuse func(format string, args ...any)) (external bool) {
	servers := o.Recommended.Etcd.StorageConfig.Transport.ServerList
	switch {
	case len(servers) > 0 && o.DataDir != "":
		refuse("--etcd-servers and --data-dir are mutually exclusive: the former is for an external etcd, the latter for the embedded one")
	case len(servers) == 0 && o.DataDir == "":
		refuse("one of --etcd-servers (for an external etcd) and --data-dir (for the embedded one) is required")
	}
	if o.DataDirQuota < minEtcdQuota {
		refuse("--data-dir-quota-bytes is %d, it must be at least %d", o.DataDirQuota, minEtcdQuota)
	}
	for _, server := range servers {
		if u, err := url.Parse(server); err != nil || u.Scheme == "" || u.Host+u.Path == "" {
			refuse("--etcd-servers: %q is not a URL such as https://etcd-0:2379", server)
		}
	}
	return len(servers) > 0
}

// joinOnOneLine joins errors into a single one whose message is a single line. It returns nil
// if there are none.
func joinOnOneLine(errs []error) error {
	aggregate := utilerrors.NewAggregate(errs)
	if aggregate == nil {
		return nil
	}
	var texts []string
	for _, err := range aggregate.Errors() {
		texts = append(texts, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return errors.New(strings.Join(texts, "; "))
}
